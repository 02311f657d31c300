"""Pods of a StatefulSet as replicas: replica i of a role with n nodes is pods i·n … i·n+n-1, and the first leads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pd_operator.api import labels
from pd_operator.plan.generations import ROLES, set_name
from pd_operator.plan.observed import Observed, PodFacts, SetFacts


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica: its pods by rank, those that exist and do not end.

    Attributes:
        index: Its place in the set; the highest is removed first.
        nodes: How many pods make it whole.
    """

    index: int
    nodes: int
    pods: Mapping[int, PodFacts]

    @property
    def leader(self) -> PodFacts | None:
        """The pod that serves, if it exists."""
        return self.pods.get(0)

    @property
    def draining(self) -> bool:
        """It finishes its requests."""
        return self.leader is not None and self.leader.traffic == labels.DRAINING

    @property
    def healthy(self) -> bool:
        """All its pods are ready."""
        return len(self.pods) == self.nodes and all(pod.ready for pod in self.pods.values())

    @property
    def ready(self) -> bool:
        """It can take requests."""
        return self.healthy and not self.draining

    @property
    def unschedulable(self) -> bool:
        """One of its pods finds no node."""
        return any(not pod.scheduled for pod in self.pods.values())


def pods_of(observed: Observed, role: str, generation: str) -> tuple[PodFacts, ...]:
    """All pods of a set, ending ones included, by ordinal."""
    mine = (pod for pod in observed.pods if pod.role == role and pod.generation == generation)
    return tuple(sorted(mine, key=lambda pod: (pod.ordinal, pod.name)))


def replicas_of(observed: Observed, role: str, generation: str, nodes: int) -> tuple[Replica, ...]:
    """Replicas of a set that have at least one pod, by index."""
    return grouped(pods_of(observed, role, generation), nodes)


def grouped(pods: Iterable[PodFacts], nodes: int) -> tuple[Replica, ...]:
    """Pods that do not end, as replicas."""
    groups: dict[int, dict[int, PodFacts]] = {}
    for pod in pods:
        if not pod.terminating:
            groups.setdefault(pod.ordinal // nodes, {})[pod.ordinal % nodes] = pod
    return tuple(Replica(index, nodes, groups[index]) for index in sorted(groups))


def worker_sets(observed: Observed) -> tuple[SetFacts, ...]:
    """Sets of both roles, in a fixed order. A set whose labels were tampered with is not known by them."""
    service = observed.service.metadata.name
    known = (
        facts
        for facts in observed.sets
        if facts.role in ROLES and facts.name == set_name(service, facts.role, facts.generation)
    )
    return tuple(sorted(known, key=lambda facts: (ROLES.index(facts.role), facts.generation)))


def set_nodes(facts: SetFacts) -> int:
    """Pods of one replica of a set."""
    return max(1, facts.nodes)
