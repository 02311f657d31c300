"""Events: few, and only on transitions, which are told by comparing the new status with the present one."""

from __future__ import annotations

from collections.abc import Iterator

from pd_operator.api import conditions
from pd_operator.api.v1alpha1 import ConditionStatus, PDInferenceServiceStatus
from pd_operator.plan.actions import Announce
from pd_operator.plan.conditions import find
from pd_operator.plan.diagnosis import PROBLEMS

#: Reason of the event about a scaling decision.
SCALED = "Scaled"

#: Conditions whose problems are announced, the most telling first.
_WATCHED = (
    conditions.STALLED,
    conditions.PREFILL_AVAILABLE,
    conditions.DECODE_AVAILABLE,
    conditions.ROUTER_AVAILABLE,
    conditions.ROLLOUT_PROGRESSING,
)


def announcements(before: PDInferenceServiceStatus, after: PDInferenceServiceStatus) -> tuple[Announce, ...]:
    """What has happened between two statuses."""
    return (*_readiness(before, after), *_decision(before, after), *_problems(before, after))


def _readiness(before: PDInferenceServiceStatus, after: PDInferenceServiceStatus) -> Iterator[Announce]:
    old, new = find(before.conditions, conditions.READY), find(after.conditions, conditions.READY)
    if new is None:
        return
    was_ready = old is not None and old.status == ConditionStatus.TRUE
    if new.status == ConditionStatus.TRUE and not was_ready:
        yield Announce(False, conditions.READY, new.message)
    if new.status != ConditionStatus.TRUE and was_ready:
        yield Announce(new.reason != conditions.SUSPENDED, new.reason, new.message)


def _decision(before: PDInferenceServiceStatus, after: PDInferenceServiceStatus) -> Iterator[Announce]:
    new = after.scaling.history[0] if after.scaling and after.scaling.history else None
    old = before.scaling.history[0] if before.scaling and before.scaling.history else None
    if new is not None and new != old:
        yield Announce(False, SCALED, new.reason)


def _problems(before: PDInferenceServiceStatus, after: PDInferenceServiceStatus) -> Iterator[Announce]:
    told: set[str] = set()
    for kind in _WATCHED:
        old, new = find(before.conditions, kind), find(after.conditions, kind)
        if new is None or new.reason not in PROBLEMS or new.reason in told:
            continue
        told.add(new.reason)
        if old is None or old.reason != new.reason:
            yield Announce(True, new.reason, new.message)
