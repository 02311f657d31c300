"""What counts as missing, zero or invalid, without a Prometheus."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from pd_operator.adapters.prometheus import Sample
from pd_operator.adapters.queries import Metric
from pd_operator.adapters.windows import Answers, Target, percentile, window_of
from pd_operator.scaling.window import MetricsFault

TARGET = Target(key=("ns", "demo"), prefill=frozenset({"p"}), decode=frozenset({"d"}), router=frozenset({"r"}))


def sample(pod: str, value: float, le: str | None = None) -> Sample:
    labels = {"namespace": "ns", "pod": pod} | ({"le": le} if le else {})
    return Sample(labels, value)


def answers(**metrics: Sequence[Sample]) -> Answers:
    fresh = {Metric.AGE: [sample("p", 1), sample("d", 2)], Metric.SAMPLES: [sample("p", 4), sample("d", 4)]}
    return Answers(fresh | {Metric(name): samples for name, samples in metrics.items()}, window_seconds=60)


def test_counters_without_series_are_zero_and_gauges_are_missing() -> None:
    window = window_of(answers(), TARGET)
    assert window.fault is None
    assert window.completion_rate == 0
    assert window.decode.running is None
    assert window.arrival_rate is None
    assert window.sample_age_seconds == 2


def test_a_router_that_reports_and_counted_nothing_shows_no_arrivals() -> None:
    window = window_of(answers(router_age=[sample("r", 1)]), TARGET)
    assert window.arrival_rate == 0


def test_the_routers_latency_is_the_second_choice() -> None:
    router = [sample("r", 1.0, "0.5"), sample("r", 1.0, "+Inf")]
    window = window_of(answers(router_age=[sample("r", 1)], router_ttft=router), TARGET)
    assert window.ttft_seconds == pytest.approx(0.45)
    engine = [sample("d", 0.0, "1.0"), sample("d", 1.0, "2.0"), sample("d", 1.0, "+Inf")]
    window = window_of(answers(router_age=[sample("r", 1)], router_ttft=router, ttft=engine), TARGET)
    assert window.ttft_seconds == pytest.approx(1.9)


def test_other_services_pods_do_not_count() -> None:
    foreign = Sample({"namespace": "other", "pod": "d"}, 100.0)
    window = window_of(answers(running=[sample("d", 3), foreign, sample("x", 50)]), TARGET)
    assert window.decode.running == 3


def test_too_few_scrapes_for_rates_are_told() -> None:
    window = window_of(answers(samples=[sample("p", 1), sample("d", 1)]), TARGET)
    assert window.fault is MetricsFault.PARTIAL
    assert "windowSeconds" in window.message


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_invalid(bad: float) -> None:
    window = window_of(answers(kv_usage=[sample("d", bad)]), TARGET)
    assert window.fault is MetricsFault.INVALID
    assert "kv_usage" in window.message


def test_one_bad_pod_of_several_is_left_out() -> None:
    target = Target(key=("ns", "demo"), prefill=frozenset({"p"}), decode=frozenset({"d", "e"}))
    age = [sample("p", 1), sample("d", 1), sample("e", 1)]
    window = window_of(answers(age=age, kv_usage=[sample("d", math.nan), sample("e", 0.4)]), target)
    assert window.fault is None
    assert window.decode.kv_usage == 0.4


def test_samples_without_the_usual_labels_are_ignored() -> None:
    lost = [Sample({}, 5.0), Sample({"pod": "d"}, 5.0)]
    assert window_of(answers(running=lost), TARGET).decode.running is None


@pytest.mark.parametrize(
    ("buckets", "part", "expected"),
    [
        ({0.1: 1.0, 0.2: 2.0, math.inf: 2.0}, 0.5, 0.1),
        ({0.1: 1.0, 0.2: 2.0, math.inf: 2.0}, 0.75, 0.15),
        ({0.1: 0.0, 0.2: 0.0, math.inf: 2.0}, 0.9, 0.2),  # beyond the last bound: at least that long
        ({0.1: 2.0, 0.2: 1.0, math.inf: 2.0}, 0.9, 0.09),  # not monotonous
        ({math.inf: 2.0}, 0.9, 0.0),
    ],
)
def test_percentiles(buckets: dict[float, float], part: float, expected: float) -> None:
    latency = percentile(buckets, part, window_seconds=10)
    assert latency is not None
    assert latency.seconds == pytest.approx(expected)
    assert latency.observations == 20


@pytest.mark.parametrize("buckets", [{}, {0.1: 0.0, math.inf: 0.0}, {0.1: 3.0}, {0.1: 1e-9, math.inf: 1e-9}])
def test_no_observation_has_no_percentile(buckets: dict[float, float]) -> None:
    assert percentile(buckets, 0.9, window_seconds=60) is None
