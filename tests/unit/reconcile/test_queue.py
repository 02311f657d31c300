"""The work queue behaves as controller-runtime's."""

from __future__ import annotations

import asyncio

import pytest

from pd_operator.reconcile.queue import BACKOFF_FIRST_SECONDS, BACKOFF_LONGEST_SECONDS, WorkQueue
from tests.unit.reconcile.fakes import FakeClock

A = ("default", "a")
B = ("default", "b")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def queue(clock: FakeClock) -> WorkQueue:
    return WorkQueue(clock)


async def take(queue: WorkQueue) -> tuple[str, str]:
    return await asyncio.wait_for(queue.get(), timeout=1)


async def test_a_key_added_often_runs_once(queue: WorkQueue) -> None:
    for _ in range(5):
        queue.add(A)
    assert await take(queue) == A
    assert queue.depth == 0


async def test_keys_come_in_the_order_in_which_they_were_added(queue: WorkQueue) -> None:
    queue.add(B)
    queue.add(A)
    assert [await take(queue), await take(queue)] == [B, A]


async def test_a_key_is_never_with_two_workers_and_runs_again_when_it_was_added_meanwhile(queue: WorkQueue) -> None:
    queue.add(A)
    await take(queue)
    queue.add(A)
    queue.add(A)
    assert queue.depth == 0
    queue.done(A)
    assert await take(queue) == A
    queue.done(A)
    assert queue.depth == 0


async def test_the_earliest_of_several_delays_counts(queue: WorkQueue, clock: FakeClock) -> None:
    queue.add(A, after=30)
    queue.add(A, after=10)
    queue.add(A, after=20)
    clock.advance(9.9)
    assert queue.depth == 0
    clock.advance(0.2)
    assert queue.depth == 1
    await take(queue)
    queue.done(A)
    clock.advance(100)
    assert queue.depth == 0


async def test_an_immediate_add_overtakes_a_delay(queue: WorkQueue, clock: FakeClock) -> None:
    queue.add(A, after=10)
    queue.add(A)
    await take(queue)
    queue.done(A)
    clock.advance(20)
    assert queue.depth == 0


async def test_a_delay_asked_for_during_a_run_begins_after_it(queue: WorkQueue, clock: FakeClock) -> None:
    queue.add(A)
    await take(queue)
    queue.add(A, after=5)
    clock.advance(6)
    assert queue.depth == 0
    queue.done(A)
    clock.advance(4.9)
    assert queue.depth == 0
    clock.advance(0.2)
    assert queue.depth == 1


async def test_failures_wait_longer_each_time_up_to_a_limit_and_success_forgets(queue: WorkQueue) -> None:
    waits = []
    for _ in range(12):
        queue.add(A)
        await take(queue)
        waits.append(queue.retry(A))
        queue.done(A)
    assert waits[:3] == [BACKOFF_FIRST_SECONDS, BACKOFF_FIRST_SECONDS * 2, BACKOFF_FIRST_SECONDS * 4]
    assert waits[-1] == BACKOFF_LONGEST_SECONDS
    queue.forget_failures(A)
    assert queue.retry(A) == BACKOFF_FIRST_SECONDS


async def test_a_wait_that_the_server_asks_for_is_kept(queue: WorkQueue) -> None:
    assert queue.retry(A, at_least=7.0) == 7.0


async def test_failures_of_one_key_do_not_slow_another(queue: WorkQueue) -> None:
    for _ in range(5):
        queue.retry(A)
    assert queue.retry(B) == BACKOFF_FIRST_SECONDS


async def test_a_dropped_key_does_not_come_back(queue: WorkQueue, clock: FakeClock) -> None:
    queue.add(A, after=5)
    queue.drop(A)
    clock.advance(10)
    assert queue.depth == 0


async def test_ages_tell_how_long_keys_wait_and_run(queue: WorkQueue, clock: FakeClock) -> None:
    assert (queue.oldest_wait_seconds, queue.longest_run_seconds) == (0.0, 0.0)
    queue.add(A)
    queue.add(B)
    clock.advance(3)
    assert queue.oldest_wait_seconds == 3
    await take(queue)
    clock.advance(4)
    assert (queue.oldest_wait_seconds, queue.longest_run_seconds, queue.running) == (7, 4, 1)
