"""Services: one headless for each role, and the one that clients talk to."""

from __future__ import annotations

from typing import Any

from pd_operator.api import labels
from pd_operator.api.v1alpha1 import PDInferenceService
from pd_operator.plan.objects import ports
from pd_operator.plan.objects.metadata import child, with_fingerprint


def headless_name(service: str, role: str) -> str:
    """Name of a role's headless Service, which gives its pods their DNS names."""
    return f"{service}-{role}"


def headless_service(service: PDInferenceService, role: str) -> dict[str, Any]:
    """The headless Service of a role.

    Addresses are published before pods are ready, because ranks of a multi-node replica look for their leader while
    they start. No client may use it: a prefill worker must be addressed as itself, never through a Service.
    """
    exposed = [_port("http", ports.ENGINE_HTTP)]
    if role == labels.PREFILL:
        exposed.append(_port("bootstrap", service.spec.transfer.bootstrap_port))
    return with_fingerprint(
        child(
            service,
            "v1",
            "Service",
            headless_name(service.metadata.name, role),
            role,
            spec={
                "clusterIP": "None",
                "publishNotReadyAddresses": True,
                "selector": {labels.SERVICE: service.metadata.name, labels.ROLE: role},
                "ports": exposed,
            },
        )
    )


def client_service(service: PDInferenceService) -> dict[str, Any]:
    """The Service for clients: routers of every compat, since a router is ready only when it can serve."""
    wanted = service.spec.router.service
    return with_fingerprint(
        child(
            service,
            "v1",
            "Service",
            service.metadata.name,
            labels.ROUTER,
            annotations=wanted.annotations,
            spec={
                "type": wanted.type.value,
                "selector": {labels.SERVICE: service.metadata.name, labels.ROLE: labels.ROUTER},
                "ports": [{"name": "http", "port": wanted.port, "protocol": "TCP", "targetPort": "http"}],
            },
        )
    )


def endpoint(service: PDInferenceService) -> str:
    """Address of the API inside the cluster."""
    name, namespace = service.metadata.name, service.metadata.namespace
    return f"http://{name}.{namespace}.svc:{service.spec.router.service.port}"


def _port(name: str, number: int) -> dict[str, Any]:
    return {"name": name, "port": number, "protocol": "TCP", "targetPort": name}
