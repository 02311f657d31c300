"""Why a StatefulSet creates no pods.

A StatefulSet has no condition for it: a quota or an admission webhook that refuses its pods is told in Events only.
The API server keeps no index of Events, so that it reads all of a namespace for each such question: they are asked
one at a time, aside from the workers, and only about sets whose controller has had its turn and made too few pods.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pd_operator.plan.observed import Problem
from pd_operator.reconcile.errors import ClusterError
from pd_operator.reconcile.kinds import STATEFUL_SET
from pd_operator.reconcile.observe import creation_problem
from pd_operator.reconcile.ports import Clock, Cluster, ServiceKey

log = logging.getLogger(__name__)

#: Pods are created within milliseconds of the controller's turn; only a longer lack is looked into.
PATIENCE_SECONDS: Final = 5.0
#: Least time between two readings of the same set's Events.
READ_EVERY_SECONDS: Final = 15.0
#: The StatefulSet controller tries again at least this often, so that an older Event tells of the past.
NEWEST_WITHIN_SECONDS: Final = 1200.0


@dataclass(slots=True)
class _Short:
    since: float
    asked: float | None = None
    problem: Problem | None = None


class Shortfalls:
    """Sets that are short of pods, over all services.

    Args:
        cluster, clock: The outside world.
        found: Called with the service about whose set something new was read.
    """

    def __init__(self, cluster: Cluster, clock: Clock, found: Callable[[ServiceKey], None]) -> None:
        self._cluster = cluster
        self._clock = clock
        self._found = found
        self._short: dict[ServiceKey, dict[str, _Short]] = {}
        self._questions: asyncio.Queue[tuple[ServiceKey, str]] = asyncio.Queue()

    def problems(self, key: ServiceKey, missing: Mapping[str, int]) -> tuple[dict[str, Problem], float | None]:
        """What is known about sets that miss pods, and in how many seconds to look again (None: no need)."""
        if not missing:
            self._short.pop(key, None)
            return {}, None
        now = self._clock.monotonic()
        known = self._short.get(key, {})
        current = {name: known.get(name) or _Short(since=now) for name in missing}
        self._short[key] = current
        again = READ_EVERY_SECONDS
        for name, short in current.items():
            if now - short.since < PATIENCE_SECONDS:
                again = min(again, PATIENCE_SECONDS)
            elif short.asked is None or now - short.asked >= READ_EVERY_SECONDS:
                short.asked = now
                self._questions.put_nowait((key, name))
        return {name: short.problem for name, short in current.items() if short.problem is not None}, again

    def drop(self, key: ServiceKey) -> None:
        """The service is gone."""
        self._short.pop(key, None)

    async def forever(self) -> None:
        """Read Events, one question at a time."""
        while True:
            key, name = await self._questions.get()
            if name in self._short.get(key, {}):
                await self._answer(key, name)

    async def _answer(self, key: ServiceKey, name: str) -> None:
        try:
            problem = await self._read(key[0], name)
        except ClusterError as error:
            log.info("events cannot be read", extra={"service": "/".join(key), "error": error.message})
            return
        short = self._short.get(key, {}).get(name)
        if short is None:
            return
        # The next question is due so long after the answer: a slow API server must not be asked all the time.
        short.asked = self._clock.monotonic()
        if problem != short.problem:
            short.problem = problem
            self._found(key)

    async def _read(self, namespace: str, name: str) -> Problem | None:
        oldest = self._clock.now() - NEWEST_WITHIN_SECONDS
        failures = [
            event
            for event in await self._cluster.events_about(STATEFUL_SET, namespace, name)
            if event.get("reason") == "FailedCreate" and _time_of(event) >= oldest
        ]
        if not failures:
            return None
        message = str(max(failures, key=_time_of).get("message") or "its pods cannot be created")
        return creation_problem(f"StatefulSet {name}", _without_boilerplate(message))


def _time_of(event: Mapping[str, Any]) -> float:
    """When an Event happened last; the fields depend on the API its writer used."""
    series = event.get("series") or {}
    for text in (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime")):
        if text:
            return datetime.fromisoformat(text).timestamp()
    return 0.0


def _without_boilerplate(message: str) -> str:
    """`create Pod x in StatefulSet y failed error: pods "x" is forbidden: …` without what the subject tells already."""
    return message.partition(" failed error: ")[2] or message
