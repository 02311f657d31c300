"""What the measurement reads from metrics pages and from answers."""

from __future__ import annotations

import os

import pytest

from e2e.client import Answer
from e2e.sglang_cpu.measure import descendants, felt, is_counter, moved, parse, resident_mib

PAGE = """\
# HELP sglang:num_running_reqs The number of running requests.
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{engine_type="decode",model_name="tiny"} 3.0
sglang:time_to_first_token_seconds_bucket{le="0.1",model_name="tiny"} 6.0
sglang:time_to_first_token_seconds_sum{is_streaming="true"} 1.5
sglang:time_to_first_token_seconds_sum{is_streaming="false"} 0.25
smg_tokio_event_loop_stalls_total 78
"""


def test_a_page_is_summed_over_labels_without_buckets() -> None:
    assert parse(PAGE) == {
        "sglang:num_running_reqs": 3.0,
        "sglang:time_to_first_token_seconds_sum": 1.75,
        "smg_tokio_event_loop_stalls_total": 78.0,
    }


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a_total", True), ("a_seconds_sum", True), ("a_seconds_count", True), ("a_counting", False)],
)
def test_counters_are_known_by_their_names(name: str, expected: bool) -> None:
    assert is_counter(name) is expected


def test_counters_become_rates_gauges_means_and_what_stands_still_is_left_out() -> None:
    pages = [
        {"tokens_total": 100.0, "running": 0.0, "size": 5.0},
        {"tokens_total": 150.0, "running": 4.0, "size": 5.0},
        {"tokens_total": 180.0, "running": 6.0, "size": 5.0},
        {"tokens_total": 200.0, "running": 0.0, "size": 5.0},
    ]
    assert moved(pages, seconds=10) == {"tokens_total": 10.0, "running": 5.0}


def test_a_series_that_appears_under_load_counts_from_zero() -> None:
    assert moved([{}, {"late_total": 4.0}, {"late_total": 10.0}], seconds=5) == {"late_total": 2.0}


def test_what_clients_felt() -> None:
    answers = [Answer("ab", 2, "length", ttft, (0.010, 0.030)) for ttft in (0.1, 0.2, 0.3)]
    assert felt(answers, seconds=2) == {
        "requests_per_second": 1.5,
        "generated_tokens_per_second": 3.0,
        "ttft_p50_ms": 200.0,
        "ttft_p90_ms": 280.0,
        "itl_p50_ms": 20.0,
        "itl_p90_ms": 30.0,
    }


def test_answers_of_one_token_have_no_time_between_tokens() -> None:
    answers = [Answer("a", 1, "length", 0.1, ())] * 2
    assert felt(answers, seconds=1)["ttft_p50_ms"] == 100.0
    assert "itl_p50_ms" not in felt(answers, seconds=1)


def test_memory_is_that_of_the_process_and_its_children() -> None:
    assert descendants(os.getpid())[0] == os.getpid()
    assert resident_mib(os.getpid()) > 1
