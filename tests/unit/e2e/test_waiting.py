"""Waiting with a deadline, and merging specs."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.kubectl import DeadlineError, KubectlError, names, wait_until
from e2e.stack import merged


def test_it_returns_the_first_true_answer() -> None:
    answers = iter([None, "", "there"])
    assert wait_until("something", lambda: next(answers), within=5, every=0) == "there"


def test_a_missed_deadline_says_what_was_seen_last() -> None:
    def look() -> bool:
        raise KubectlError("pods not found")

    with pytest.raises(DeadlineError, match="not within 0 s: a pod; last seen: pods not found"):
        wait_until("a pod", look, within=0, every=0)


def test_an_unforeseen_error_is_not_waited_out() -> None:
    def look() -> bool:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        wait_until("a bug", look, within=60)


def test_objects_merge_member_by_member_and_none_removes() -> None:
    base: dict[str, Any] = {"scaling": {"mode": "SLO", "budget": {"accelerators": 3}}, "slo": {"itl": 1}}
    over = {"scaling": {"mode": "FixedRatio", "budget": None, "fixedRatio": {"prefill": 1}}}
    assert merged(base, over) == {
        "scaling": {"mode": "FixedRatio", "fixedRatio": {"prefill": 1}},
        "slo": {"itl": 1},
    }
    assert base["scaling"]["mode"] == "SLO", "the example itself must not change"


def test_names_are_sorted() -> None:
    assert names([{"metadata": {"name": "b"}}, {"metadata": {"name": "a"}}]) == ["a", "b"]
