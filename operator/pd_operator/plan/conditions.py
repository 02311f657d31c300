"""Keeping conditions: a transition time changes only when the status does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from pd_operator.api.v1alpha1 import Condition, ConditionStatus, PDInferenceService


@dataclass(frozen=True, slots=True)
class Verdict:
    """A condition as of now, without its history."""

    type: str
    holds: bool
    reason: str
    message: str


def with_history(service: PDInferenceService, verdicts: Iterable[Verdict], now: float) -> tuple[Condition, ...]:
    """The conditions of `verdicts`, in their order, with the transition times of the present ones."""
    before = {condition.type: condition for condition in service.status.conditions}
    moment = datetime.fromtimestamp(int(now), UTC)
    return tuple(_condition(verdict, before.get(verdict.type), moment, service) for verdict in verdicts)


def find(conditions: Iterable[Condition], kind: str) -> Condition | None:
    """The condition of a type."""
    return next((condition for condition in conditions if condition.type == kind), None)


def _condition(verdict: Verdict, before: Condition | None, moment: datetime, service: PDInferenceService) -> Condition:
    status = ConditionStatus.TRUE if verdict.holds else ConditionStatus.FALSE
    unchanged = before is not None and before.status == status
    return Condition(
        type=verdict.type,
        status=status,
        reason=verdict.reason,
        message=verdict.message,
        last_transition_time=before.last_transition_time if before is not None and unchanged else moment,
        observed_generation=service.metadata.generation,
    )
