"""Why a decision was made: a record for programs, and sentences for people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pd_operator.scaling.budget import Limit, Pair
from pd_operator.scaling.demand import Need
from pd_operator.scaling.profile import Bounds
from pd_operator.scaling.stabilise import Wish
from pd_operator.scaling.window import RoleWindow, Window

ROLES: Final = ("prefill", "decode")

#: Lengths of `Message` and `inputs` in the API.
MAX_REASON: Final = 1024
MAX_INPUTS: Final = 2048


@dataclass(frozen=True, slots=True)
class RoleExplanation:
    """One role in one decision.

    Attributes:
        before, decided: Replicas.
        needed: Replicas that the need alone asks for; None when the metrics do not tell.
        exact: The same, not rounded and without memory.
        ready, starting, draining: What exists.
        demand, capacity, unit: The load in numbers; `capacity` is one replica's at 100 %.
        cause: The need in words.
        limits: What kept `decided` from `needed`.
    """

    before: int
    decided: int
    needed: int | None = None
    exact: float | None = None
    ready: int = 0
    starting: int = 0
    draining: int = 0
    demand: float | None = None
    capacity: float | None = None
    unit: str = ""
    cause: str = ""
    limits: tuple[Limit, ...] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    """One decision.

    Attributes:
        inputs: The poll's numbers that were known.
        hold: Why the poll was not used at all; empty if it was.
        notes: What else the poll shows.
        budget: Accelerators allowed, if limited.
    """

    prefill: RoleExplanation
    decode: RoleExplanation
    inputs: Mapping[str, float] = field(default_factory=dict)
    hold: str = ""
    notes: tuple[str, ...] = ()
    budget: int | None = None

    def inputs_json(self) -> str:
        """The numbers as JSON of at most 2,048 characters, for `status.scaling.history`."""
        text = json.dumps(self.inputs, separators=(",", ":"))
        return text if len(text) <= MAX_INPUTS else ""


def explain_role(
    before: int, decided: int, need: Need, wished: Wish, binding: frozenset[Limit], window: RoleWindow
) -> RoleExplanation:
    """The record of one role. `binding` are limits of both roles together."""
    return RoleExplanation(
        before=before,
        decided=decided,
        needed=wished.needed,
        exact=None if need.replicas is None else round(need.replicas, 3),
        ready=window.ready,
        starting=window.starting,
        draining=window.draining,
        demand=need.demand,
        capacity=need.capacity,
        unit=need.unit,
        cause=need.cause,
        limits=tuple(sorted(wished.limits | binding)),
    )


def known_numbers(window: Window) -> dict[str, float]:
    """The poll's numbers that are known, to four digits."""
    numbers: dict[str, float | None] = {
        "arrivalRate": window.arrival_rate,
        "completionRate": window.completion_rate,
        "inFlight": window.in_flight,
        "promptTokensPerSecond": window.prompt_tokens_per_second,
        "generationTokensPerSecond": window.generation_tokens_per_second,
        "cachedShare": window.cached_share,
        "ttftSeconds": window.ttft_seconds,
        "itlSeconds": window.itl_seconds,
        "sampleAgeSeconds": window.sample_age_seconds,
    }
    for name, role in zip(ROLES, (window.prefill, window.decode), strict=True):
        numbers |= {
            f"{name}Ready": role.ready,
            f"{name}Running": role.running,
            f"{name}Waiting": role.waiting,
            f"{name}Held": role.held,
            f"{name}Finished": role.finished,
            f"{name}KVUsage": role.kv_usage,
            f"{name}Busy": role.busy,
        }
    return {name: float(f"{value:.4g}") for name, value in numbers.items() if value is not None}


def reason(explanation: Explanation, bounds: Bounds) -> str:
    """One plain sentence. It stays the same while nothing changes, so that status does not change at each poll."""
    roles = tuple(zip(ROLES, (explanation.prefill, explanation.decode), strict=True))
    pair: Pair = (explanation.prefill.decided, explanation.decode.decided)
    changes = [_change(name, role, bounds) for name, role in roles if role.decided != role.before]
    if explanation.hold:
        held = f"hold: {explanation.hold}"
        return _join([*changes, held])
    if changes:
        return _join(changes)
    waits = [text for name, role in roles if (text := _wait(name, role, bounds))]
    if waits:
        return _join([*waits, *explanation.notes])
    return _join([f"steady: prefill {pair[0]} and decode {pair[1]} fit the load", *explanation.notes])


def _change(name: str, role: RoleExplanation, bounds: Bounds) -> str:
    text = f"{name} {role.before} → {role.decided}"
    if role.needed is None or Limit.MISSING in role.limits:
        return f"{text}: {_limit_words(role, bounds) or 'within its limits'}"
    text += f": {role.cause}"
    if role.needed > role.decided and (why := _limit_words(role, bounds)):
        text += f"; {role.needed} are needed but {why}"
    elif role.needed < role.decided and (why := _limit_words(role, bounds)):
        text += f"; {role.needed} would do but {why}"
    return text


def _wait(name: str, role: RoleExplanation, bounds: Bounds) -> str:
    if role.needed is None:
        return f"{name} stays at {role.decided}: its metrics are missing"
    if role.needed == role.decided:
        return ""
    why = _limit_words(role, bounds)
    if not why:
        return ""
    if role.needed > role.decided:
        return f"{name} needs {role.needed} replicas but {why}"
    return f"{name} needs {role.needed} of {role.decided} replicas but {why}"


def _limit_words(role: RoleExplanation, bounds: Bounds) -> str:
    words = {
        Limit.BUDGET: f"the budget of {bounds.budget} accelerators leaves {role.decided}",
        Limit.MAXIMUM: f"maxReplicas is {role.decided}",
        Limit.MINIMUM: f"minReplicas is {role.decided}",
        Limit.RATIO: f"the ratio bounds allow {role.decided}",
        Limit.STEP: f"at most {bounds.max_step} are added or removed at once",
        Limit.UP_COOLDOWN: f"increases are {bounds.scale_up_cooldown_seconds:.0f} s apart",
        Limit.DOWN_COOLDOWN: f"a decrease waits {bounds.scale_down_cooldown_seconds:.0f} s after the last change",
        Limit.STABILIZATION: f"more were needed in the last {bounds.scale_down_stabilization_seconds:.0f} s",
        Limit.MISSING: "some of its pods do not report",
    }
    return next((text for limit, text in words.items() if limit in role.limits), "")


def _join(parts: list[str]) -> str:
    return "; ".join(parts)[:MAX_REASON]


#: A duration is told in these steps, in seconds, so that status is not written at each poll of an outage.
_STEPS: Final = (15, 30, 45, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400)


def rough_duration(seconds: float) -> str:
    """` for over 45 s`; nothing for less than the first step."""
    passed = max((step for step in _STEPS if step <= seconds), default=0)
    if not passed:
        return ""
    if passed < 60:
        return f" for over {passed} s"
    return f" for over {passed // 60} min" if passed < 3600 else f" for over {passed // 3600} h"
