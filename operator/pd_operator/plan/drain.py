"""Resizing one StatefulSet without losing a request.

A StatefulSet removes its highest ordinals first, so those are the victims, in whole replicas. A victim that may hold
requests is taken away from the router, then waited for, and only then removed; how long it has been draining is kept
in an annotation, so that a restart of the operator changes nothing. While a replica that is to stay is not ready, a
victim stands in for it: being first in line is no reason to lose the only worker that serves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from pd_operator.api import labels
from pd_operator.plan.actions import MarkPod
from pd_operator.plan.observed import PodFacts, SetFacts
from pd_operator.plan.replicas import Replica, grouped, set_nodes

#: After this long no router sends requests to a pod that lost the serving label: up to 3 s were measured with
#: SMG 1.13 under load; before, an idle engine may still get a request.
SETTLE_SECONDS: Final = 8.0
#: A drain that began later than this from now did not: the clock was set back, or somebody edited the annotation.
_FUTURE_SECONDS: Final = 60.0
#: How often a draining engine is asked whether it is idle.
ASK_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Resize:
    """What to do with one set now.

    Attributes:
        pods: What its `spec.replicas` should be now.
        marks: Label and annotation changes of its pods.
        ask: Draining pods whose engine should be asked whether it is idle.
        wait: Seconds until more can be done, if time alone decides.
    """

    pods: int
    marks: tuple[MarkPod, ...] = ()
    ask: tuple[str, ...] = ()
    wait: float | None = None


@dataclass(frozen=True, slots=True)
class Patience:
    """How removal is judged: time now, what engines answered, and how long a drain may take, in seconds."""

    now: float
    idle: Mapping[str, bool]
    timeout: float


def resize(facts: SetFacts, pods: Iterable[PodFacts], target: int, patience: Patience, *, may_drain: bool) -> Resize:
    """The next step of a set towards `target` pods.

    Args:
        facts: The set.
        pods: Its pods.
        target: Pods wanted.
        patience: Time and drain limits.
        may_drain: Whether replicas that serve may be taken away from users now.
    """
    nodes = set_nodes(facts)
    replicas = grouped(pods, nodes)
    first_victim = -(-target // nodes)
    victims = {replica.index: replica for replica in replicas if replica.index >= first_victim}
    kept = [replica for replica in replicas if replica.index < first_victim]

    spared = _spared(kept, victims.values(), first_victim, may_drain=may_drain)

    end = max(target, facts.replicas)
    index = -(-end // nodes)
    while index > first_victim and index - 1 not in spared and _may_go(victims.get(index - 1), patience):
        index -= 1

    serving = [*kept, *(victim for victim in victims.values() if victim.index in spared)]
    leaving = [
        victim
        for victim in victims.values()
        if victim.index < index and victim.index not in spared and _holds_requests(victim)
    ]
    marks = [*_serving_marks(serving), *(mark for victim in leaving if (mark := _draining_mark(victim, patience.now)))]
    return Resize(
        pods=max(target, min(end, index * nodes)),
        marks=tuple(marks),
        ask=tuple(victim.leader.name for victim in leaving if victim.leader),
        wait=min((_wait(victim, patience) for victim in leaving), default=None),
    )


def _spared(kept: Iterable[Replica], victims: Iterable[Replica], wanted: int, *, may_drain: bool) -> frozenset[int]:
    """Victims that go on serving for now, by index."""
    if not may_drain:
        return frozenset(victim.index for victim in victims if _holds_requests(victim) and not victim.draining)
    missing = wanted - sum(replica.healthy for replica in kept)
    able = sorted(victim.index for victim in victims if victim.healthy)
    return frozenset(able[: max(0, missing)])


def _may_go(victim: Replica | None, patience: Patience) -> bool:
    """Whether removing a victim can lose no request, or it had its time."""
    if victim is None or not _holds_requests(victim):
        return True
    leader, elapsed = victim.leader, _elapsed(victim, patience.now)
    if leader is None or elapsed is None:
        return False
    if elapsed >= max(patience.timeout, SETTLE_SECONDS):
        return True
    return elapsed >= SETTLE_SECONDS and patience.idle.get(leader.name) is True


def _holds_requests(replica: Replica) -> bool:
    return replica.leader is not None and (replica.leader.ready or replica.leader.was_ready)


def _elapsed(victim: Replica, now: float) -> float | None:
    """Seconds since the drain began; None when it has not, or when that is not told."""
    leader = victim.leader
    if leader is None or leader.traffic != labels.DRAINING or leader.drain_started is None:
        return None
    elapsed = now - leader.drain_started
    return None if elapsed < -_FUTURE_SECONDS else elapsed


def _wait(victim: Replica, patience: Patience) -> float:
    return max(ASK_SECONDS, SETTLE_SECONDS - (_elapsed(victim, patience.now) or 0.0))


def _draining_mark(victim: Replica, now: float) -> MarkPod | None:
    leader = victim.leader
    if leader is None or _elapsed(victim, now) is not None:
        return None
    started = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return MarkPod(leader.name, {labels.TRAFFIC: labels.DRAINING}, {labels.DRAIN_STARTED: started})


def _serving_marks(replicas: Iterable[Replica]) -> Iterable[MarkPod]:
    """Leaders serve; followers know their rank and stay out of the router's sight."""
    for replica in replicas:
        for rank, pod in replica.pods.items():
            traffic = labels.SERVING if rank == 0 else labels.HELD
            stale = pod.drain_started is not None
            if pod.traffic != traffic or pod.rank != str(rank) or stale:
                yield MarkPod(
                    pod.name,
                    {labels.TRAFFIC: traffic, labels.RANK: str(rank)},
                    {labels.DRAIN_STARTED: None} if stale else {},
                )
