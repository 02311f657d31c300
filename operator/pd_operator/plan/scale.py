"""The counts of this moment: declared ones, or in SLO mode what `pd_operator.scaling` decides."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from pd_operator.api import labels
from pd_operator.api.v1alpha1 import (
    Decision,
    Recommendation,
    ScalingApply,
    ScalingMode,
    ScalingStatus,
    SLOStatus,
)
from pd_operator.plan.counts import Counts, declared
from pd_operator.plan.generations import ROLES
from pd_operator.plan.observed import Observed
from pd_operator.plan.replicas import replicas_of, set_nodes, worker_sets
from pd_operator.scaling import decide as policy
from pd_operator.scaling.profile import bounds_of, profile_of, slo_of
from pd_operator.scaling.state import state_of
from pd_operator.scaling.window import MetricsFault, Window

#: Decisions kept in status.
HISTORY: Final = 10

_NO_POLL_YET: Final = Window(fault=MetricsFault.UNAVAILABLE, message="no metrics have been read yet")


@dataclass(frozen=True, slots=True)
class Scaling:
    """What should run, and what SLO mode has to say about it.

    Attributes:
        counts: Replicas to run now.
        window: The poll that the decision used; None outside SLO mode.
        decision: The policy's answer; None outside SLO mode.
        recommended, status, slo: For the service's status; None outside SLO mode.
        moved: The decision differs from the one in status, which therefore has to be written before it is acted upon.
    """

    counts: Counts
    window: Window | None = None
    decision: policy.Decision | None = None
    recommended: Recommendation | None = None
    status: ScalingStatus | None = None
    slo: SLOStatus | None = None
    moved: bool = False


def scaling_of(observed: Observed) -> Scaling:
    """The counts to run now, and in SLO mode the decision behind them."""
    service = observed.service
    if service.spec.suspend:
        # What was decided is kept, so that the service comes back as large as it was.
        return Scaling(Counts(0, 0), status=service.status.scaling)
    if service.spec.scaling.mode != ScalingMode.SLO:
        return Scaling(declared(service))
    window = (observed.window or _NO_POLL_YET).counting(*(_present(observed, role) for role in ROLES))
    decision = policy.decide(
        profile_of(service), slo_of(service), bounds_of(service), window, observed.now, state_of(service)
    )
    recommended = Recommendation(prefill=decision.prefill, decode=decision.decode, reason=decision.reason)
    if service.spec.scaling.apply == ScalingApply.RECOMMEND:
        return _recommendation(observed, window, decision, recommended)
    return _automatic(observed, window, decision, recommended)


def _automatic(observed: Observed, window: Window, decision: policy.Decision, recommended: Recommendation) -> Scaling:
    before = observed.service.status.scaling
    counts = Counts(decision.prefill, decision.decode)
    past = _decided(before) or declared(observed.service)
    history = before.history if before else ()
    if past != counts:
        entry = Decision(
            time=datetime.fromtimestamp(int(observed.now), UTC),
            from_prefill=past.prefill,
            from_decode=past.decode,
            to_prefill=counts.prefill,
            to_decode=counts.decode,
            reason=_why(past, counts, decision),
            inputs=decision.explain.inputs_json(),
        )
        history = (entry, *history)[:HISTORY]
    status = ScalingStatus(
        prefill=counts.prefill, decode=counts.decode, state=decision.state.to_json(), history=history
    )
    return Scaling(
        counts=counts,
        window=window,
        decision=decision,
        recommended=recommended,
        status=status,
        slo=_latencies(window),
        moved=_decided(before) != counts,
    )


def _why(past: Counts, counts: Counts, decision: policy.Decision) -> str:
    """The policy's reason; when it had moved before and only recommended it, that this is followed now."""
    if decision.actions:
        return decision.reason
    moves = [f"{role} {past.of(role)} → {counts.of(role)}" for role in ROLES if past.of(role) != counts.of(role)]
    return f"{', '.join(moves)}, as was recommended before; {decision.reason}"


def _recommendation(
    observed: Observed, window: Window, decision: policy.Decision, recommended: Recommendation
) -> Scaling:
    """Nothing moves: what was decided before `Recommend` was set stays, else what the spec declares.

    The policy remembers its recommendations as if they had been followed; measured against the real counts it would
    begin anew with each poll.
    """
    before = observed.service.status.scaling
    kept = _decided(before)
    status = ScalingStatus(
        prefill=kept.prefill if kept else None,
        decode=kept.decode if kept else None,
        state=decision.state.to_json(),
        history=before.history if before else (),
    )
    return Scaling(
        counts=kept or declared(observed.service),
        window=window,
        decision=decision,
        recommended=recommended,
        status=status,
        slo=_latencies(window),
    )


def _decided(status: ScalingStatus | None) -> Counts | None:
    if status is None or status.prefill is None or status.decode is None:
        return None
    return Counts(status.prefill, status.decode)


def _present(observed: Observed, role: str) -> tuple[int, int, int]:
    """Replicas of a role that are ready, starting and draining, over all generations."""
    ready = starting = draining = 0
    for facts in worker_sets(observed):
        if facts.role != role:
            continue
        for replica in replicas_of(observed, role, facts.generation, set_nodes(facts)):
            ready += replica.ready
            draining += replica.draining
            starting += not (replica.ready or replica.draining)
    return ready, starting, draining


def _latencies(window: Window) -> SLOStatus | None:
    """Latencies of the window; None when there are none, or when they cannot be trusted."""
    if window.fault is not None or (window.ttft_seconds is None and window.itl_seconds is None):
        return None
    return SLOStatus(
        ttft_milliseconds=_milliseconds(window.ttft_seconds), itl_milliseconds=_milliseconds(window.itl_seconds)
    )


def _milliseconds(seconds: float | None) -> int | None:
    """Two digits are enough for people, and spare writes: the third changes with each poll."""
    if seconds is None or not 0 <= seconds < 1e6:
        return None
    return round(float(f"{seconds * 1000:.2g}"))


assert ROLES == (labels.PREFILL, labels.DECODE), "Window.counting takes prefill first"
