"""From stored objects to `Observed`: the only place that knows how Kubernetes spells things."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from pd_operator.api import conditions, labels
from pd_operator.api.v1alpha1 import PDInferenceService, ScalingMode
from pd_operator.plan.observed import Failure, Observed, PodFacts, Problem, RouterFacts, SetFacts
from pd_operator.reconcile.kinds import DEPLOYMENT, STATEFUL_SET
from pd_operator.reconcile.pods import pod_facts
from pd_operator.reconcile.store import View
from pd_operator.scaling.window import Window

_POD_NAME: Final = re.compile(r'^pods "[^"]*" is ')


def observe(
    view: View,
    *,
    now: float,
    failures: tuple[Failure, ...] = (),
    set_problems: Mapping[str, Problem] | None = None,
    window: Window | None = None,
) -> Observed:
    """Facts about one service.

    Args:
        view: Its objects; the service itself must be among them.
        now: Seconds since the epoch.
        failures: Refused writes.
        set_problems: By StatefulSet name, why its pods cannot be created.
        window: Latest metrics; used in SLO mode only.

    Raises:
        ValidationError: The stored service is older than a rule of this version's models.
    """
    assert view.service is not None, "only a service that exists is observed"
    service = PDInferenceService.model_validate(view.service)
    names = frozenset(role.accelerator.resource_name for role in (service.spec.prefill, service.spec.decode))
    pods = tuple(sorted((pod_facts(pod, names) for pod in view.pods), key=lambda pod: (pod.role, pod.name)))
    nodes = {role: service.role(role).parallelism.nodes for role in (labels.PREFILL, labels.DECODE)}
    return Observed(
        service=service,
        now=now,
        children=view.children,
        sets=tuple(
            set_facts(body, nodes, (set_problems or {}).get(name))
            for (kind, name), body in sorted(view.children.items())
            if kind == STATEFUL_SET.name
        ),
        routers=tuple(
            router_facts(body)
            for (kind, _), body in sorted(view.children.items())
            if kind == DEPLOYMENT.name and _label(body, labels.ROLE) == labels.ROUTER
        ),
        pods=pods,
        failures=failures,
        window=window if service.spec.scaling.mode == ScalingMode.SLO else None,
    )


def set_facts(body: Mapping[str, Any], nodes: Mapping[str, int], problem: Problem | None) -> SetFacts:
    """Facts of one StatefulSet; an older generation tells its own `nodes` in an annotation."""
    role = _label(body, labels.ROLE)
    own_nodes = (body["metadata"].get("annotations") or {}).get(labels.NODES)
    return SetFacts(
        name=body["metadata"]["name"],
        role=role,
        generation=_label(body, labels.GENERATION),
        compat=_label(body, labels.COMPAT),
        replicas=int(body["spec"].get("replicas", 1)),
        nodes=int(own_nodes) if own_nodes else nodes.get(role, 1),
        problem=problem,
    )


def router_facts(body: Mapping[str, Any]) -> RouterFacts:
    """Facts of one router Deployment."""
    status = body.get("status") or {}
    name = body["metadata"]["name"]
    return RouterFacts(
        name=name,
        compat=_label(body, labels.COMPAT),
        replicas=int(body["spec"].get("replicas", 1)),
        ready=int(status.get("readyReplicas") or 0),
        problem=next(
            (
                creation_problem(f"Deployment {name}", condition.get("message") or "its pods cannot be created")
                for condition in status.get("conditions") or ()
                if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True"
            ),
            None,
        ),
    )


def creation_problem(subject: str, message: str) -> Problem:
    """Why a controller cannot create pods: a quota, or anything else that admission refuses.

    The name of the pod is left out: with every try it is another one, and the message must not change by itself.
    """
    reason = conditions.QUOTA_EXCEEDED if "exceeded quota" in message else conditions.POD_CREATION_FAILED
    return Problem(reason, subject, _POD_NAME.sub("", " ".join(message.split())))


def missing_pods(view: View) -> dict[str, int]:
    """StatefulSets with fewer pods than they should have although their controller has seen them; how many miss."""
    pods: dict[str, int] = {}
    for pod in view.pods:
        owner = pod["metadata"]["name"].rsplit("-", 1)[0]
        pods[owner] = pods.get(owner, 0) + 1
    missing = {
        name: int(body["spec"].get("replicas", 1)) - pods.get(name, 0)
        for (kind, name), body in view.children.items()
        if kind == STATEFUL_SET.name and _controller_had_its_turn(body)
    }
    return {name: count for name, count in missing.items() if count > 0}


def _controller_had_its_turn(body: Mapping[str, Any]) -> bool:
    seen = (body.get("status") or {}).get("observedGeneration", 0)
    return bool(seen >= body["metadata"].get("generation", 1))


def pods_in_use(pods: tuple[PodFacts, ...], names: tuple[str, ...]) -> dict[str, str]:
    """Addresses of those of the named pods that have one."""
    return {pod.name: pod.ip for pod in pods if pod.name in names and pod.ip}


def _label(body: Mapping[str, Any], label: str) -> str:
    return str((body["metadata"].get("labels") or {}).get(label, ""))
