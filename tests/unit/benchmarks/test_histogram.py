"""Quantiles are those that Prometheus would tell."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from benchmarks import histogram, table


@pytest.mark.parametrize(("q", "expected"), [(0.25, 0.5), (0.5, 1.0), (0.625, 2.0), (0.75, 3.0), (0.99, 3.0)])
def test_quantiles(q: float, expected: float) -> None:
    registry = CollectorRegistry()
    seen = Histogram("run_seconds", "Runs.", ["kind"], buckets=(1.0, 3.0), registry=registry)
    for kind, value in (("a", 0.1), ("a", 0.9), ("b", 2.0), ("b", 100.0)):
        seen.labels(kind=kind).observe(value)
    page = generate_latest(registry).decode()
    assert histogram.quantile(page, "run_seconds", q) == pytest.approx(expected)


def test_nothing_seen_is_zero() -> None:
    assert histogram.quantile("", "run_seconds", 0.5) == 0.0


def test_counters_are_summed_over_labels() -> None:
    registry = CollectorRegistry()
    calls = Counter("calls_total", "Calls.", ["verb"], registry=registry)
    calls.labels(verb="get").inc(2)
    calls.labels(verb="patch").inc(3)
    assert histogram.total(generate_latest(registry).decode(), "calls_total") == 5


def test_the_table_puts_ours_before_the_marks() -> None:
    lines = table.render([{"n": 200, "ready_s": 1.5}]).splitlines()
    who = [line.split()[0] for line in lines if " 200 " in line]
    assert who == ["this", "lws", "rbg"]
