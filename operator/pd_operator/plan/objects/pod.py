"""Parts of a pod that workers and the router share: placement, security, resources, additions of the user."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pd_operator.api.v1alpha1 import PodOverlay, ResourceRequirements


def pod_spec(
    overlay: PodOverlay,
    container: Mapping[str, Any],
    *,
    volumes: Iterable[Mapping[str, Any]],
    security: Mapping[str, Any],
    grace_seconds: int,
    node_selector: Mapping[str, str] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """The pod's spec: one main container, and the user's additions, which win over the operator's defaults."""
    spec: dict[str, Any] = {
        "containers": [dict(container)],
        "initContainers": list(overlay.init_containers),
        "volumes": merged(volumes, overlay.volumes, "name"),
        "securityContext": {**security, **(overlay.security_context or {})},
        "terminationGracePeriodSeconds": grace_seconds,
        # Environment variables of every Service in the namespace: thousands in a large one.
        "enableServiceLinks": False,
        "nodeSelector": {**(node_selector or {}), **overlay.node_selector},
        "tolerations": list(overlay.tolerations),
        "affinity": overlay.affinity,
        "priorityClassName": overlay.priority_class_name,
        "schedulerName": overlay.scheduler_name,
        "runtimeClassName": overlay.runtime_class_name,
        "imagePullSecrets": [{"name": name} for name in overlay.image_pull_secrets],
        **more,
    }
    if overlay.host_network:
        spec |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    return {key: value for key, value in spec.items() if value not in (None, [], {})}


def container_security(overlay: PodOverlay, *, capabilities: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    """The main container's security context: nothing that a worker or router does not need."""
    add = {"add": list(capabilities)} if capabilities else {}
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"], **add},
        **more,
        **(overlay.container_security_context or {}),
    }


def resources(wanted: ResourceRequirements, devices: Mapping[str, int]) -> dict[str, Any]:
    """Requests and limits; devices have the same amount in both, as Kubernetes asks for extended resources."""
    amounts = {name: str(count) for name, count in devices.items()}
    out = {"requests": {**wanted.requests, **amounts}, "limits": {**wanted.limits, **amounts}}
    return {key: value for key, value in out.items() if value}


def merged(ours: Iterable[Mapping[str, Any]], theirs: Iterable[Mapping[str, Any]], key: str) -> list[dict[str, Any]]:
    """Two lists of objects told apart by `key`; the user's replaces the operator's."""
    taken = {item.get(key) for item in theirs}
    return [*(dict(item) for item in ours if item.get(key) not in taken), *(dict(item) for item in theirs)]


def scrape_annotations(port: int) -> dict[str, str]:
    """How Prometheus finds the pod's metrics (the widespread annotation convention)."""
    return {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(port),
        "prometheus.io/path": "/metrics",
    }
