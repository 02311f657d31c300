"""What every child has in common: labels, owner, fingerprint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pd_operator.api import labels
from pd_operator.api.v1alpha1 import PDInferenceService
from pd_operator.plan.generations import digest

#: `app.kubernetes.io/name` per component: the program that runs in its pods.
_PROGRAMS: Final = {labels.PREFILL: "sglang", labels.DECODE: "sglang", labels.ROUTER: "smg"}


def child_labels(service: PDInferenceService, component: str) -> dict[str, str]:
    """Labels of a child of `service` that belongs to a component (`prefill`, `decode` or `router`)."""
    return {
        labels.NAME: _PROGRAMS[component],
        labels.INSTANCE: service.metadata.name,
        labels.COMPONENT: component,
        labels.PART_OF: service.metadata.name,
        labels.MANAGED_BY: labels.MANAGER,
        labels.SERVICE: service.metadata.name,
        labels.ROLE: component,
    }


def child(
    service: PDInferenceService,
    api_version: str,
    kind: str,
    name: str,
    component: str,
    *,
    more_labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **content: Any,
) -> dict[str, Any]:
    """A child object for server-side apply: its identity, its owner, and `content` as top-level fields."""
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": service.metadata.namespace,
        "labels": {**child_labels(service, component), **(more_labels or {})},
        "ownerReferences": [owner(service)],
    }
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}


def owner(service: PDInferenceService) -> dict[str, Any]:
    """The controller reference: deleting the service deletes its children (garbage collection, no finalizer)."""
    return {
        "apiVersion": labels.API_VERSION,
        "kind": labels.KIND,
        "name": service.metadata.name,
        "uid": service.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def with_fingerprint(body: dict[str, Any], of: Any = None) -> dict[str, Any]:
    """`body` with an annotation that changes whenever `of` (default: the whole body) is built differently.

    A comparison of desired with live fields cannot see a field that is no longer desired; the fingerprint can.
    """
    mark = digest(body if of is None else of)
    metadata = body["metadata"]
    annotations = {**metadata.get("annotations", {}), labels.FINGERPRINT: mark}
    return {**body, "metadata": {**metadata, "annotations": annotations}}
