"""The work queue: which services must be reconciled, each by one worker at a time.

Semantics of controller-runtime's queue: a key that is already waiting is not added twice; a key that is added while
a worker holds it runs again afterwards; a failed key waits exponentially longer each time.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from pd_operator.reconcile.ports import Clock, ServiceKey, Timer

#: First and longest wait after a failure, in seconds. The longest is short enough that a repaired cluster is
#: noticed without help.
BACKOFF_FIRST_SECONDS: Final = 0.25
BACKOFF_LONGEST_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class _Delayed:
    due: float
    timer: Timer


class WorkQueue:
    """Keys to reconcile. Used from one event loop; every method but `get` returns at once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ready: asyncio.Queue[ServiceKey] = asyncio.Queue()
        self._waiting_since: dict[ServiceKey, float] = {}
        self._running_since: dict[ServiceKey, float] = {}
        self._again: dict[ServiceKey, float] = {}
        self._delayed: dict[ServiceKey, _Delayed] = {}
        self._failures: dict[ServiceKey, int] = {}

    @property
    def depth(self) -> int:
        """Keys that wait for a worker now."""
        return len(self._waiting_since)

    @property
    def running(self) -> int:
        """Keys that workers hold."""
        return len(self._running_since)

    @property
    def oldest_wait_seconds(self) -> float:
        """How long the first waiting key has waited for a worker."""
        return self._age(self._waiting_since)

    @property
    def longest_run_seconds(self) -> float:
        """How long the slowest running key has been with its worker."""
        return self._age(self._running_since)

    def add(self, key: ServiceKey, after: float = 0.0) -> None:
        """Ask for a run of `key` in `after` seconds at the latest."""
        if key in self._waiting_since:
            return
        if key in self._running_since:
            self._again[key] = min(after, self._again.get(key, after))
        elif after <= 0:
            self._cancel(key)
            self._waiting_since[key] = self._clock.monotonic()
            self._ready.put_nowait(key)
        else:
            self._delay(key, after)

    def retry(self, key: ServiceKey, at_least: float = 0.0) -> float:
        """Ask for another run after a failure; returns the wait in seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        wait = min(BACKOFF_LONGEST_SECONDS, BACKOFF_FIRST_SECONDS * 2.0 ** min(failures, 16))
        wait = max(wait, at_least)
        self.add(key, after=wait)
        return wait

    def forget_failures(self, key: ServiceKey) -> None:
        """The key succeeded: its next failure waits shortly again."""
        self._failures.pop(key, None)

    def drop(self, key: ServiceKey) -> None:
        """The service is gone: nothing more is scheduled for it."""
        self._cancel(key)
        self._again.pop(key, None)
        self._failures.pop(key, None)

    async def get(self) -> ServiceKey:
        """The next key; the caller must call `done` with it."""
        key = await self._ready.get()
        del self._waiting_since[key]
        # The run that begins now computes anew when the key must be looked at next.
        self._cancel(key)
        self._running_since[key] = self._clock.monotonic()
        return key

    def done(self, key: ServiceKey) -> None:
        """A worker is through with the key."""
        del self._running_since[key]
        again = self._again.pop(key, None)
        if again is not None:
            self.add(key, after=again)

    def _delay(self, key: ServiceKey, after: float) -> None:
        due = self._clock.monotonic() + after
        earlier = self._delayed.get(key)
        if earlier is not None:
            if earlier.due <= due:
                return
            earlier.timer.cancel()
        self._delayed[key] = _Delayed(due, self._clock.call_later(after, lambda: self._arrive(key)))

    def _arrive(self, key: ServiceKey) -> None:
        self._delayed.pop(key, None)
        self.add(key)

    def _cancel(self, key: ServiceKey) -> None:
        delayed = self._delayed.pop(key, None)
        if delayed is not None:
            delayed.timer.cancel()

    def _age(self, since: dict[ServiceKey, float]) -> float:
        return max(0.0, self._clock.monotonic() - min(since.values())) if since else 0.0
