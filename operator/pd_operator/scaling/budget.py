"""The limits that always hold: minimum, maximum, budget and ratio, for both roles together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from pd_operator.api.v1alpha1.base import MAX_REPLICAS
from pd_operator.scaling.profile import Bounds, RoleBounds
from pd_operator.scaling.window import RoleWindow

#: Replicas of (prefill, decode).
Pair = tuple[int, int]


class Limit(StrEnum):
    """Why a role gets another count than it needs."""

    MINIMUM = "Minimum"
    MAXIMUM = "Maximum"
    BUDGET = "Budget"
    RATIO = "Ratio"
    STEP = "Step"
    UP_COOLDOWN = "ScaleUpCooldown"
    DOWN_COOLDOWN = "ScaleDownCooldown"
    STABILIZATION = "Stabilization"
    MISSING = "MissingMetrics"


@dataclass(frozen=True, slots=True)
class Fit:
    """Counts within all limits.

    Attributes:
        pair: The counts.
        limits: Per role, which limits kept it from what was wanted.
    """

    pair: Pair
    limits: tuple[frozenset[Limit], frozenset[Limit]]


@dataclass(frozen=True, slots=True)
class Room:
    """Limits of one decision.

    Growth has to fit beside what exists: a replica that is being drained, or that a rollout has added, holds its
    accelerators until it is gone. Counts up to `kept` are always allowed, because their pods exist or are owed.
    """

    bounds: Bounds
    kept: Pair
    present: Pair
    draining: Pair

    @staticmethod
    def of(bounds: Bounds, current: Pair, prefill: RoleWindow, decode: RoleWindow) -> Room:
        """Room beside the replicas of a window."""
        return Room(
            bounds=bounds,
            kept=(max(current[0], least(bounds.prefill)), max(current[1], least(bounds.decode))),
            present=(prefill.ready + prefill.starting, decode.ready + decode.starting),
            draining=(prefill.draining, decode.draining),
        )

    def settled_cost(self, pair: Pair) -> int:
        """Accelerators once everything else is gone."""
        return pair[0] * self.bounds.prefill.accelerators + pair[1] * self.bounds.decode.accelerators

    def peak_cost(self, pair: Pair) -> int:
        """Accelerators until then."""
        return self.settled_cost(
            (
                max(pair[0], self.present[0]) + self.draining[0],
                max(pair[1], self.present[1]) + self.draining[1],
            )
        )

    def affords(self, pair: Pair) -> bool:
        """Whether the budget allows these counts."""
        budget = self.bounds.budget
        if budget is None:
            return True
        grows = pair[0] > self.kept[0] or pair[1] > self.kept[1]
        return self.settled_cost(pair) <= budget and (not grows or self.peak_cost(pair) <= budget)

    def balanced(self, pair: Pair) -> bool:
        """Whether prefill:decode is within the ratio bounds."""
        prefill, decode = pair
        low, high = self.bounds.ratio_minimum, self.bounds.ratio_maximum
        return prefill * low[1] >= decode * low[0] and prefill * high[1] <= decode * high[0]


def least(role: RoleBounds) -> int:
    """Fewest replicas: never none, since one role alone cannot serve."""
    return max(role.minimum, 1)


def most(role: RoleBounds) -> int:
    """Most replicas."""
    return max(least(role), MAX_REPLICAS if role.maximum is None else min(role.maximum, MAX_REPLICAS))


def fit(want: Pair, room: Room) -> Fit:
    """The counts nearest to `want` within all limits.

    Where the budget does not reach, the worst-served role decides: the pair with the largest min(got ÷ wanted) keeps
    the wanted ratio as well as whole replicas can. The minimums come first, then the budget, then the ratio.
    """
    clamped = (
        min(max(want[0], least(room.bounds.prefill)), most(room.bounds.prefill)),
        min(max(want[1], least(room.bounds.decode)), most(room.bounds.decode)),
    )
    pair = clamped
    if not (room.affords(clamped) and room.balanced(clamped)):
        pair = (
            _best(clamped, room, ratio=True)
            or _best(clamped, room, ratio=False)
            or (least(room.bounds.prefill), least(room.bounds.decode))
        )
    return Fit(pair, (_limits(0, want, clamped, pair, room), _limits(1, want, clamped, pair, room)))


def _limits(role: int, want: Pair, clamped: Pair, pair: Pair, room: Room) -> frozenset[Limit]:
    limits = set[Limit]()
    if clamped[role] > want[role]:
        limits.add(Limit.MINIMUM)
    if clamped[role] < want[role]:
        limits.add(Limit.MAXIMUM)
    if pair[role] != clamped[role]:
        limits.add(Limit.RATIO if room.affords(clamped) else Limit.BUDGET)
    return frozenset(limits)


def _best(want: Pair, room: Room, *, ratio: bool) -> Pair | None:
    best: tuple[tuple[float, float, int, int], Pair] | None = None
    for pair in _candidates(want, room, ratio=ratio):
        served = (min(pair[0] / want[0], 1.0), min(pair[1] / want[1], 1.0))
        moved = abs(pair[0] - room.kept[0]) + abs(pair[1] - room.kept[1])
        score = (min(served), sum(served), -room.settled_cost(pair), -moved)
        if best is None or score > best[0]:
            best = score, pair
    return best[1] if best else None


def _candidates(want: Pair, room: Room, *, ratio: bool) -> Iterator[Pair]:
    """For each affordable prefill count, the decode count nearest to the wanted one."""
    bounds = room.bounds
    low, high = bounds.ratio_minimum, bounds.ratio_maximum
    top = min(most(bounds.prefill), max(want[0], -(-want[1] * low[0] // low[1]) if ratio else 0))
    for prefill in range(least(bounds.prefill), top + 1):
        first, last = least(bounds.decode), most(bounds.decode)
        if ratio:
            first = max(first, -(-prefill * high[1] // high[0]))
            last = min(last, prefill * low[1] // low[0])
        last = min(last, _affordable_decode(prefill, room))
        if first <= last:
            yield prefill, min(max(want[1], first), last)


def _affordable_decode(prefill: int, room: Room) -> int:
    """Most decode replicas beside `prefill`; -1 if there are none."""
    bounds = room.bounds
    if bounds.budget is None:
        return MAX_REPLICAS
    each = max(bounds.decode.accelerators, 1)
    settled = (bounds.budget - prefill * bounds.prefill.accelerators) // each
    others = (max(prefill, room.present[0]) + room.draining[0]) * bounds.prefill.accelerators
    peak = (bounds.budget - others) // each - room.draining[1]
    if peak < room.present[1]:
        peak = -1  # what exists is too much already: no growth at all
    if prefill <= room.kept[0]:
        peak = max(peak, room.kept[1])
    return max(min(settled, peak), -1)
