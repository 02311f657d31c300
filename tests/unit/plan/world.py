"""A model of the cluster, just rich enough to carry out plans: API server defaults, controllers, pods, a clock."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pd_operator.api import labels
from pd_operator.api.v1alpha1 import PDInferenceService, PDInferenceServiceStatus
from pd_operator.plan.actions import Action, Apply, Delete, Plan
from pd_operator.plan.observed import ChildKey, Failure, Observed, PodFacts, Problem, RouterFacts, SetFacts
from pd_operator.plan.plan import plan
from pd_operator.scaling.window import Window

START = 1_800_000_000.0
UID = "0b6b5a34-7d6f-4a55-9b5e-2f6f0d4f4c11"


def service(spec: Mapping[str, Any] | None = None, **metadata: Any) -> PDInferenceService:
    """A service named `demo` with some spec."""
    body = {
        "metadata": {"name": "demo", "namespace": "team", "uid": UID, "generation": 1, **metadata},
        "spec": {"model": {"name": "org/tiny"}, **(spec or {})},
    }
    return PDInferenceService.model_validate(body)


@dataclass
class Pod:
    """A pod that changes."""

    name: str
    role: str
    generation: str
    compat: str
    ordinal: int
    traffic: str | None
    rank: str | None
    accelerators: int = 0
    ready: bool = False
    was_ready: bool = False
    terminating: bool = False
    scheduled: bool = True
    drain_started: float | None = None
    problem: Problem | None = None

    def facts(self) -> PodFacts:
        """What an observer sees."""
        return PodFacts(
            name=self.name,
            role=self.role,
            generation=self.generation,
            compat=self.compat,
            ordinal=self.ordinal,
            traffic=self.traffic,
            rank=self.rank,
            ready=self.ready and not self.terminating,
            was_ready=self.was_ready,
            terminating=self.terminating,
            scheduled=self.scheduled,
            accelerators=self.accelerators,
            drain_started=self.drain_started,
            problem=self.problem,
        )


@dataclass
class World:
    """The cluster as one service sees it.

    `lost` collects pods that were removed although they may have held requests.
    """

    service: PDInferenceService
    now: float = START
    children: dict[ChildKey, dict[str, Any]] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    idle: dict[str, bool] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()
    window: Window | None = None
    lost: list[str] = field(default_factory=list)

    def edit(self, **spec: Any) -> None:
        """Change fields of the spec (camelCase, whole members)."""
        body = self.service.model_dump(mode="json", by_alias=True, exclude_none=True)
        body["spec"] |= spec
        body["metadata"]["generation"] += 1
        self.service = PDInferenceService.model_validate(body)

    def observed(self) -> Observed:
        """Everything as facts."""
        return Observed(
            service=self.service,
            now=self.now,
            children=self.children,
            sets=tuple(self._sets()),
            routers=tuple(self._routers()),
            pods=tuple(pod.facts() for _, pod in sorted(self.pods.items())),
            idle=self.idle,
            failures=self.failures,
            window=self.window,
        )

    def step(self, seconds: float = 0.0) -> Plan:
        """Let time pass, plan, and carry the plan out (controllers do not act yet)."""
        self.now += seconds
        made = plan(self.observed())
        for action in made.actions:
            self._carry_out(action)
        stored = made.status.model_dump(mode="json", by_alias=True, exclude_none=True)
        self.service = self.service.model_copy(update={"status": PDInferenceServiceStatus.model_validate(stored)})
        return made

    def settle(self, seconds: float = 3.0, *, rounds: int = 60) -> None:
        """Plan and let controllers and pods catch up until nothing happens any more."""
        for _ in range(rounds):
            made = self.step(seconds)
            moved = self.controllers()
            moved |= self.become_ready()
            if not made.actions and not moved and made.requeue_after is None:
                return

    def controllers(self) -> bool:
        """StatefulSet and Deployment controllers, garbage collection and kubelets, to the end."""
        before = {name: copy.copy(pod) for name, pod in self.pods.items()}
        for name in [name for name, pod in self.pods.items() if pod.terminating]:
            del self.pods[name]
        wanted = dict(self._wanted_pods())
        for name in [name for name in self.pods if name not in wanted]:
            self._remove(self.pods.pop(name))
        for name, body in wanted.items():
            self.pods.setdefault(name, body)
        return before != self.pods

    def become_ready(self, *names: str) -> bool:
        """Pods become ready: the named ones, else all that have no problem; routers when they can pair workers."""
        moved = False
        for name, pod in self.pods.items():
            if pod.role != labels.ROUTER and not pod.ready and not pod.problem and (not names or name in names):
                pod.ready = pod.was_ready = moved = True
        for pod in self.pods.values():
            able = pod.role == labels.ROUTER and self._pairs(pod.compat)
            if pod.role == labels.ROUTER and pod.ready != able:
                pod.ready, moved = able, True
        return moved

    def pods_of(self, role: str, generation: str | None = None) -> list[Pod]:
        """Pods of a role by name."""
        return [
            pod for _, pod in sorted(self.pods.items()) if pod.role == role and generation in (None, pod.generation)
        ]

    def serving(self, role: str) -> int:
        """Pods of a role that a router may use."""
        return sum(pod.ready and pod.traffic == labels.SERVING for pod in self.pods_of(role))

    def set_size(self, role: str) -> int:
        """Pods wanted by all sets of a role."""
        return sum(facts.replicas for facts in self._sets() if facts.role == role)

    def _pairs(self, compat: str) -> bool:
        usable = {pod.role for pod in self.pods.values() if pod.ready and pod.compat == compat}
        return {labels.PREFILL, labels.DECODE} <= usable

    def _sets(self) -> Iterator[SetFacts]:
        for (kind, name), body in sorted(self.children.items()):
            if kind == "StatefulSet":
                tags = body["metadata"]["labels"]
                yield SetFacts(
                    name=name,
                    role=tags[labels.ROLE],
                    generation=tags[labels.GENERATION],
                    compat=tags[labels.COMPAT],
                    replicas=body["spec"]["replicas"],
                    nodes=int(body["metadata"]["annotations"][labels.NODES]),
                )

    def _routers(self) -> Iterator[RouterFacts]:
        for (kind, name), body in sorted(self.children.items()):
            if kind == "Deployment":
                compat = body["metadata"]["labels"][labels.COMPAT]
                ready = sum(pod.ready for pod in self.pods_of(labels.ROUTER) if pod.compat == compat)
                yield RouterFacts(name=name, compat=compat, replicas=body["spec"]["replicas"], ready=ready)

    def _wanted_pods(self) -> Iterator[tuple[str, Pod]]:
        for (kind, owner), body in self.children.items():
            if kind not in ("StatefulSet", "Deployment"):
                continue
            tags = body["spec"]["template"]["metadata"]["labels"]
            limits = body["spec"]["template"]["spec"]["containers"][0]["resources"].get("limits", {})
            for ordinal in range(body["spec"]["replicas"]):
                name = f"{owner}-{ordinal}"
                yield (
                    name,
                    Pod(
                        name=name,
                        role=tags[labels.ROLE],
                        generation=tags.get(labels.GENERATION, ""),
                        compat=tags[labels.COMPAT],
                        ordinal=ordinal if kind == "StatefulSet" else 0,
                        traffic=tags.get(labels.TRAFFIC),
                        rank=tags.get(labels.RANK),
                        accelerators=int(limits.get("nvidia.com/gpu", 0)),
                    ),
                )

    def _remove(self, pod: Pod) -> None:
        leads = pod.rank in (None, "0")
        if pod.role == labels.ROUTER or not pod.was_ready or not leads:
            return
        drained = pod.drain_started is not None and pod.traffic == labels.DRAINING
        elapsed = self.now - (pod.drain_started or self.now)
        patient = elapsed >= self.service.role(pod.role).drain_timeout_seconds
        if not drained or not (patient or (elapsed >= 8 and self.idle.get(pod.name))):
            self.lost.append(pod.name)

    def _carry_out(self, action: Action) -> None:
        if isinstance(action, Apply):
            body = copy.deepcopy(dict(action.body))
            self.children[body["kind"], body["metadata"]["name"]] = with_defaults(body)
        elif isinstance(action, Delete):
            self.children.pop(action.key, None)
        else:
            pod = self.pods[action.name]
            pod.traffic = action.labels.get(labels.TRAFFIC, pod.traffic)
            pod.rank = action.labels.get(labels.RANK, pod.rank)
            if labels.DRAIN_STARTED in action.annotations:
                text = action.annotations[labels.DRAIN_STARTED]
                pod.drain_started = datetime.fromisoformat(text).timestamp() if text else None


def with_defaults(body: dict[str, Any]) -> dict[str, Any]:
    """The object as the API server gives it back: defaults, own metadata, empty values left out."""
    body["metadata"] |= {"uid": "of-the-child", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z"}
    spec = body.get("spec", {})
    if body["kind"] == "Service":
        spec |= {"clusterIP": spec.get("clusterIP", "10.0.0.7"), "sessionAffinity": "None"}
        spec.setdefault("type", "ClusterIP")
    if "template" in spec:
        pod = spec["template"]["spec"]
        pod |= {"restartPolicy": "Always", "schedulerName": pod.get("schedulerName", "default-scheduler")}
        pod.setdefault("dnsPolicy", "ClusterFirst")
        for container in pod["containers"]:
            container |= {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
            for probe in (value for key, value in container.items() if key.endswith("Probe")):
                probe["httpGet"]["scheme"] = "HTTP"
                probe["successThreshold"] = 1
            for variable in container.get("env", ()):
                if "fieldRef" in variable.get("valueFrom", {}):
                    variable["valueFrom"]["fieldRef"]["apiVersion"] = "v1"
                if variable.get("value") == "":
                    del variable["value"]
            for amounts in container["resources"].values():
                amounts |= {name: "1" for name, amount in amounts.items() if amount == "1000m"}
    if body["kind"] == "StatefulSet":
        spec["persistentVolumeClaimRetentionPolicy"] = {"whenDeleted": "Retain", "whenScaled": "Retain"}
    return body
