"""What the router's service discovery may do: look at pods of its own namespace."""

from __future__ import annotations

from typing import Any

from pd_operator.api import labels
from pd_operator.api.v1alpha1 import PDInferenceService
from pd_operator.plan.objects.metadata import child, with_fingerprint


def account_name(service: PDInferenceService) -> str:
    """ServiceAccount of the router: the user's, or one of the operator's making."""
    return service.spec.router.pod.service_account_name or _name(service)


def service_account(service: PDInferenceService) -> dict[str, Any] | None:
    """The router's ServiceAccount; None when the user names one."""
    if service.spec.router.pod.service_account_name:
        return None
    return with_fingerprint(child(service, "v1", "ServiceAccount", _name(service), labels.ROUTER))


def role(service: PDInferenceService) -> dict[str, Any]:
    """Permission to find workers."""
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]
    return with_fingerprint(
        child(service, "rbac.authorization.k8s.io/v1", "Role", _name(service), labels.ROUTER, rules=rules)
    )


def role_binding(service: PDInferenceService) -> dict[str, Any]:
    """The permission, given to the router's account."""
    return with_fingerprint(
        child(
            service,
            "rbac.authorization.k8s.io/v1",
            "RoleBinding",
            _name(service),
            labels.ROUTER,
            roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": _name(service)},
            subjects=[
                {
                    "kind": "ServiceAccount",
                    "name": account_name(service),
                    "namespace": service.metadata.namespace,
                }
            ],
        )
    )


def _name(service: PDInferenceService) -> str:
    return f"{service.metadata.name}-router"
