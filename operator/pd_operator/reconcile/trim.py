"""What is kept of each object: only what planning reads, so that thousands of objects fit in a small process.

What is dropped here also never causes a reconcile: a status that nobody reads may change as often as it likes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pd_operator.api import labels
from pd_operator.reconcile.kinds import DEPLOYMENT, POD, SERVICE_KIND, STATEFUL_SET, Kind
from pd_operator.reconcile.ports import Raw

_METADATA: Final = (
    "name",
    "namespace",
    "uid",
    "generation",
    "labels",
    "annotations",
    "ownerReferences",
    "creationTimestamp",
    "deletionTimestamp",
)
#: Written by kubectl and by controllers for themselves; as large as the object, or counting every rollout.
_FOREIGN_ANNOTATIONS: Final = frozenset(
    {"kubectl.kubernetes.io/last-applied-configuration", "deployment.kubernetes.io/revision"}
)
_POD_CONDITIONS: Final = frozenset({"Ready", "PodScheduled", "DisruptionTarget"})


def trim(kind: Kind, raw: Raw) -> dict[str, Any]:
    """The part of an object that is kept. `resourceVersion` is not: it is compared, not planned with."""
    kept: dict[str, Any] = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": _metadata(raw)}
    if kind is POD:
        kept["metadata"].pop("ownerReferences", None)
        kept["spec"] = _pod_spec(raw.get("spec") or {})
        kept["status"] = _pod_status(raw.get("status") or {})
        return kept
    kept |= {part: value for part, value in raw.items() if part not in ("apiVersion", "kind", "metadata", "status")}
    if kind is SERVICE_KIND:
        kept["metadata"]["resourceVersion"] = raw["metadata"].get("resourceVersion", "")
        kept["status"] = raw.get("status") or {}
    elif kind is STATEFUL_SET:
        kept["status"] = {"observedGeneration": (raw.get("status") or {}).get("observedGeneration", 0)}
    elif kind is DEPLOYMENT:
        kept["status"] = _deployment_status(raw.get("status") or {})
    return kept


def _metadata(raw: Raw) -> dict[str, Any]:
    metadata = raw["metadata"]
    kept = {name: metadata[name] for name in _METADATA if name in metadata}
    annotations = kept.get("annotations")
    if annotations and not _FOREIGN_ANNOTATIONS.isdisjoint(annotations):
        kept["annotations"] = {k: v for k, v in annotations.items() if k not in _FOREIGN_ANNOTATIONS}
    return kept


def _deployment_status(status: Mapping[str, Any]) -> dict[str, Any]:
    failures = [
        {name: condition.get(name) for name in ("type", "status", "reason", "message")}
        for condition in status.get("conditions") or ()
        if condition.get("type") == "ReplicaFailure"
    ]
    return {"readyReplicas": status.get("readyReplicas", 0), "conditions": failures}


def _pod_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    containers = [
        {"name": container.get("name"), "resources": {"limits": limits}}
        for container in spec.get("containers") or ()
        if (limits := (container.get("resources") or {}).get("limits"))
    ]
    return {"nodeName": spec.get("nodeName"), "containers": containers}


def _pod_status(status: Mapping[str, Any]) -> dict[str, Any]:
    conditions = [
        {name: condition.get(name) for name in ("type", "status", "reason", "message", "lastTransitionTime")}
        for condition in status.get("conditions") or ()
        if condition.get("type") in _POD_CONDITIONS
    ]
    kept = {name: status[name] for name in ("phase", "podIP", "reason", "message") if status.get(name)}
    kept["conditions"] = conditions
    for group in ("initContainerStatuses", "containerStatuses"):
        if status.get(group):
            kept[group] = [
                {name: container.get(name) for name in ("name", "image", "restartCount", "state", "lastState")}
                for container in status[group]
            ]
    return kept


def owner_of(raw: Raw) -> tuple[str, str] | None:
    """Namespace and name of the service that an object belongs to: its label, else its owner reference."""
    metadata = raw["metadata"]
    name = (metadata.get("labels") or {}).get(labels.SERVICE)
    if not name:
        name = next(
            (ref["name"] for ref in metadata.get("ownerReferences") or () if ref.get("kind") == labels.KIND), None
        )
    return (metadata["namespace"], name) if name else None
