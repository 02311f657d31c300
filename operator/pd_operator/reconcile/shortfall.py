"""Why a StatefulSet creates no pods.

A StatefulSet has no condition for it: a quota or an admission webhook that refuses its pods is told in Events only.
They are read only while pods are missing, and not more often than the controller could have news.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pd_operator.plan.observed import Problem
from pd_operator.reconcile.kinds import STATEFUL_SET
from pd_operator.reconcile.observe import creation_problem
from pd_operator.reconcile.ports import Clock, Cluster, ServiceKey

#: Pods are created within milliseconds; only a set that stays short of pods for this long is looked into.
PATIENCE_SECONDS: Final = 10.0
#: Least time between two readings of the same set's Events.
READ_EVERY_SECONDS: Final = 15.0
#: The StatefulSet controller tries again at least this often, so that an older Event tells of the past.
NEWEST_WITHIN_SECONDS: Final = 1200.0


@dataclass(slots=True)
class _Short:
    since: float
    read: float | None = None
    problem: Problem | None = None


class Shortfalls:
    """Sets that are short of pods, over all services."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._short: dict[ServiceKey, dict[str, _Short]] = {}

    async def problems(self, key: ServiceKey, missing: Mapping[str, int]) -> tuple[dict[str, Problem], float | None]:
        """Problems of the sets that miss pods, and in how many seconds to look again (None: no need)."""
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
            elif short.read is None or now - short.read >= READ_EVERY_SECONDS:
                short.read = now
                short.problem = await self._read(key[0], name)
        return {name: short.problem for name, short in current.items() if short.problem is not None}, again

    def drop(self, key: ServiceKey) -> None:
        """The service is gone."""
        self._short.pop(key, None)

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
