"""Lists and watches feed the store and ask for runs."""

from __future__ import annotations

import pytest

from pd_operator.api import labels
from pd_operator.reconcile.errors import ForbiddenError, TransientError
from pd_operator.reconcile.kinds import POD, SERVICE_KIND
from pd_operator.reconcile.sync import FIRST_LIST_AGAIN_SECONDS, RESYNC_SECONDS, SETTLE_SECONDS
from tests.unit.reconcile.fakes import service
from tests.unit.reconcile.world import KEY, World

POD_BODY = {
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "default", "uid": "p", "labels": {labels.SERVICE: "demo"}},
    "spec": {},
    "status": {},
}


class EnoughError(Exception):
    """Ends a loop that never ends."""


async def test_no_run_is_asked_for_before_everything_was_listed() -> None:
    world = World()
    world.intake.saw(SERVICE_KIND, world.cluster.create(service()), deleted=False)
    assert world.queue.depth == 0
    await world.sync.first()
    assert world.queue.depth == 1


async def test_a_service_runs_at_once_and_events_of_children_are_gathered() -> None:
    world = await World().start()
    world.intake.saw(POD, world.cluster.create(POD_BODY), deleted=False)
    assert world.queue.depth == 0
    world.clock.advance(SETTLE_SECONDS)
    assert world.queue.depth == 1
    await world.queue.get()
    world.queue.done(KEY)
    world.intake.saw(SERVICE_KIND, world.cluster.create(service()), deleted=False)
    assert world.queue.depth == 1


async def test_an_event_without_news_asks_for_nothing() -> None:
    world = await World().start(service(), POD_BODY)
    await world.queue.get()
    world.queue.done(KEY)
    world.intake.saw(POD, world.cluster.objects["Pod", "p"], deleted=False)
    world.clock.advance(10)
    assert world.queue.depth == 0
    assert world.registry.get_sample_value("pd_operator_watch_events_total", {"kind": "Pod"}) == 1


async def test_a_first_list_that_fails_is_tried_again() -> None:
    world = World()
    answers = [TransientError("down"), TransientError("busy", retry_after=9), None]
    world.cluster.fault = lambda _verb, kind, _name: answers.pop(0) if kind == "Pod" else None
    await world.sync.first()
    assert world.store.ready
    assert world.clock.slept == [FIRST_LIST_AGAIN_SECONDS, 9]


async def test_a_first_list_that_is_refused_is_told() -> None:
    world = World()
    world.cluster.fault = lambda _verb, kind, _name: ForbiddenError("no") if kind == "Pod" else None
    with pytest.raises(ForbiddenError):
        await world.sync.first()
    assert not world.store.ready


async def test_a_resync_comes_at_a_random_time_survives_failures_and_spreads_its_work() -> None:
    world = await World().start(service(), POD_BODY)
    await world.queue.get()
    world.queue.done(KEY)
    del world.cluster.objects["Pod", "p"]
    rounds = 0

    def fault(verb: str, kind: str, _name: str) -> TransientError | None:
        nonlocal rounds
        if kind == "Pod":
            rounds += 1
            if rounds == 1:
                return TransientError("down")
            if rounds == 3:
                raise EnoughError
        return None

    world.cluster.fault = fault
    with pytest.raises(EnoughError):
        await world.sync.forever()
    assert all(RESYNC_SECONDS[0] <= wait <= RESYNC_SECONDS[1] for wait in world.clock.slept)
    assert len(set(world.clock.slept)) == 3
    assert world.registry.get_sample_value("pd_operator_resync_repairs_total") == 1
    assert world.queue.depth == 1
