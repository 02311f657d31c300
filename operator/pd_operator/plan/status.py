"""The whole status of a service. It is equal to the present one when nothing has changed."""

from __future__ import annotations

from pd_operator.api import conditions, labels
from pd_operator.api.v1alpha1 import (
    AcceleratorStatus,
    ConditionStatus,
    PDInferenceService,
    PDInferenceServiceStatus,
    RouterType,
    ScalingMode,
)
from pd_operator.plan.census import generation_statuses, role_status
from pd_operator.plan.conditions import Verdict, find, with_history
from pd_operator.plan.counts import complete_units
from pd_operator.plan.diagnosis import Finding, shortened
from pd_operator.plan.generations import ROLES
from pd_operator.plan.objects.service import endpoint
from pd_operator.plan.observed import Observed
from pd_operator.plan.validate import Violation
from pd_operator.plan.verdicts import Scene, stalled_by, verdicts_of


def status_of(scene: Scene) -> PDInferenceServiceStatus:
    """The status as of now."""
    observed, scaling, census = scene.observed, scene.scaling, scene.census
    service, counts = observed.service, scene.scaling.counts
    spec, current = service.spec, scene.rollout.current.hash
    prefill, decode = (role_status(census, role, current, counts.of(role)) for role in ROLES)
    budget = spec.scaling.budget if spec.scaling.mode == ScalingMode.SLO else None
    return PDInferenceServiceStatus(
        observed_generation=service.metadata.generation,
        conditions=with_history(service, verdicts_of(scene), observed.now),
        prefill=prefill,
        decode=decode,
        accelerators=AcceleratorStatus(
            in_use=census.accelerators,
            desired=counts.accelerators(service),
            budget=budget.accelerators if budget else None,
        ),
        ratio=f"{counts.prefill}:{counts.decode}",
        units=complete_units(service, census.present()),
        selector=worker_selector(service),
        endpoint=endpoint(service) if spec.router.type != RouterType.NONE else "",
        recommended=scaling.recommended,
        slo=scaling.slo,
        scaling=scaling.status,
        generations=generation_statuses(census, scene.rollout),
    )


def status_of_invalid(observed: Observed, broken: tuple[Violation, ...]) -> PDInferenceServiceStatus:
    """The present status, and that the object breaks a rule. What runs is left alone, and so are its counts."""
    service = observed.service
    finding = Finding(conditions.INVALID_SPEC, shortened("; ".join(str(violation) for violation in broken)))
    ready = find(service.status.conditions, conditions.READY)
    told = {conditions.READY, conditions.RECONCILING, conditions.STALLED}
    verdicts = [
        Verdict(conditions.READY, True, ready.reason, ready.message)
        if ready is not None and ready.status == ConditionStatus.TRUE
        else Verdict(conditions.READY, False, finding.reason, finding.message),
        Verdict(conditions.RECONCILING, False, finding.reason, finding.message),
        stalled_by(finding),
    ]
    kept = tuple(condition for condition in service.status.conditions if condition.type not in told)
    return service.status.model_copy(
        update={
            "observed_generation": service.metadata.generation,
            "conditions": (*with_history(service, verdicts, observed.now), *kept),
        }
    )


def worker_selector(service: PDInferenceService) -> str:
    """Label selector of all workers, as HPA and KEDA read it."""
    return f"{labels.SERVICE}={service.metadata.name},{labels.ROLE} in ({','.join(ROLES)})"
