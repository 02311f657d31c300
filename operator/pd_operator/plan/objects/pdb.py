"""PodDisruptionBudgets, one for each role."""

from __future__ import annotations

from typing import Any

from pd_operator.api import labels
from pd_operator.api.v1alpha1 import PDInferenceService
from pd_operator.plan.objects.metadata import child, with_fingerprint


def disruption_budget(service: PDInferenceService, role: str) -> dict[str, Any]:
    """The budget of a role, over the pods of all its generations.

    It counts pods of whole replicas: a replica that lost one pod serves no more, so the budget may take its other
    pods too. It must not select leaders alone, because the disruption controller takes the expected number from the
    StatefulSets' replicas, which are all pods. A pod that is not ready protects nobody and may always be evicted.
    """
    wanted = service.spec.disruption.max_unavailable_replicas
    return with_fingerprint(
        child(
            service,
            "policy/v1",
            "PodDisruptionBudget",
            f"{service.metadata.name}-{role}",
            role,
            spec={
                "maxUnavailable": wanted * service.role(role).parallelism.nodes,
                "unhealthyPodEvictionPolicy": "AlwaysAllow",
                "selector": {"matchLabels": {labels.SERVICE: service.metadata.name, labels.ROLE: role}},
            },
        )
    )
