"""From one metrics poll to two numbers: how many prefill and how many decode replicas there should be.

    flow → need → wish → fit

`flow` says which role holds requests up, `demand` what each needs, `stabilise` when it may move, `budget` what both
may have together; limits come last, so nothing above them can break them. The function is pure and total: the same
arguments give the same decision, and no window, however wrong, raises.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pd_operator.scaling import demand
from pd_operator.scaling.budget import Fit, Limit, Pair, Room, fit
from pd_operator.scaling.explain import (
    Explanation,
    RoleExplanation,
    explain_role,
    known_numbers,
    reason,
    rough_duration,
)
from pd_operator.scaling.profile import SLO, Bounds, Profile, RoleBounds
from pd_operator.scaling.stabilise import Wish, learned, moved, wish
from pd_operator.scaling.state import RoleMemory, ScalingState, not_after
from pd_operator.scaling.trust import sanitised
from pd_operator.scaling.window import MetricsFault, RoleWindow, Window


@dataclass(frozen=True, slots=True)
class Step:
    """One change.

    Attributes:
        role: `prefill` or `decode`.
        before, after: Replicas.
        accelerators: Cost: how many more (or, negative, fewer) are used once it is done.
        load_before, load_after: Gain: the role's load over its capacity at 100 %, before and after; None if unknown.
    """

    role: str
    before: int
    after: int
    accelerators: int
    load_before: float | None = None
    load_after: float | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What should run.

    Attributes:
        prefill, decode: Replicas.
        actions: The changes from the counts decided before; empty when there is none.
        reason: One sentence for people.
        explain: The same as a record.
        state: What to remember; hand it to the next call, also after a restart.
    """

    prefill: int
    decode: int
    actions: tuple[Step, ...]
    reason: str
    explain: Explanation
    state: ScalingState

    @property
    def limits(self) -> frozenset[Limit]:
        """Limits that keep a role from what it needs."""
        return frozenset(self.explain.prefill.limits) | frozenset(self.explain.decode.limits)


def decide(profile: Profile, slo: SLO, bounds: Bounds, window: Window, now: float, state: ScalingState) -> Decision:
    """The counts to run now.

    Args:
        window: The latest poll, with the cluster's present counts (`Window.counting`).
        now: Seconds since the epoch.
        state: The one that the last decision returned, or `state_of(service)`.
    """
    state = not_after(state, now)
    window = sanitised(window)
    fault = _fault(window, bounds)
    if fault:
        return _hold(fault, bounds, window, now, state)
    needs = demand.needs(profile, slo, bounds, window)
    load = demand.load_of(window)
    prefill = wish(needs.prefill, load, bounds, bounds.prefill, window.prefill, now, state.prefill)
    decode = wish(needs.decode, load, bounds, bounds.decode, window.decode, now, state.decode)
    before = _before(bounds, state)
    fitted = fit((prefill.replicas, decode.replicas), Room.of(bounds, before, window.prefill, window.decode))
    explanation = Explanation(
        prefill=explain_role(before[0], fitted.pair[0], needs.prefill, prefill, fitted.limits[0], window.prefill),
        decode=explain_role(before[1], fitted.pair[1], needs.decode, decode, fitted.limits[1], window.decode),
        inputs=known_numbers(window),
        notes=needs.notes,
        budget=bounds.budget,
    )
    remembered = ScalingState(
        prefill=_remembered(prefill, needs, needs.prefill, before[0], fitted.pair[0], window.prefill, load, now),
        decode=_remembered(decode, needs, needs.decode, before[1], fitted.pair[1], window.decode, load, now),
    )
    return _decision(explanation, bounds, remembered)


def _fault(window: Window, bounds: Bounds) -> str:
    """Why the window cannot be used, in words; empty if it can."""
    if window.fault is not None:
        return window.message or _FAULT_WORDS[window.fault]
    age = window.sample_age_seconds
    if age is not None and not age <= bounds.max_age_seconds:  # NaN is too old
        return f"the newest samples are older than {bounds.max_age_seconds:.0f} s"
    return ""


_FAULT_WORDS = {
    MetricsFault.UNAVAILABLE: "Prometheus unavailable",
    MetricsFault.STALE: "the samples are too old",
    MetricsFault.PARTIAL: "too few pods report",
    MetricsFault.EMPTY: "Prometheus has no series of this service",
    MetricsFault.INVALID: "Prometheus answered with values that cannot be used",
    MetricsFault.NOT_CONFIGURED: "the operator has no Prometheus address",
}


def _hold(fault: str, bounds: Bounds, window: Window, now: float, state: ScalingState) -> Decision:
    """Keep what was decided. Limits still hold: a smaller budget is obeyed with or without metrics."""
    before = _before(bounds, state)
    floor = (bounds.prefill.start, bounds.decode.start) if bounds.floor_when_missing else (0, 0)
    want = (max(before[0], floor[0]), max(before[1], floor[1]))
    fitted = fit(want, Room.of(bounds, before, window.prefill, window.decode))
    since = now if state.missing_since is None else state.missing_since
    explanation = Explanation(
        prefill=_held_role(before[0], fitted, 0, window.prefill),
        decode=_held_role(before[1], fitted, 1, window.decode),
        hold=f"no metrics{rough_duration(now - since)} ({fault})",
        budget=bounds.budget,
    )
    remembered = ScalingState(
        prefill=moved(replace(state.prefill, replicas=before[0]), fitted.pair[0], now),
        decode=moved(replace(state.decode, replicas=before[1]), fitted.pair[1], now),
        missing_since=since,
    )
    return _decision(explanation, bounds, remembered)


def _held_role(before: int, fitted: Fit, role: int, window: RoleWindow) -> RoleExplanation:
    return RoleExplanation(
        before=before,
        decided=fitted.pair[role],
        ready=window.ready,
        starting=window.starting,
        draining=window.draining,
        limits=tuple(sorted(fitted.limits[role] | {Limit.MISSING})),
    )


def _before(bounds: Bounds, state: ScalingState) -> Pair:
    return _replicas(bounds.prefill, state.prefill), _replicas(bounds.decode, state.decode)


def _replicas(bounds: RoleBounds, memory: RoleMemory) -> int:
    return bounds.start if memory.replicas is None else memory.replicas


def _remembered(
    wished: Wish,
    needs: demand.Needs,
    need: demand.Need,
    before: int,
    after: int,
    window: RoleWindow,
    load: float | None,
    now: float,
) -> RoleMemory:
    memory = moved(wished.memory, after, now)
    if after <= before or needs.overload:
        return memory
    return learned(wished.memory, memory, need, window.ready, load, now)


def _decision(explanation: Explanation, bounds: Bounds, state: ScalingState) -> Decision:
    steps = (
        _step("prefill", explanation.prefill, bounds.prefill),
        _step("decode", explanation.decode, bounds.decode),
    )
    return Decision(
        prefill=explanation.prefill.decided,
        decode=explanation.decode.decided,
        actions=tuple(step for step in steps if step.before != step.after),
        reason=reason(explanation, bounds),
        explain=explanation,
        state=state,
    )


def _step(role: str, explained: RoleExplanation, bounds: RoleBounds) -> Step:
    demanded, capacity = explained.demand, explained.capacity
    before = after = None
    if demanded is not None and capacity:
        before = demanded / (capacity * explained.before) if explained.before else None
        after = demanded / (capacity * explained.decided) if explained.decided else None
    return Step(
        role=role,
        before=explained.before,
        after=explained.decided,
        accelerators=(explained.decided - explained.before) * bounds.accelerators,
        load_before=before,
        load_after=after,
    )
