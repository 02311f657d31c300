"""Facts about one service at one moment, as typed values. No Kubernetes type goes further than here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pd_operator.api.v1alpha1 import PDInferenceService
from pd_operator.scaling.window import Window


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that keeps a pod or a child object from working.

    Attributes:
        reason: One of the reasons in `pd_operator.api.conditions`.
        subject: What it is about, for people: `pod demo-prefill-1a2b3c4d-0`.
        message: One sentence in the cluster's own words (scheduler, kubelet, quota admission).
    """

    reason: str
    subject: str
    message: str


@dataclass(frozen=True, slots=True)
class PodFacts:
    """One worker or router pod.

    Attributes:
        role: `prefill`, `decode` or `router`.
        generation, compat: Hashes from its labels; empty on router pods where they do not apply.
        ordinal: Index in its StatefulSet; 0 on router pods.
        traffic, rank: Values of the labels, `None` where absent.
        ready: Its Ready condition is True and it is not being deleted.
        was_ready: It has been Ready at some time since its container started, so that it may hold requests.
        terminating: It has a deletion timestamp.
        scheduled: It has a node.
        accelerators: How many accelerators it requests.
        drain_started: Seconds since the epoch, from its annotation.
        problem: Why it does not run, if anything is known.
    """

    name: str
    role: str
    generation: str = ""
    compat: str = ""
    ordinal: int = 0
    traffic: str | None = None
    rank: str | None = None
    ip: str | None = None
    node: str | None = None
    ready: bool = False
    was_ready: bool = False
    terminating: bool = False
    scheduled: bool = True
    accelerators: int = 0
    drain_started: float | None = None
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class SetFacts:
    """One StatefulSet of workers.

    Attributes:
        replicas: Its `spec.replicas`, in pods.
        nodes: Pods of one replica (from its annotation or template), so that counts can be told in replicas.
        problem: Why its controller cannot create pods, if anything is known.
    """

    name: str
    role: str
    generation: str
    compat: str
    replicas: int
    nodes: int = 1
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class RouterFacts:
    """One router Deployment."""

    name: str
    compat: str
    replicas: int
    ready: int
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """A write that the API server refused the last time, and that has not succeeded since.

    Attributes:
        subject: `StatefulSet demo-prefill-1a2b3c4d`.
        message: The API server's answer.
        forbidden: It was a missing permission (403) rather than an invalid object.
    """

    subject: str
    message: str
    forbidden: bool = False


#: Identity of a child: kind and name (the namespace is the service's).
ChildKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything that planning may know about one service.

    Attributes:
        service: The object as the API server has it, status included.
        children: Live child objects as the API server returned them, by kind and name; the planner compares them
            with what should exist, and reads nothing else from them.
        sets, routers, pods: The same children as facts.
        idle: For draining pods: whether the engine has nothing running, queued or in transfer; absent when it
            could not be asked.
        failures: Refused writes.
        window: The latest metrics poll; None outside SLO mode.
        now: Seconds since the epoch.
    """

    service: PDInferenceService
    now: float
    children: Mapping[ChildKey, Mapping[str, Any]] = field(default_factory=dict)
    sets: tuple[SetFacts, ...] = ()
    routers: tuple[RouterFacts, ...] = ()
    pods: tuple[PodFacts, ...] = ()
    idle: Mapping[str, bool] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()
    window: Window | None = None
