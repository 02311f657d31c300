"""From problems to one sentence that names the pod or object, the cluster's own words included."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pd_operator.api import conditions, labels
from pd_operator.plan.observed import Observed, PodFacts, Problem
from pd_operator.plan.replicas import worker_sets
from pd_operator.plan.rollout import Rollout

_WORDS: Final = {
    conditions.UNSCHEDULABLE: "cannot be scheduled",
    conditions.IMAGE_PULL_FAILED: "cannot pull its image",
    conditions.CONTAINER_CONFIG_FAILED: "cannot start its container",
    conditions.CRASH_LOOP: "keeps failing",
    conditions.QUOTA_EXCEEDED: "cannot create pods within the quota",
    conditions.POD_CREATION_FAILED: "cannot create pods",
}

#: What is told first when several things are wrong: what waiting will not heal.
_ORDER: Final = (*tuple(_WORDS)[1:], conditions.UNSCHEDULABLE)

#: Longest message of a condition.
_LONGEST: Final = 1024


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong: a condition's reason and message."""

    reason: str
    message: str


def refused(observed: Observed) -> Finding | None:
    """A write that the API server refuses; only a person can help."""
    for failure in observed.failures:
        if failure.forbidden:
            text = f"the operator lacks a permission for {failure.subject}: {failure.message}"
            return Finding(conditions.FORBIDDEN, shortened(text))
        return Finding(conditions.REJECTED, shortened(f"{failure.subject} was rejected: {failure.message}"))
    return None


def role_problem(observed: Observed, rollout: Rollout, role: str) -> Finding | None:
    """Why a role's workers do not all run. The current generation's problems come first."""
    for generation in (rollout.current.hash, *rollout.old()):
        sets = (facts for facts in worker_sets(observed) if facts.role == role and facts.generation == generation)
        pods = (pod for pod in observed.pods if pod.role == role and pod.generation == generation)
        found = _first([facts.problem for facts in sets], pods)
        if found is not None:
            return found
    return None


def router_problem(observed: Observed, rollout: Rollout) -> Finding | None:
    """Why the routers that are wanted do not all run."""
    for compat in rollout.router_compats:
        routers = (router for router in observed.routers if router.compat == compat)
        pods = (pod for pod in observed.pods if pod.role == labels.ROUTER and pod.compat == compat)
        found = _first([router.problem for router in routers], pods)
        if found is not None:
            return found
    return None


def sentence(problem: Problem) -> str:
    """One sentence about a problem."""
    words = _WORDS.get(problem.reason, "has a problem")
    return shortened(f"{problem.subject} {words}: {problem.message}")


def shortened(text: str) -> str:
    """`text` within the length of a condition's message."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _first(owners: Iterable[Problem | None], pods: Iterable[PodFacts]) -> Finding | None:
    """The most telling problem, always the same one among equals, so that the message does not jump."""
    own = [(problem, -1) for problem in owners if problem is not None]
    of_pods = [(pod.problem, pod.ordinal) for pod in pods if pod.problem is not None and not pod.terminating]
    ranked = sorted([*own, *of_pods], key=lambda found: (_rank(found[0]), found[1], found[0].subject))
    return Finding(ranked[0][0].reason, sentence(ranked[0][0])) if ranked else None


def _rank(problem: Problem) -> int:
    return _ORDER.index(problem.reason) if problem.reason in _ORDER else len(_ORDER)


#: Reasons that deserve a warning event.
PROBLEMS: Final = frozenset({*_WORDS, conditions.FORBIDDEN, conditions.REJECTED, conditions.INVALID_SPEC})
