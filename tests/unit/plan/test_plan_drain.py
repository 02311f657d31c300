"""Scale-in: victims, order, time, and changing one's mind."""

from __future__ import annotations

import pytest

from pd_operator.api import labels
from pd_operator.plan.drain import Patience, Resize, resize
from pd_operator.plan.observed import PodFacts, SetFacts

NOW = 1_000.0
TIMEOUT = 300.0


def _pod(ordinal: int, *, nodes: int = 1, since: float | None = None, **changes: object) -> PodFacts:
    rank = ordinal % nodes
    facts: dict[str, object] = {
        "name": f"demo-decode-11111111-{ordinal}",
        "role": labels.DECODE,
        "ordinal": ordinal,
        "rank": str(rank),
        "traffic": labels.HELD if rank else labels.DRAINING if since is not None else labels.SERVING,
        "drain_started": None if since is None else NOW - since,
        "ready": True,
        "was_ready": True,
    }
    return PodFacts(**(facts | changes))  # type: ignore[arg-type]


def _resize(
    replicas: int, target: int, *pods: PodFacts, nodes: int = 1, may_drain: bool = True, **idle: bool
) -> Resize:
    facts = SetFacts("demo-decode-11111111", labels.DECODE, "11111111", "22222222", replicas, nodes)
    answers = {f"demo-decode-11111111-{name.removeprefix('n')}": answer for name, answer in idle.items()}
    return resize(facts, pods, target, Patience(NOW, answers, TIMEOUT), may_drain=may_drain)


def _marked(step: Resize) -> list[tuple[str, str | None]]:
    return [(mark.name.rsplit("-", 1)[1], mark.labels.get(labels.TRAFFIC)) for mark in step.marks]


def test_nothing_to_do() -> None:
    assert _resize(2, 2, _pod(0), _pod(1)) == Resize(2)


def test_growth_is_immediate() -> None:
    assert _resize(1, 4, _pod(0)) == Resize(4)


def test_victims_are_the_highest_and_are_taken_from_the_router_first() -> None:
    step = _resize(4, 2, _pod(0), _pod(1), _pod(2), _pod(3))
    assert _marked(step) == [("2", labels.DRAINING), ("3", labels.DRAINING)]
    assert step.marks[0].annotations == {labels.DRAIN_STARTED: "1970-01-01T00:16:40Z"}
    assert step.pods == 4
    assert step.wait == 8.0


@pytest.mark.parametrize(
    ("since", "idle", "removed"),
    [
        (3.0, True, False),  # the router may still send it something
        (8.0, True, True),
        (8.0, False, False),
        (8.0, None, False),  # it could not be asked
        (299.0, None, False),
        (300.0, False, True),  # it had its time
    ],
)
def test_when_a_draining_worker_may_go(since: float, idle: bool | None, removed: bool) -> None:
    step = _resize(2, 1, _pod(0), _pod(1, since=since), **({} if idle is None else {"n1": idle}))
    assert step.pods == (1 if removed else 2)
    assert step.ask == (() if removed else ("demo-decode-11111111-1",))
    assert step.marks == ()


def test_only_a_suffix_is_removed() -> None:
    step = _resize(3, 1, _pod(0), _pod(1, since=60), _pod(2, since=60), n1=True, n2=False)
    assert step.pods == 3
    assert _resize(3, 1, _pod(0), _pod(1, since=60), _pod(2, since=60), n1=False, n2=True).pods == 2


def test_pods_that_never_were_ready_go_at_once() -> None:
    loading = {"ready": False, "was_ready": False}
    assert _resize(3, 1, _pod(0), _pod(1, **loading), _pod(2, **loading)) == Resize(1)
    assert _resize(3, 1, _pod(0), _pod(2, terminating=True)).pods == 1


def test_a_victim_stands_in_for_a_replica_that_is_not_ready() -> None:
    broken = {"ready": False, "was_ready": False}
    assert _resize(2, 1, _pod(0, **broken), _pod(1)) == Resize(2)
    assert _marked(_resize(2, 1, _pod(0, **broken), _pod(1, since=20), n1=True)) == [("1", labels.SERVING)]
    step = _resize(4, 2, _pod(0), _pod(1, **broken), _pod(2), _pod(3))
    assert _marked(step) == [("3", labels.DRAINING)]
    assert step.pods == 4
    assert _marked(_resize(2, 0, _pod(0, **broken), _pod(1))) == [("1", labels.DRAINING)], "nothing is wanted"


def test_a_worker_that_lost_readiness_may_still_hold_requests() -> None:
    step = _resize(2, 1, _pod(0), _pod(1, ready=False))
    assert step.pods == 2
    assert _marked(step) == [("1", labels.DRAINING)]


def test_a_victim_is_wanted_again() -> None:
    step = _resize(2, 2, _pod(0), _pod(1, since=60))
    assert _marked(step) == [("1", labels.SERVING)]
    assert step.marks[0].annotations == {labels.DRAIN_STARTED: None}


def test_a_drain_without_a_date_or_with_an_impossible_one_gets_one() -> None:
    for since in (None, -3600.0):
        step = _resize(2, 1, _pod(0), _pod(1, since=since, traffic=labels.DRAINING), n1=True)
        assert step.pods == 2
        assert list(step.marks[0].annotations) == [labels.DRAIN_STARTED]


def test_what_may_not_be_drained_yet_keeps_serving() -> None:
    step = _resize(2, 0, _pod(0), _pod(1), may_drain=False)
    assert step == Resize(2)
    assert _marked(_resize(1, 0, _pod(0, since=20), may_drain=False, n0=True)) == []
    assert _resize(2, 0, _pod(0), _pod(1, ready=False, was_ready=False), may_drain=False).pods == 1


def test_ranks_of_a_replica_are_told_apart() -> None:
    fresh = [_pod(n, nodes=2, rank=None, traffic=labels.HELD, ready=False, was_ready=False) for n in range(4)]
    step = _resize(4, 4, *fresh, nodes=2)
    assert [(m.labels[labels.TRAFFIC], m.labels[labels.RANK]) for m in step.marks] == [
        (labels.SERVING, "0"),
        (labels.HELD, "1"),
        (labels.SERVING, "0"),
        (labels.HELD, "1"),
    ]


def test_replicas_of_several_pods_go_as_a_whole() -> None:
    pods = [_pod(n, nodes=2, since=60 if n == 2 else None) for n in range(4)]
    assert _resize(4, 2, *pods, nodes=2).pods == 4
    assert _resize(4, 2, *pods, nodes=2, n2=True).pods == 2
    # Someone scaled the set by hand to half a replica more.
    assert _resize(3, 2, *pods[:3], nodes=2, n2=True).pods == 2
