"""When a status is worth a write.

A service that starts changes its counts with every pod. People need to know at once when it becomes ready or stalls;
the rest may be told every few seconds. That saves most status writes of a start or a rollout.
"""

from __future__ import annotations

from typing import Final

from pd_operator.api import conditions
from pd_operator.api.v1alpha1 import PDInferenceServiceStatus
from pd_operator.reconcile.ports import Clock, ServiceKey

#: Least time between two writes of one service's status that tell nothing urgent.
PACE_SECONDS: Final = 3.0

_URGENT: Final = (conditions.READY, conditions.STALLED)


class StatusPace:
    """Times of the last status writes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._written: dict[ServiceKey, float] = {}

    def postpone(
        self, key: ServiceKey, present: PDInferenceServiceStatus, wanted: PDInferenceServiceStatus
    ) -> float | None:
        """Seconds by which the write should be put off, or None when it is due now (or there is nothing to write)."""
        if wanted == present or urgent(present, wanted):
            return None
        waited = self._clock.monotonic() - self._written.get(key, float("-inf"))
        return None if waited >= PACE_SECONDS else PACE_SECONDS - waited

    def wrote(self, key: ServiceKey) -> None:
        """The status was written just now."""
        self._written[key] = self._clock.monotonic()

    def drop(self, key: ServiceKey) -> None:
        """The service is gone."""
        self._written.pop(key, None)


def urgent(present: PDInferenceServiceStatus, wanted: PDInferenceServiceStatus) -> bool:
    """Whether people or tools wait for what the new status says."""
    if present.observed_generation != wanted.observed_generation or _decision(present) != _decision(wanted):
        return True
    before, after = ({c.type: c.status for c in status.conditions} for status in (present, wanted))
    return any(before.get(name) != after.get(name) for name in _URGENT)


def _decision(status: PDInferenceServiceStatus) -> tuple[int | None, int | None]:
    """The decided counts; the controller's memory beside them changes with every poll and is not urgent."""
    return (status.scaling.prefill, status.scaling.decode) if status.scaling else (None, None)
