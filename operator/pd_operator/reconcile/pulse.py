"""Are the watches alive?

A watch that has gone silent looks exactly like a cluster in which nothing happens. But every watch ends by its own
time limit and is begun anew; one that has not been begun anew for longer than that is dead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from pd_operator.reconcile.ports import Clock

#: The API server ends a watch after this time.
SERVER_SECONDS: Final = 240
#: The client gives up one that did not end by itself.
CLIENT_SECONDS: Final = SERVER_SECONDS + 15
#: Longest time from one beginning to the next, connecting and retrying included.
LIMIT_SECONDS: Final = CLIENT_SECONDS + 60


class Pulse:
    """Beginnings of watches, by URL path.

    Args:
        paths: The watches there should be.
        clock: Time.
    """

    def __init__(self, paths: Iterable[str], clock: Clock) -> None:
        self._clock = clock
        self._last = dict.fromkeys(paths, clock.monotonic())
        self._waiting = set(self._last)
        self._begun = asyncio.Event()

    def tried(self, path: str) -> None:
        """A watch is being begun; even if the API server refuses, its loop is alive."""
        if path in self._last:
            self._last[path] = self._clock.monotonic()

    def begun(self, path: str) -> None:
        """A watch was begun: everything that was there before has been reported."""
        self.tried(path)
        self._waiting.discard(path)
        if not self._waiting:
            self._begun.set()

    async def all_begun(self) -> None:
        """Wait until every watch has been begun for the first time."""
        await self._begun.wait()

    def silent(self) -> list[str]:
        """Watches that must be dead."""
        now = self._clock.monotonic()
        return sorted(path for path, last in self._last.items() if now - last > LIMIT_SECONDS)
