"""The real clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from pd_operator.reconcile.ports import Timer


class SystemClock:
    """Time of this machine and of the running event loop."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that never jump."""
        return time.monotonic()

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Run `call` on the event loop after some time."""
        return asyncio.get_running_loop().call_later(seconds, call)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)
