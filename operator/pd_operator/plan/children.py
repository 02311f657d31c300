"""Every child that should exist now, and those that should not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pd_operator.api import labels
from pd_operator.api.v1alpha1 import PDInferenceService, RouterType
from pd_operator.plan.actions import Delete
from pd_operator.plan.generations import ROLES, Generation
from pd_operator.plan.objects import pdb, rbac
from pd_operator.plan.objects.router import router
from pd_operator.plan.objects.service import client_service, headless_service
from pd_operator.plan.objects.statefulset import worker_set
from pd_operator.plan.observed import ChildKey, Observed
from pd_operator.plan.rollout import Rollout

#: Kinds that are deleted when they are no longer wanted. StatefulSets go another way: emptied first.
_DELETED_KINDS: Final = frozenset(
    {"Deployment", "Service", "PodDisruptionBudget", "ServiceAccount", "Role", "RoleBinding"}
)

_OWN_ANNOTATIONS: Final = (labels.NODES, labels.FINGERPRINT)


def before_workers(service: PDInferenceService) -> Iterator[dict[str, Any]]:
    """What workers need around them."""
    for role in ROLES:
        yield headless_service(service, role)
        if service.spec.disruption.enabled:
            yield pdb.disruption_budget(service, role)


def after_workers(service: PDInferenceService, rollout: Rollout) -> Iterator[dict[str, Any]]:
    """What stands in front of workers; nothing when routing is the user's."""
    if service.spec.router.type == RouterType.NONE:
        return
    account = rbac.service_account(service)
    if account is not None:
        yield account
    yield rbac.role(service)
    yield rbac.role_binding(service)
    replicas = 0 if service.spec.suspend else service.spec.router.replicas
    for compat in rollout.router_compats:
        yield router(service, compat, replicas)
    yield client_service(service)


def current_set(
    service: PDInferenceService, role: str, generation: Generation, pods: int, live: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The current generation's StatefulSet.

    A set that another release of the operator built keeps its template: only edits by others are repaired, and those
    can be told from a change of the builders by the fingerprint.
    """
    built = worker_set(service, role, generation, pods)
    if live is None or _fingerprint(live) in (None, _fingerprint(built)):
        return built
    return resized(live, pods)


def resized(live: Mapping[str, Any], pods: int) -> dict[str, Any]:
    """A StatefulSet as it is, with another number of pods."""
    metadata = live["metadata"]
    annotations = metadata.get("annotations") or {}
    kept = {
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "labels": dict(metadata.get("labels") or {}),
        "annotations": {key: annotations[key] for key in _OWN_ANNOTATIONS if key in annotations},
        "ownerReferences": list(metadata.get("ownerReferences") or ()),
    }
    spec = {**live.get("spec", {}), "replicas": pods}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": kept, "spec": _without_nulls(spec)}


def unwanted(observed: Observed, wanted: set[ChildKey]) -> Iterator[Delete]:
    """Children of this service that should not exist any more."""
    for (kind, name), body in sorted(observed.children.items()):
        if kind in _DELETED_KINDS and (kind, name) not in wanted and _is_ours(body, observed.service):
            yield Delete(kind, name)


def _is_ours(body: Mapping[str, Any], service: PDInferenceService) -> bool:
    metadata = body["metadata"]
    if metadata.get("deletionTimestamp"):
        return False
    return any(
        reference.get("uid") == service.metadata.uid and reference.get("controller")
        for reference in metadata.get("ownerReferences") or ()
    )


def _fingerprint(body: Mapping[str, Any]) -> str | None:
    mark = (body["metadata"].get("annotations") or {}).get(labels.FINGERPRINT)
    return mark if isinstance(mark, str) else None


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
