"""What the conditions say. Texts are stable: they change when the state does, and hold no time and no counter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pd_operator.api import conditions
from pd_operator.api.v1alpha1 import RouterType, ScalingApply, ScalingMode
from pd_operator.plan.census import Census, can_serve
from pd_operator.plan.conditions import Verdict
from pd_operator.plan.diagnosis import Finding, refused, role_problem, router_problem, shortened
from pd_operator.plan.generations import ROLES
from pd_operator.plan.observed import Observed
from pd_operator.plan.rollout import Rollout, Stage
from pd_operator.plan.scale import Scaling
from pd_operator.scaling.budget import Limit


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that the conditions are told from."""

    observed: Observed
    scaling: Scaling
    rollout: Rollout
    census: Census


def verdicts_of(scene: Scene) -> tuple[Verdict, ...]:
    """All conditions, the summary first."""
    parts = (*(_role(scene, role) for role in ROLES), _router(scene))
    rollout = _rollout(scene)
    stalled = _stalled(scene)
    reconciling = _reconciling(scene, parts, rollout, stalled)
    return (_ready(scene, parts), reconciling, stalled, *parts, rollout, *_scaling(scene))


def stalled_by(finding: Finding) -> Verdict:
    """Nothing will change until a person acts."""
    return Verdict(conditions.STALLED, True, finding.reason, finding.message)


def _ready(scene: Scene, parts: tuple[Verdict, ...]) -> Verdict:
    def verdict(holds: bool, reason: str, message: str) -> Verdict:
        return Verdict(conditions.READY, holds, reason, message)

    if scene.observed.service.spec.suspend:
        return verdict(False, conditions.SUSPENDED, "spec.suspend is true: everything is scaled to zero")
    if can_serve(scene.observed, scene.rollout, scene.census):
        counts = " and ".join(_count(scene, role) for role in ROLES)
        return verdict(True, conditions.AS_DESIRED, f"serving with {counts} replicas")
    finding = refused(scene.observed)
    if finding is not None:
        return verdict(False, finding.reason, finding.message)
    for role in ROLES:
        if scene.scaling.counts.of(role) == 0:
            message = f"no {role} replica is wanted, and one role alone serves nothing: raise {role} replicas"
            return verdict(False, conditions.NO_TRAFFIC_PAIR, message)
    missing = [part for part in parts if not part.holds]
    for part in missing:
        if part.reason not in (conditions.STARTING, conditions.NO_TRAFFIC_PAIR):
            return verdict(False, part.reason, part.message)
    if missing:
        return verdict(False, missing[0].reason, missing[0].message)
    return verdict(False, conditions.STARTING, f"waiting for {ROLES[0]} and {ROLES[1]} workers that can be paired")


def _count(scene: Scene, role: str) -> str:
    ready, desired = scene.census.ready(role), scene.scaling.counts.of(role)
    return f"{ready} {role}" if ready >= desired else f"{ready} of {desired} {role}"


def _role(scene: Scene, role: str) -> Verdict:
    def verdict(holds: bool, reason: str, message: str) -> Verdict:
        return Verdict(conditions.AVAILABLE[role], holds, reason, message)

    desired = scene.scaling.counts.of(role)
    if scene.observed.service.spec.suspend:
        return verdict(False, conditions.SUSPENDED, "spec.suspend is true")
    if desired == 0:
        return verdict(False, conditions.NO_TRAFFIC_PAIR, f"no {role} replica is wanted")
    if scene.census.ready(role) >= desired:
        return verdict(True, conditions.AS_DESIRED, f"all {role} replicas are ready")
    problem = refused(scene.observed) or role_problem(scene.observed, scene.rollout, role)
    if problem is not None:
        return verdict(False, problem.reason, problem.message)
    return verdict(False, conditions.STARTING, f"waiting for {role} pods to become ready")


def _router(scene: Scene) -> Verdict:
    def verdict(holds: bool, reason: str, message: str) -> Verdict:
        return Verdict(conditions.ROUTER_AVAILABLE, holds, reason, message)

    service = scene.observed.service
    if service.spec.router.type == RouterType.NONE:
        return verdict(True, conditions.NO_ROUTER, "router.type is None: requests come through a router of yours")
    if service.spec.suspend:
        return verdict(False, conditions.SUSPENDED, "spec.suspend is true")
    if scene.census.router_ready & set(scene.rollout.router_compats):
        return verdict(True, conditions.AS_DESIRED, "the router is ready")
    problem = router_problem(scene.observed, scene.rollout)
    if problem is not None:
        return verdict(False, problem.reason, problem.message)
    if any(scene.census.ready(role) == 0 for role in ROLES):
        message = "the router waits for a ready prefill and a ready decode worker"
        return verdict(False, conditions.NO_TRAFFIC_PAIR, message)
    return verdict(False, conditions.STARTING, "waiting for router pods to become ready")


def _rollout(scene: Scene) -> Verdict:
    def verdict(holds: bool, reason: str, message: str) -> Verdict:
        return Verdict(conditions.ROLLOUT_PROGRESSING, holds, reason, message)

    rollout = scene.rollout
    current = rollout.current.hash
    if rollout.finished:
        return verdict(False, conditions.AS_DESIRED, f"all workers are of generation {current}")
    serving = [name for name in rollout.old() if rollout.stages[name] == Stage.SERVING]
    for role in ROLES:
        problem = role_problem(scene.observed, rollout, role) if serving else None
        if problem is not None:
            text = f"generation {', '.join(serving)} keeps serving, because {problem.message}"
            return verdict(True, problem.reason, shortened(text))
    if serving:
        message = f"generation {current} is starting; {', '.join(serving)} serves until it is available"
    elif rollout.old():
        message = f"generation {', '.join(rollout.old())} is drained and removed; {current} serves"
    else:
        message = f"generation {current} is starting"
    return verdict(True, conditions.PROGRESSING, message)


def _stalled(scene: Scene) -> Verdict:
    finding = refused(scene.observed)
    if finding is not None:
        return stalled_by(finding)
    return Verdict(conditions.STALLED, False, conditions.AS_DESIRED, "nothing has to be done by hand")


def _reconciling(scene: Scene, parts: tuple[Verdict, ...], rollout: Verdict, stalled: Verdict) -> Verdict:
    def verdict(holds: bool, reason: str, message: str) -> Verdict:
        return Verdict(conditions.RECONCILING, holds, reason, message)

    if stalled.holds:
        return verdict(False, stalled.reason, stalled.message)
    draining = "waiting for workers to finish their requests before they go"
    if scene.observed.service.spec.suspend:
        if not any(scene.census.of_role(role) for role in ROLES):
            return verdict(False, conditions.SUSPENDED, "spec.suspend is true")
        message = draining if scene.census.draining() else "waiting for the last workers to end"
        return verdict(True, conditions.PROGRESSING, message)
    missing = [part for part in parts if not part.holds and part.reason != conditions.NO_TRAFFIC_PAIR]
    for part in missing:
        if part.reason != conditions.STARTING:
            return verdict(True, part.reason, part.message)
    if rollout.holds:
        return verdict(True, rollout.reason, rollout.message)
    if missing:
        return verdict(True, conditions.PROGRESSING, missing[0].message)
    if scene.census.draining():
        return verdict(True, conditions.PROGRESSING, draining)
    for role in ROLES:
        if scene.census.present().of(role) > scene.scaling.counts.of(role):
            problem = role_problem(scene.observed, scene.rollout, role)
            reason = problem.reason if problem else conditions.PROGRESSING
            text = f"a {role} replica that is to go stands in for one that is not ready"
            return verdict(True, reason, shortened(f"{text}: {problem.message}" if problem else text))
    return verdict(False, conditions.AS_DESIRED, "everything is as desired")


def _scaling(scene: Scene) -> Iterator[Verdict]:
    spec = scene.observed.service.spec
    decision, window = scene.scaling.decision, scene.scaling.window
    if spec.scaling.mode != ScalingMode.SLO:
        message = f"scaling.mode is {spec.scaling.mode.value}: counts are as declared"
        yield Verdict(conditions.SCALING_ACTIVE, False, conditions.MANUAL, message)
        return
    if decision is None or window is None:
        yield Verdict(conditions.SCALING_ACTIVE, False, conditions.SUSPENDED, "spec.suspend is true")
        return
    held = bool(decision.explain.hold)
    if spec.scaling.apply == ScalingApply.RECOMMEND:
        yield Verdict(
            conditions.SCALING_ACTIVE,
            False,
            conditions.RECOMMEND_ONLY,
            "scaling.apply is Recommend: see status.recommended; nothing is changed",
        )
    elif held:
        yield Verdict(
            conditions.SCALING_ACTIVE, False, _metrics_reason(scene), "counts are held while metrics are missing"
        )
    else:
        yield Verdict(conditions.SCALING_ACTIVE, True, conditions.ACTIVE, "counts follow the metrics")
    if held:
        message = window.message or "the metrics cannot be used"
        yield Verdict(conditions.METRICS_AVAILABLE, False, _metrics_reason(scene), shortened(message))
    else:
        yield Verdict(conditions.METRICS_AVAILABLE, True, conditions.METRICS_OK, "metrics are fresh and complete")
    yield _limited(scene)


def _metrics_reason(scene: Scene) -> str:
    fault = scene.scaling.window.fault if scene.scaling.window else None
    return fault.value if fault is not None else conditions.METRICS_STALE


def _limited(scene: Scene) -> Verdict:
    def verdict(holds: bool, reason: str, message: str) -> Verdict:
        return Verdict(conditions.SCALING_LIMITED, holds, reason, message)

    decision = scene.scaling.decision
    assert decision is not None
    for role, explained in zip(ROLES, (decision.explain.prefill, decision.explain.decode), strict=True):
        if Limit.BUDGET in explained.limits:
            message = (
                f"{role} would need more replicas than scaling.budget.accelerators {decision.explain.budget} allows"
            )
            return verdict(True, conditions.BUDGET_LIMIT, message)
        if Limit.MAXIMUM in explained.limits:
            message = f"{role} would need more replicas than {role}.maxReplicas allows"
            return verdict(True, conditions.BOUNDS_LIMIT, message)
        if Limit.RATIO in explained.limits:
            return verdict(True, conditions.BOUNDS_LIMIT, f"scaling.ratio keeps {role} from the count that it needs")
    return verdict(False, conditions.WITHIN_BOUNDS, "both roles have what they need within bounds and budget")
