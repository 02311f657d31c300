"""Why a StatefulSet creates no pods is read from its Events, late enough and seldom enough."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from pd_operator.api import conditions
from pd_operator.plan.observed import Problem
from pd_operator.reconcile.errors import TransientError
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


class Desk:
    """Shortfalls with their reader, who reads when told."""

    def __init__(self) -> None:
        self.cluster, self.clock = FakeCluster(), FakeClock()
        self.news: list[tuple[str, str]] = []
        self.shortfalls = Shortfalls(self.cluster, self.clock, self.news.append)

    async def look(self, after: float = 0.0) -> dict[str, Problem]:
        """Ask, let the reader read, and return what is known then."""
        self.clock.advance(after)
        self.shortfalls.problems(KEY, MISSING)
        reader = asyncio.create_task(self.shortfalls.forever())
        for _ in range(10):
            await asyncio.sleep(0)
        reader.cancel()
        return self.shortfalls.problems(KEY, MISSING)[0]


async def test_nothing_is_read_before_pods_have_been_missing_for_a_while() -> None:
    desk = Desk()
    assert desk.shortfalls.problems(KEY, MISSING) == ({}, PATIENCE_SECONDS)
    await desk.look(after=PATIENCE_SECONDS / 2)
    assert desk.cluster.calls == []


async def test_the_reason_is_told_and_not_read_again_at_once() -> None:
    desk = Desk()
    desk.cluster.events = [
        event(desk.clock, "old", age=60),
        event(desk.clock, QUOTA),
        event(desk.clock, "created", reason="SuccessfulCreate"),
    ]
    await desk.look()
    problems = await desk.look(after=PATIENCE_SECONDS)
    assert problems["web"].reason == conditions.QUOTA_EXCEEDED
    assert problems["web"].subject == "StatefulSet web"
    assert problems["web"].message.startswith("forbidden: exceeded quota: pods, requested: pods=1")
    assert desk.news == [KEY]
    await desk.look()
    assert len(desk.cluster.calls) == 1
    await desk.look(after=READ_EVERY_SECONDS)
    assert len(desk.cluster.calls) == 2
    assert desk.news == [KEY]


async def test_events_of_the_past_do_not_count() -> None:
    desk = Desk()
    desk.cluster.events = [event(desk.clock, QUOTA, age=3600)]
    await desk.look()
    assert await desk.look(after=PATIENCE_SECONDS) == {}


async def test_a_set_that_has_its_pods_is_forgotten() -> None:
    desk = Desk()
    desk.cluster.events = [event(desk.clock, QUOTA)]
    await desk.look()
    assert await desk.look(after=PATIENCE_SECONDS)
    assert desk.shortfalls.problems(KEY, {}) == ({}, None)
    assert await desk.look() == {}


async def test_events_that_cannot_be_read_leave_what_is_known() -> None:
    desk = Desk()
    desk.cluster.events = [event(desk.clock, QUOTA)]
    await desk.look()
    known = await desk.look(after=PATIENCE_SECONDS)
    desk.cluster.fault = lambda *_: TransientError("no answer in time")
    assert await desk.look(after=READ_EVERY_SECONDS) == known
