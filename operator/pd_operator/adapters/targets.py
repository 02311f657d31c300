"""Which pods the metrics of each service in SLO mode come from."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import ValidationError

from pd_operator.adapters.windows import Target
from pd_operator.api import labels
from pd_operator.api.v1alpha1 import PDInferenceService, ScalingMode
from pd_operator.plan.observed import PodFacts
from pd_operator.reconcile.kinds import SERVICE_KIND
from pd_operator.reconcile.pods import pod_facts
from pd_operator.reconcile.store import Store, View


def targets_in(store: Store) -> list[Target]:
    """All services in SLO mode that can be read and are not being deleted."""
    found = []
    for key in store.services():
        if _wants_metrics(store, key):
            target = target_of(store.view(key))
            if target is not None:
                found.append(target)
    return found


def _wants_metrics(store: Store, key: tuple[str, str]) -> bool:
    """A look at the service alone: most are in other modes, and their many pods need not be parsed."""
    service = store.object(SERVICE_KIND, *key)
    if service is None or service["metadata"].get("deletionTimestamp"):
        return False
    spec = service.get("spec") or {}
    return (spec.get("scaling") or {}).get("mode") == ScalingMode.SLO and not spec.get("suspend")


def target_of(view: View) -> Target | None:
    """The target of one service; None if this version of the operator cannot read it."""
    try:
        service = PDInferenceService.model_validate(view.service)
    except ValidationError:
        return None  # the reconciler tells
    pods = [pod_facts(pod, frozenset()) for pod in view.pods]
    return Target(
        key=service.key,
        prefill=_serving(pods, labels.PREFILL),
        decode=_serving(pods, labels.DECODE),
        router=frozenset(pod.name for pod in pods if pod.role == labels.ROUTER and pod.ready),
        percentile=service.spec.slo.percentile if service.spec.slo else 90,
        max_age_seconds=service.spec.scaling.metrics.max_age_seconds,
    )


def _serving(pods: Iterable[PodFacts], role: str) -> frozenset[str]:
    """Leaders (only they have the API and its metrics) that are ready and take requests."""
    return frozenset(
        pod.name
        for pod in pods
        if pod.role == role and pod.ready and pod.rank in (None, "0") and pod.traffic != labels.DRAINING
    )
