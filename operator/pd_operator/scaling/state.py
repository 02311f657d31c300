"""What the policy remembers between two decisions, and over a restart: compact JSON in `status.scaling.state`."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pd_operator.api.v1alpha1 import PDInferenceService
from pd_operator.api.v1alpha1.base import MAX_REPLICAS
from pd_operator.scaling.profile import Bounds, bounds_of

#: Raise it when the meaning of a field changes; another version's memory is dropped, not guessed at.
VERSION: Final = 1

#: Most remembered needs of a role; keeps the JSON of both roles below 2 KB.
MAX_NEEDS: Final = 40


@dataclass(frozen=True, slots=True)
class Lesson:
    """So many replicas did not hold the SLO at this load.

    Attributes:
        replicas: Ready replicas at the time.
        load: Requests per second at the time.
        at: Seconds since the epoch.
    """

    replicas: int
    load: float
    at: float


@dataclass(frozen=True, slots=True)
class RoleMemory:
    """One role.

    Attributes:
        replicas: Decided last; None before the first decision.
        grown_at, changed_at: Last increase, last change.
        seen_at: Last time its need was known.
        needs: (time, replicas), times rising and needs falling: enough to know the highest of a time span.
        pending_since: Since when replicas have been starting without one becoming ready.
        ready_seen: Ready replicas the last time.
        lesson: The latest count that was too low although load alone did not show it.
    """

    replicas: int | None = None
    grown_at: float | None = None
    changed_at: float | None = None
    seen_at: float | None = None
    needs: tuple[tuple[float, int], ...] = ()
    pending_since: float | None = None
    ready_seen: int = 0
    lesson: Lesson | None = None


@dataclass(frozen=True, slots=True)
class ScalingState:
    """Both roles, and since when metrics have been missing."""

    prefill: RoleMemory = field(default_factory=RoleMemory)
    decode: RoleMemory = field(default_factory=RoleMemory)
    missing_since: float | None = None

    def to_json(self) -> str:
        """Compact JSON, times in whole seconds."""
        document = {
            "v": VERSION,
            "prefill": _dump(self.prefill),
            "decode": _dump(self.decode),
            "missing": _seconds(self.missing_since),
        }
        return json.dumps({k: v for k, v in document.items() if v is not None}, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> ScalingState:
        """The state that `to_json` wrote. Anything else yields a fresh state, which holds until it has learned."""
        try:
            document = json.loads(text)
            if document["v"] != VERSION:
                return ScalingState()
            return ScalingState(
                prefill=_load(document["prefill"]),
                decode=_load(document["decode"]),
                missing_since=_time(document.get("missing")),
            )
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError):
            return ScalingState()


def state_of(service: PDInferenceService) -> ScalingState:
    """The memory in a service's status; if it cannot be read, the decided counts in the status are kept."""
    status = service.status.scaling
    if status is None:
        return starting_at(bounds_of(service))
    state = ScalingState.from_json(status.state)
    if state.prefill.replicas is not None and state.decode.replicas is not None:
        return state
    bounds = bounds_of(service)
    return ScalingState(
        prefill=RoleMemory(replicas=bounds.prefill.start if status.prefill is None else status.prefill),
        decode=RoleMemory(replicas=bounds.decode.start if status.decode is None else status.decode),
    )


def starting_at(bounds: Bounds) -> ScalingState:
    """A fresh memory at the counts to start from."""
    return ScalingState(
        prefill=RoleMemory(replicas=bounds.prefill.start), decode=RoleMemory(replicas=bounds.decode.start)
    )


def not_after(state: ScalingState, now: float) -> ScalingState:
    """The state without moments in the future: a clock that was set back leaves them, and they would freeze it."""
    missing = state.missing_since
    return ScalingState(
        prefill=_role_not_after(state.prefill, now),
        decode=_role_not_after(state.decode, now),
        missing_since=None if missing is None else min(missing, now),
    )


def _role_not_after(role: RoleMemory, now: float) -> RoleMemory:
    def past(moment: float | None) -> float | None:
        return None if moment is None else min(moment, now)

    lesson = role.lesson
    return replace(
        role,
        grown_at=past(role.grown_at),
        changed_at=past(role.changed_at),
        seen_at=past(role.seen_at),
        needs=tuple((min(at, now), need) for at, need in role.needs),
        pending_since=past(role.pending_since),
        lesson=lesson and replace(lesson, at=min(lesson.at, now)),
    )


def _dump(role: RoleMemory) -> dict[str, Any]:
    document = {
        "n": role.replicas,
        "up": _seconds(role.grown_at),
        "at": _seconds(role.changed_at),
        "seen": _seconds(role.seen_at),
        "needs": [[_seconds(at), need] for at, need in role.needs] or None,
        "pending": _seconds(role.pending_since),
        "ready": role.ready_seen,
        "lesson": role.lesson and [role.lesson.replicas, float(f"{role.lesson.load:.4g}"), _seconds(role.lesson.at)],
    }
    return {k: v for k, v in document.items() if v is not None}


def _load(document: dict[str, Any]) -> RoleMemory:
    lesson = document.get("lesson")
    return RoleMemory(
        replicas=_count(document["n"]),
        grown_at=_time(document.get("up")),
        changed_at=_time(document.get("at")),
        seen_at=_time(document.get("seen")),
        needs=tuple((_moment(at), _count(need)) for at, need in document.get("needs") or ())[-MAX_NEEDS:],
        pending_since=_time(document.get("pending")),
        ready_seen=_count(document.get("ready", 0)),
        lesson=Lesson(_count(lesson[0]), _moment(lesson[1]), _moment(lesson[2])) if lesson else None,
    )


def _seconds(moment: float | None) -> int | None:
    return None if moment is None else int(moment)


def _time(value: Any) -> float | None:
    return None if value is None else _moment(value)


def _moment(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ValueError(f"not a time: {value!r}")
    return float(value)


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_REPLICAS:
        raise ValueError(f"not a count of replicas: {value!r}")
    return value
