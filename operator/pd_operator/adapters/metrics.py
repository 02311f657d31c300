"""Polls the metrics of all services in SLO mode, and keeps the latest window of each."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from pd_operator.adapters.prometheus import MetricsError, Sample
from pd_operator.adapters.queries import Metric, queries
from pd_operator.adapters.windows import Answers, Target, windows_of
from pd_operator.reconcile.ports import Clock, ServiceKey
from pd_operator.scaling.window import MetricsFault, Window

log = logging.getLogger(__name__)

#: Polls of several operators, or of one that was restarted often, should not fall on the same moment.
JITTER: Final = 0.1


class MetricSource(Protocol):
    """Prometheus, or what stands in for it."""

    async def ask(self, queries: Mapping[Metric, str]) -> Mapping[Metric, Sequence[Sample]]:
        """Answers of instant queries. Raises `MetricsError`."""


@dataclass(frozen=True, slots=True)
class _Latest:
    window: Window
    at: float


class Poller:
    """`Windows`, filled by a poll every few seconds.

    Args:
        source: Prometheus.
        targets: The services to poll for; called before each poll.
        polled: Called with each of their keys after it, so that they are looked at.
        clock: Time.
        every_seconds: Time from one poll to the next.
        window_seconds: Time over which rates and averages are taken.
        result: Called after each poll with `ok` or the fault's name, for the operator's own metrics.
    """

    def __init__(
        self,
        source: MetricSource,
        targets: Callable[[], Sequence[Target]],
        polled: Callable[[ServiceKey], None],
        clock: Clock,
        *,
        every_seconds: float,
        window_seconds: int,
        result: Callable[[str], None] = lambda _: None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._source = source
        self._targets = targets
        self._polled = polled
        self._clock = clock
        self._every = every_seconds
        self._window_seconds = window_seconds
        self._result = result
        self._jitter = jitter
        self._latest: dict[ServiceKey, _Latest] = {}
        self._last_fault: MetricsFault | None = None

    def window(self, key: ServiceKey) -> Window | None:
        """The latest window, its samples as old as they are now; None before the first poll for the service."""
        latest = self._latest.get(key)
        if latest is None:
            return None
        age = latest.window.sample_age_seconds
        if age is None:
            return latest.window
        return replace(latest.window, sample_age_seconds=age + self._clock.monotonic() - latest.at)

    async def forever(self) -> None:
        """Poll until cancelled."""
        while True:
            started = self._clock.monotonic()
            try:
                await self.poll()
            except Exception:
                # A bug here must not end the operator. The windows grow old, and scaling holds.
                log.exception("this is a bug in the operator: metrics are not read")
                self._result("bug")
            spent = self._clock.monotonic() - started
            pause = self._every * (1 + JITTER * (2 * self._jitter() - 1))
            await self._clock.sleep(max(pause - spent, self._every / 10))

    async def poll(self) -> None:
        """One poll for all services."""
        targets = self._targets()
        windows = await self._windows(targets) if targets else {}
        now = self._clock.monotonic()
        self._latest = {key: _Latest(window, now) for key, window in windows.items()}
        for key in windows:
            self._polled(key)

    async def _windows(self, targets: Sequence[Target]) -> dict[ServiceKey, Window]:
        asked = queries(self._window_seconds, {target.key[0] for target in targets})
        try:
            answers = await self._source.ask(asked)
        except MetricsError as error:
            self._tell(error.fault, error.message)
            return {target.key: Window(fault=error.fault, message=error.message) for target in targets}
        self._tell(None, "")
        # thousands of samples take a while: other tasks of the loop need not wait for that
        return await asyncio.to_thread(lambda: windows_of(Answers(answers, self._window_seconds), targets))

    def _tell(self, fault: MetricsFault | None, message: str) -> None:
        """Count each poll; log only what is new."""
        self._result(fault.value if fault else "ok")
        if fault != self._last_fault:
            if fault:
                log.warning("metrics cannot be read: scaling holds", extra={"fault": fault.value, "error": message})
            else:
                log.info("metrics can be read")
        self._last_fault = fault
