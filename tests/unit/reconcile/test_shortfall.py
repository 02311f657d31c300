"""Why a StatefulSet creates no pods is read from its Events, late enough and seldom enough."""

from __future__ import annotations

from datetime import UTC, datetime

from pd_operator.api import conditions
from pd_operator.reconcile.shortfall import PATIENCE_SECONDS, READ_EVERY_SECONDS, Shortfalls
from tests.unit.reconcile.fakes import FakeClock, FakeCluster

KEY = ("default", "demo")
MISSING = {"web": 1}
QUOTA = (
    'create Pod web-0 in StatefulSet web failed error: pods "web-0" is forbidden: exceeded quota: pods, '
    "requested: pods=1, used: pods=2, limited: pods=2"
)


def event(clock: FakeClock, message: str, *, age: float = 0.0, reason: str = "FailedCreate") -> dict[str, object]:
    moment = datetime.fromtimestamp(clock.now() - age, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"reason": reason, "message": message, "lastTimestamp": moment, "eventTime": None}


async def test_nothing_is_read_before_pods_have_been_missing_for_a_while() -> None:
    cluster, clock = FakeCluster(), FakeClock()
    shortfalls = Shortfalls(cluster, clock)
    assert await shortfalls.problems(KEY, MISSING) == ({}, PATIENCE_SECONDS)
    clock.advance(PATIENCE_SECONDS / 2)
    await shortfalls.problems(KEY, MISSING)
    assert cluster.calls == []


async def test_the_reason_is_told_and_not_read_again_at_once() -> None:
    cluster, clock = FakeCluster(), FakeClock()
    cluster.events = [
        event(clock, "old", age=60),
        event(clock, QUOTA),
        event(clock, "created", reason="SuccessfulCreate"),
    ]
    shortfalls = Shortfalls(cluster, clock)
    await shortfalls.problems(KEY, MISSING)
    clock.advance(PATIENCE_SECONDS)
    problems, again = await shortfalls.problems(KEY, MISSING)
    assert problems["web"].reason == conditions.QUOTA_EXCEEDED
    assert problems["web"].subject == "StatefulSet web"
    assert problems["web"].message.startswith("forbidden: exceeded quota: pods, requested: pods=1")
    assert again == READ_EVERY_SECONDS
    await shortfalls.problems(KEY, MISSING)
    assert len(cluster.calls) == 1
    clock.advance(READ_EVERY_SECONDS)
    await shortfalls.problems(KEY, MISSING)
    assert len(cluster.calls) == 2


async def test_events_of_the_past_do_not_count() -> None:
    cluster, clock = FakeCluster(), FakeClock()
    cluster.events = [event(clock, QUOTA, age=3600)]
    shortfalls = Shortfalls(cluster, clock)
    await shortfalls.problems(KEY, MISSING)
    clock.advance(PATIENCE_SECONDS)
    assert (await shortfalls.problems(KEY, MISSING))[0] == {}


async def test_a_set_that_has_its_pods_is_forgotten() -> None:
    cluster, clock = FakeCluster(), FakeClock()
    cluster.events = [event(clock, QUOTA)]
    shortfalls = Shortfalls(cluster, clock)
    await shortfalls.problems(KEY, MISSING)
    clock.advance(PATIENCE_SECONDS)
    assert (await shortfalls.problems(KEY, MISSING))[0]
    assert await shortfalls.problems(KEY, {}) == ({}, None)
    assert (await shortfalls.problems(KEY, MISSING))[0] == {}
