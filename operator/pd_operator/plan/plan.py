"""One service at one moment: what should be done, and what its status should say."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pd_operator.api.v1alpha1 import ScalingMode
from pd_operator.plan.actions import Action, Delete, Plan
from pd_operator.plan.announcements import announcements
from pd_operator.plan.census import census_of
from pd_operator.plan.children import after_workers, before_workers, current_set, resized, unwanted
from pd_operator.plan.counts import Counts
from pd_operator.plan.difference import changes, key_of
from pd_operator.plan.drain import Patience, Resize, resize
from pd_operator.plan.generations import ROLES, set_name
from pd_operator.plan.observed import Observed, SetFacts
from pd_operator.plan.replicas import pods_of, worker_sets
from pd_operator.plan.rollout import Rollout, current_target, rollout_of, target_of
from pd_operator.plan.scale import scaling_of
from pd_operator.plan.status import status_of, status_of_invalid
from pd_operator.plan.validate import violations
from pd_operator.plan.verdicts import Scene

#: How often SLO mode looks at new metrics.
DECISION_SECONDS = 15.0


def plan(observed: Observed) -> Plan:
    """The next steps towards what the spec asks for. Pure and total."""
    service = observed.service
    if service.metadata.deletion_timestamp:
        return Plan(status=service.status)  # garbage collection follows the owner references
    broken = violations(service)
    if broken:
        status = status_of_invalid(observed, broken)
        return Plan(status=status, events=announcements(service.status, status))
    scaling = scaling_of(observed)
    rollout = rollout_of(observed, scaling.counts)
    workers = _workers(observed, rollout, scaling.counts)
    status = status_of(Scene(observed, scaling, rollout, census_of(observed)))
    waits = [*workers.waits, *([DECISION_SECONDS] if service.spec.scaling.mode == ScalingMode.SLO else [])]
    return Plan(
        status=status,
        actions=_actions(observed, rollout, workers),
        events=announcements(service.status, status),
        status_first=scaling.moved,
        ask_idle=workers.ask,
        requeue_after=min(waits, default=None),
    )


@dataclass(frozen=True, slots=True)
class _Workers:
    """Steps of all sets.

    Attributes:
        resizes: The next step of each existing set, by its name.
        empty: Old sets without any pod.
    """

    resizes: dict[str, Resize] = field(default_factory=dict)
    empty: tuple[str, ...] = ()
    targets: dict[str, int] = field(default_factory=dict)

    @property
    def ask(self) -> tuple[str, ...]:
        return tuple(name for step in self.resizes.values() for name in step.ask)

    @property
    def waits(self) -> tuple[float, ...]:
        return tuple(step.wait for step in self.resizes.values() if step.wait is not None)


def _workers(observed: Observed, rollout: Rollout, counts: Counts) -> _Workers:
    service = observed.service
    resizes: dict[str, Resize] = {}
    empty: list[str] = []
    for facts in worker_sets(observed):
        pods = pods_of(observed, facts.role, facts.generation)
        target = target_of(observed, rollout, facts, counts)
        if facts.generation != rollout.current.hash and not (target.pods or facts.replicas or pods):
            empty.append(facts.name)
            continue
        timeout = float(service.role(facts.role).drain_timeout_seconds)
        patience = Patience(now=observed.now, idle=observed.idle, timeout=timeout)
        resizes[facts.name] = resize(facts, pods, target.pods, patience, may_drain=target.may_drain)
    return _Workers(
        resizes=resizes,
        empty=tuple(empty),
        targets={role: current_target(service, role, counts) for role in ROLES},
    )


def _actions(observed: Observed, rollout: Rollout, workers: _Workers) -> tuple[Action, ...]:
    """In this order: what frees users and accelerators first, since a refused write stops those after it."""
    service, live = observed.service, observed.children
    around = [*before_workers(service)]
    front = [*after_workers(service, rollout)]
    sets = []
    for role in ROLES:
        name = set_name(service.metadata.name, role, rollout.current.hash)
        step = workers.resizes.get(name)
        pods = workers.targets[role] if step is None else step.pods
        sets.append(current_set(service, role, rollout.current, pods, live.get(("StatefulSet", name))))
    wanted = {key_of(body) for body in (*around, *front)}
    return (
        *(mark for step in workers.resizes.values() for mark in step.marks),
        *unwanted(observed, wanted),
        *(Delete("StatefulSet", name) for name in workers.empty),
        *changes(_old_sets(observed, rollout, workers, worker_sets(observed)), live),
        *changes([*around, *sets, *front], live),
    )


def _old_sets(
    observed: Observed, rollout: Rollout, workers: _Workers, sets: Iterable[SetFacts]
) -> Iterable[dict[str, object]]:
    for facts in sets:
        live = observed.children.get(("StatefulSet", facts.name))
        step = workers.resizes.get(facts.name)
        if facts.generation != rollout.current.hash and live is not None and step is not None:
            yield resized(live, step.pods)
