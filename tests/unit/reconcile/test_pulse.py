"""A watch that is not begun anew in its time is dead."""

from __future__ import annotations

import asyncio

from pd_operator.reconcile.pulse import LIMIT_SECONDS, SERVER_SECONDS, Pulse
from tests.unit.reconcile.fakes import FakeClock

PODS, SETS = "/api/v1/pods", "/apis/apps/v1/statefulsets"


async def test_all_watches_must_begin() -> None:
    pulse = Pulse([PODS, SETS], FakeClock())
    waiter = asyncio.create_task(pulse.all_begun())
    pulse.begun(PODS)
    pulse.begun("/apis/somebody/else")
    await asyncio.sleep(0)
    assert not waiter.done()
    pulse.begun(SETS)
    await asyncio.wait_for(waiter, timeout=1)


def test_a_watch_that_is_begun_anew_is_alive_for_ever() -> None:
    clock = FakeClock()
    pulse = Pulse([PODS], clock)
    for _ in range(10):
        clock.advance(SERVER_SECONDS)
        pulse.begun(PODS)
        assert pulse.silent() == []


def test_a_silent_watch_is_found_among_living_ones() -> None:
    clock = FakeClock()
    pulse = Pulse([PODS, SETS], clock)
    clock.advance(LIMIT_SECONDS - 1)
    pulse.begun(PODS)
    clock.advance(2)
    assert pulse.silent() == [SETS]


def test_an_api_server_that_refuses_is_no_reason_to_restart() -> None:
    clock = FakeClock()
    pulse = Pulse([PODS], clock)
    clock.advance(LIMIT_SECONDS + 1)
    pulse.tried(PODS)
    assert pulse.silent() == []
