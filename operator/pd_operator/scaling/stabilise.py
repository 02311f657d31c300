"""When a role may move: dead band, step, cool-downs, and the memory of recent needs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from pd_operator.api.v1alpha1.base import MAX_REPLICAS
from pd_operator.scaling.budget import Limit, least
from pd_operator.scaling.demand import Need
from pd_operator.scaling.profile import Bounds, RoleBounds
from pd_operator.scaling.state import MAX_NEEDS, Lesson, RoleMemory
from pd_operator.scaling.window import RoleWindow

#: Needs this close to a whole number of replicas, below or above, do not move the count: noise would.
DEAD_BAND: Final = 0.05
#: The same need is written anew after this part of the stabilisation time, so that status does not change at each poll.
REFRESH_SHARE: Final = 0.2
#: A role with traffic is made smaller by at most one part in so many at once.
LOADED_STEP: Final = 8
#: A lesson holds while the load is at least this part of what it was learned at …
LESSON_LOAD_SHARE: Final = 0.8
#: … and not longer than this.
LESSON_SECONDS: Final = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Wish:
    """What a role asks for before the limits of both roles together.

    Attributes:
        replicas: The count to ask for now.
        needed: The count that the need alone asks for; None when it is not known.
        limits: What keeps `replicas` from `needed`.
        memory: The role's memory with this poll in it.
    """

    replicas: int
    needed: int | None
    limits: frozenset[Limit]
    memory: RoleMemory


@dataclass(frozen=True, slots=True)
class _Rounded:
    """A need as whole replicas: `up` is enough reason to grow, `down` is what must be kept."""

    up: int
    down: int


def wish(
    need: Need,
    load: float | None,
    bounds: Bounds,
    limits: RoleBounds,
    window: RoleWindow,
    now: float,
    memory: RoleMemory,
) -> Wish:
    """The next count of one role, from its need now and lately."""
    current = memory.replicas if memory.replicas is not None else limits.start
    memory = _watch_starting(replace(memory, replicas=current), window, now)
    if need.replicas is None:
        return Wish(current, None, frozenset({Limit.MISSING}), memory)
    rounded = _rounded(need, load, limits, window, now, memory)
    memory = _remember(memory, rounded.down, bounds, now)
    partial = window.reporting is not None and window.reporting < window.ready
    if rounded.up > current:
        return _grow(current, rounded.up, bounds, now, memory)
    return _shrink(current, rounded.down, bounds, now, memory, partial=partial, loaded=need.replicas > 0)


def moved(memory: RoleMemory, replicas: int, now: float) -> RoleMemory:
    """The memory after the role was given `replicas`."""
    before = memory.replicas
    if before == replicas:
        return memory
    grown = before is not None and replicas > before
    return replace(memory, replicas=replicas, changed_at=now, grown_at=now if grown else memory.grown_at)


def learned(
    before: RoleMemory, after: RoleMemory, need: Need, ready: int, load: float | None, now: float
) -> RoleMemory:
    """The memory after a role grew: what may be learned is that at this load, this many ready replicas are too few.

    It is learned from a symptom, since a latency says nothing about the count at which it would be broken again, and
    from growth that takes back a decrease. Without this a role would shrink when all is well, and grow again, for ever.
    """
    shrank = before.changed_at is not None and (before.grown_at is None or before.grown_at < before.changed_at)
    if load is None or not ready or not (need.symptom or shrank):
        return after
    return replace(after, lesson=Lesson(replicas=ready, load=load, at=now))


def _watch_starting(memory: RoleMemory, window: RoleWindow, now: float) -> RoleMemory:
    ready = min(window.ready, MAX_REPLICAS)
    since = memory.pending_since
    if not window.starting:
        since = None
    elif since is None or ready > memory.ready_seen:
        since = now
    return replace(memory, pending_since=since, ready_seen=ready)


def stuck(memory: RoleMemory, window: RoleWindow, limits: RoleBounds, now: float) -> int:
    """Replicas that have been starting for too long, at most as many as serve: a bound on asking for more in vain."""
    since = memory.pending_since
    if since is None or now - since < limits.start_patience_seconds:
        return 0
    return min(window.starting, window.ready)


def _rounded(
    need: Need, load: float | None, limits: RoleBounds, window: RoleWindow, now: float, memory: RoleMemory
) -> _Rounded:
    replicas = min(need.replicas or 0.0, float(MAX_REPLICAS))
    exact = bool(need.symptom)
    up = math.ceil(replicas if exact else replicas / (1 + DEAD_BAND))
    down = max(math.ceil(replicas if exact else replicas * (1 + DEAD_BAND)), min(need.keep, MAX_REPLICAS))
    if memory.lesson and replicas > 0 and _applies(memory.lesson, load, now):
        down = max(down, memory.lesson.replicas + 1)
    extra = stuck(memory, window, limits, now) if replicas > 0 else 0
    floor = least(limits)
    return _Rounded(max(min(up + extra, MAX_REPLICAS), floor), max(min(down + extra, MAX_REPLICAS), floor))


def _applies(lesson: Lesson, load: float | None, now: float) -> bool:
    return now - lesson.at < LESSON_SECONDS and (load is None or load >= lesson.load * LESSON_LOAD_SHARE)


def _remember(memory: RoleMemory, need: int, bounds: Bounds, now: float) -> RoleMemory:
    """Adds a need. After a gap the needs in between are not known, and count as the present count."""
    span = bounds.scale_down_stabilization_seconds
    gap = 2 * bounds.max_age_seconds
    needs = memory.needs
    refresh = _refresh(bounds)
    unknown = memory.seen_at is None or now - memory.seen_at > gap
    if unknown:
        needs = _add(needs, now, memory.replicas or 0, span + refresh, refresh)
    needs = _add(needs, now, need, span + refresh, refresh)
    seen = now if unknown or memory.seen_at is None or now - memory.seen_at >= gap / 4 else memory.seen_at
    return replace(memory, needs=needs, seen_at=seen)


def _refresh(bounds: Bounds) -> float:
    return bounds.scale_down_stabilization_seconds * REFRESH_SHARE


def _add(
    needs: tuple[tuple[float, int], ...], now: float, need: int, span: float, refresh: float
) -> tuple[tuple[float, int], ...]:
    """Needs of the last `span` seconds with one more; those that a later, higher one outlives are dropped."""
    kept = [(at, n) for at, n in needs if now - at <= span and n >= need]
    same = [at for at, n in kept if n == need]
    if not same or now - max(same) >= refresh:
        kept = [*((at, n) for at, n in kept if n > need), (now, need)]
    kept.sort(key=lambda entry: (entry[0], -entry[1]))
    while len(kept) > MAX_NEEDS:  # forget the closest pair's lower need, and let its higher one live on for it
        closest = min(range(len(kept) - 1), key=lambda i: kept[i + 1][0] - kept[i][0])
        kept[closest : closest + 2] = [(kept[closest + 1][0], max(kept[closest][1], kept[closest + 1][1]))]
    return tuple(kept)


def _grow(current: int, needed: int, bounds: Bounds, now: float, memory: RoleMemory) -> Wish:
    if _waits(memory.grown_at, bounds.scale_up_cooldown_seconds, now):
        return Wish(current, needed, frozenset({Limit.UP_COOLDOWN}), memory)
    step = min(needed, current + bounds.max_step)
    return Wish(step, needed, frozenset({Limit.STEP}) if step < needed else frozenset(), memory)


def _shrink(
    current: int, needed: int, bounds: Bounds, now: float, memory: RoleMemory, *, partial: bool, loaded: bool
) -> Wish:
    if needed >= current:
        return Wish(current, current, frozenset(), memory)
    if partial:  # what does not report may be what is loaded: growing is safe, shrinking is not
        return Wish(current, needed, frozenset({Limit.MISSING}), memory)
    highest = max((n for _, n in memory.needs), default=current)
    if highest >= current:
        if now - max((at for at, n in memory.needs if n >= current), default=now) < 2 * _refresh(bounds):
            return Wish(current, current, frozenset(), memory)  # needed a moment ago: nothing to tell yet
        return Wish(current, needed, frozenset({Limit.STABILIZATION}), memory)
    if _waits(memory.changed_at, bounds.scale_down_cooldown_seconds, now):
        return Wish(current, needed, frozenset({Limit.DOWN_COOLDOWN}), memory)
    limits = frozenset({Limit.STABILIZATION}) if highest > needed else frozenset()
    # under traffic a smaller count is approached, because latencies do not grow in proportion
    most = max(current // LOADED_STEP, 1) if loaded else current
    step = max(highest, current - min(bounds.max_step, most))
    return Wish(step, needed, limits | ({Limit.STEP} if step > highest else set()), memory)


def _waits(since: float | None, cooldown: float, now: float) -> bool:
    return since is not None and now - since < cooldown
