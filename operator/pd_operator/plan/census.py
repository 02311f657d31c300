"""Counting what exists: replicas of each role by state, accelerators, and whether requests can be served."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pd_operator.api.v1alpha1 import GenerationStatus, RoleStatus, RouterType
from pd_operator.plan.counts import Counts
from pd_operator.plan.generations import ROLES
from pd_operator.plan.observed import Observed
from pd_operator.plan.replicas import Replica, replicas_of, set_nodes, worker_sets
from pd_operator.plan.rollout import Rollout


@dataclass(frozen=True, slots=True)
class Census:
    """What exists.

    Attributes:
        replicas: Replicas by role and generation.
        accelerators: In use by workers, pending, draining and ending ones included.
        router_ready: Compats that have a ready router.
    """

    replicas: Mapping[tuple[str, str], tuple[Replica, ...]]
    accelerators: int
    router_ready: frozenset[str]

    def of_role(self, role: str) -> tuple[Replica, ...]:
        """Replicas of a role, of all generations."""
        return tuple(replica for (name, _), found in self.replicas.items() if name == role for replica in found)

    def present(self) -> Counts:
        """Replicas that exist and are not on their way out."""
        return Counts(*(sum(not replica.draining for replica in self.of_role(role)) for role in ROLES))

    def ready(self, role: str) -> int:
        """Replicas that can take requests."""
        return sum(replica.ready for replica in self.of_role(role))

    def draining(self) -> int:
        """Replicas of both roles that finish their requests."""
        return sum(replica.draining for role in ROLES for replica in self.of_role(role))


def census_of(observed: Observed) -> Census:
    """Counts everything once."""
    return Census(
        replicas={
            (facts.role, facts.generation): replicas_of(observed, facts.role, facts.generation, set_nodes(facts))
            for facts in worker_sets(observed)
        },
        accelerators=sum(pod.accelerators for pod in observed.pods if pod.role in ROLES),
        router_ready=frozenset(router.compat for router in observed.routers if router.ready > 0),
    )


def can_serve(observed: Observed, rollout: Rollout, census: Census) -> bool:
    """Whether a request sent now finds a router (unless that is the user's) and a pair of workers that match."""
    needs_router = observed.service.spec.router.type != RouterType.NONE
    for compat in set(rollout.compats.values()):
        roles = {
            role
            for (role, generation), replicas in census.replicas.items()
            if rollout.compats.get(generation) == compat and any(replica.ready for replica in replicas)
        }
        if roles == set(ROLES) and (compat in census.router_ready or not needs_router):
            return True
    return False


def role_status(census: Census, role: str, current: str, desired: int) -> RoleStatus:
    """One role's counts, in replicas."""
    replicas = census.of_role(role)
    ready = census.ready(role)
    return RoleStatus(
        replicas=len(replicas),
        ready_replicas=ready,
        desired_replicas=desired,
        updated_replicas=len(census.replicas.get((role, current), ())),
        draining_replicas=sum(replica.draining for replica in replicas),
        unschedulable_replicas=sum(replica.unschedulable for replica in replicas),
        summary=f"{ready}/{desired}",
    )


def generation_statuses(census: Census, rollout: Rollout) -> tuple[GenerationStatus, ...]:
    """Every generation with its workers."""
    found = (
        GenerationStatus(
            hash=name,
            compat=rollout.compats[name],
            prefill=len(census.replicas.get((ROLES[0], name), ())),
            decode=len(census.replicas.get((ROLES[1], name), ())),
            state=stage.value,
        )
        for name, stage in rollout.stages.items()
    )
    return tuple(found)[:16]
