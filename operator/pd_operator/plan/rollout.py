"""Which generations exist, which of them serve, and how many pods each of their sets should have.

The rule, so far: a new generation is brought up beside the old one at its full size; what serves is left alone until
every role of the new one is available (and its router, when old and new workers cannot be paired); only then is the
old one drained and deleted. So a revision that does not work takes nothing away, and going back to an old spec finds
the old generation's workers where they were.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from pd_operator.api import labels
from pd_operator.api.v1alpha1 import PDInferenceService, RouterType
from pd_operator.plan.counts import Counts
from pd_operator.plan.generations import ROLES, Generation, generation_of
from pd_operator.plan.observed import Observed, SetFacts
from pd_operator.plan.replicas import replicas_of, set_nodes, worker_sets


class Stage(StrEnum):
    """Where a generation is in its life; told in `status.generations`, from where the next plan takes it up.

    Only what has once served may keep serving when a newer generation appears: a revision that never worked must not
    hold accelerators.
    """

    STARTING = "Starting"  # the current one, before both of its roles had a ready replica
    CURRENT = "Current"  # the current one, and it has served
    SERVING = "Serving"  # an old one that serves until the current one is available
    RETIRING = "Retiring"  # an old one that is drained and removed


@dataclass(frozen=True, slots=True)
class Rollout:
    """The state of all generations.

    Attributes:
        current: What the spec describes.
        stages: Every generation that has sets, and the current one, newest first.
        compats: Compat of each generation in `stages`.
        router_compats: Compats that need a router, the current one first.
    """

    current: Generation
    stages: Mapping[str, Stage]
    compats: Mapping[str, str]
    router_compats: tuple[str, ...]

    def old(self) -> tuple[str, ...]:
        """Generations other than the current one."""
        return tuple(name for name in self.stages if name != self.current.hash)

    @property
    def finished(self) -> bool:
        """Only the current generation is left, and it has served."""
        return not self.old() and self.stages[self.current.hash] == Stage.CURRENT


@dataclass(frozen=True, slots=True)
class Target:
    """How many pods a set should have in the end, and whether its serving replicas may be drained for that now."""

    pods: int
    may_drain: bool


def rollout_of(observed: Observed, counts: Counts) -> Rollout:
    """The stage of every generation."""
    service = observed.service
    current = generation_of(service.spec)
    before = {entry.hash: entry.state for entry in service.status.generations}
    compats = {current.hash: current.compat}
    for facts in worker_sets(observed):
        compats.setdefault(facts.generation, facts.compat)
    ready = _ready_replicas(observed, current)
    serves = all(ready.of(role) > 0 or counts.of(role) == 0 for role in ROLES)
    served = serves or before.get(current.hash) in (Stage.CURRENT, Stage.SERVING)
    available = _available(observed, current, ready, counts, compats)
    stages = {current.hash: Stage.CURRENT if served else Stage.STARTING}
    known = [name for name in before if name in compats]
    for name in (*known, *sorted(compats)):
        stages.setdefault(name, _old_stage(before.get(name), available=available))
    return Rollout(
        current=current,
        stages=stages,
        compats=compats,
        router_compats=_router_compats(service, current, stages, compats),
    )


def target_of(observed: Observed, rollout: Rollout, facts: SetFacts, counts: Counts) -> Target:
    """What one existing set should come to."""
    nodes = set_nodes(facts)
    wanted = counts.of(facts.role) * nodes
    stage = rollout.stages[facts.generation]
    if facts.generation == rollout.current.hash:
        return Target(wanted, may_drain=True)
    if stage == Stage.SERVING:
        # Never more of an old generation; fewer when fewer are wanted at all.
        return Target(min(facts.replicas, wanted), may_drain=True)
    return Target(0, may_drain=not _has_router_pods(observed, rollout, facts.compat))


def current_target(service: PDInferenceService, role: str, counts: Counts) -> int:
    """Pods of the current generation's set."""
    return counts.of(role) * service.role(role).parallelism.nodes


def _old_stage(before: str | None, *, available: bool) -> Stage:
    if before in (Stage.STARTING, Stage.RETIRING):
        return Stage.RETIRING  # it never served as a whole, or its time is over
    return Stage.RETIRING if available else Stage.SERVING


def _ready_replicas(observed: Observed, current: Generation) -> Counts:
    def ready(role: str) -> int:
        nodes = observed.service.role(role).parallelism.nodes
        return sum(replica.ready for replica in replicas_of(observed, role, current.hash, nodes))

    return Counts(ready(labels.PREFILL), ready(labels.DECODE))


def _available(
    observed: Observed, current: Generation, ready: Counts, counts: Counts, compats: Mapping[str, str]
) -> bool:
    """Whether the current generation can take over everything that is wanted."""
    if any(ready.of(role) < counts.of(role) for role in ROLES):
        return False
    service = observed.service
    alone = all(compat == current.compat for compat in compats.values())
    serves = all(counts.of(role) for role in ROLES)  # else no router can become ready, and there is none to wait for
    if alone or not serves or service.spec.router.type == RouterType.NONE:
        return True
    return any(router.compat == current.compat and router.ready > 0 for router in observed.routers)


def _router_compats(
    service: PDInferenceService, current: Generation, stages: Mapping[str, Stage], compats: Mapping[str, str]
) -> tuple[str, ...]:
    if service.spec.router.type == RouterType.NONE:
        return ()
    serving = (compats[name] for name, stage in stages.items() if stage == Stage.SERVING)
    return tuple(dict.fromkeys((current.compat, *serving)))


def _has_router_pods(observed: Observed, rollout: Rollout, compat: str) -> bool:
    """Whether a router that is to go still sends requests to workers of `compat`."""
    if compat in rollout.router_compats:
        return False
    return any(pod.role == labels.ROUTER and pod.compat == compat for pod in observed.pods)
