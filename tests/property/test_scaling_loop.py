"""The policy in a loop with a small model of a service: does it arrive, and does it stay?

The model is a fluid one, in steps of a second, of what SGLang does with a request: it waits until a decode worker has
KV space (the bootstrap queue), then for prefill, then it runs, and it holds its space from admission to its end. Token
gaps grow with the requests per decode worker. It is no simulator: only enough to make each role's shortage show in
both roles' metrics, which is what misleads policies.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field

import pytest

from pd_operator.scaling.decide import decide
from pd_operator.scaling.profile import SLO, Bounds, Profile, RoleBounds
from pd_operator.scaling.state import ScalingState
from pd_operator.scaling.window import RoleWindow, Window

POLL_SECONDS = 15
START_SECONDS = 90
HOUR = 3600 // POLL_SECONDS
BUDGET = 40
PROMISE = SLO(ttft_seconds=2.0, itl_seconds=0.05)


@dataclass
class Physics:
    """One model on one kind of worker.

    Attributes:
        prefill_rate: Requests per second that one prefill worker computes.
        slots: Requests for which one decode worker has KV space.
        tokens: Length of an answer.
        gap_seconds, gap_per_request: Token gap of an empty decode worker, and how much each request adds.
    """

    prefill_rate: float
    slots: float
    tokens: float
    gap_seconds: float
    gap_per_request: float

    def gap(self, running_per_worker: float) -> float:
        return self.gap_seconds + self.gap_per_request * running_per_worker

    def decode_rate(self, running_per_worker: float) -> float:
        """Requests per second that one decode worker finishes."""
        return running_per_worker / (self.tokens * self.gap(running_per_worker))

    def needed(self, rate: float) -> tuple[float, float]:
        """Workers at their limit (space, and the promised gap) that serve a rate."""
        fast_enough = (PROMISE.itl_seconds - self.gap_seconds) / self.gap_per_request
        return rate / self.prefill_rate, rate / self.decode_rate(min(self.slots, fast_enough))


@dataclass
class Role:
    """Workers that take a while to start and none to stop."""

    ready: int = 1
    starting: list[int] = field(default_factory=list)

    def ask(self, count: int) -> None:
        self.starting += [START_SECONDS] * (count - self.ready - len(self.starting))
        while self.starting and self.ready + len(self.starting) > count:
            self.starting.pop()
        self.ready = min(self.ready, count)

    def second(self) -> None:
        self.starting = [left - 1 for left in self.starting]
        self.ready += sum(left <= 0 for left in self.starting)
        self.starting = [left for left in self.starting if left > 0]


@dataclass
class World:
    """A service under a load."""

    physics: Physics
    profile: Profile
    bounds: Bounds
    prefill: Role = field(default_factory=Role)
    decode: Role = field(default_factory=Role)
    waiting: float = 0.0
    queued: float = 0.0
    running: float = 0.0
    now: float = 1_750_000_000.0
    state: ScalingState = field(default_factory=ScalingState)
    pairs: list[tuple[int, int]] = field(default_factory=list)

    def run(self, rate: float, polls: int) -> None:
        for _ in range(polls):
            finished = computed = 0.0
            for _ in range(POLL_SECONDS):
                served, ended = self.second(rate)
                computed, finished = computed + served, finished + ended
            self.decide(self.window(rate, computed / POLL_SECONDS, finished / POLL_SECONDS))

    def second(self, rate: float) -> tuple[float, float]:
        self.prefill.second()
        self.decode.second()
        space = self.decode.ready * self.physics.slots
        admitted = min(self.waiting + rate, max(space - self.queued - self.running, 0.0))
        self.waiting += rate - admitted
        served = min(self.queued + admitted, self.prefill.ready * self.physics.prefill_rate)
        self.queued += admitted - served
        ended = min(self.running, self.decode.ready * self.physics.decode_rate(self.running / self.decode.ready))
        self.running += served - ended
        return served, ended

    def window(self, rate: float, computed: float, finished: float) -> Window:
        first = (self.waiting + self.queued) / max(finished, 0.01) + 1 / self.physics.prefill_rate
        space = self.decode.ready * self.physics.slots
        return Window(
            prefill=RoleWindow(
                ready=self.prefill.ready,
                starting=len(self.prefill.starting),
                reporting=self.prefill.ready,
                running=min(computed, 1.0),
                waiting=self.queued,
                finished=computed,
                busy=min(computed / (self.prefill.ready * self.physics.prefill_rate), 1.0),
            ),
            decode=RoleWindow(
                ready=self.decode.ready,
                starting=len(self.decode.starting),
                reporting=self.decode.ready,
                running=self.running,
                waiting=self.waiting,
                held=self.queued,
                kv_usage=min((self.queued + self.running) / space, 1.0),
            ),
            arrival_rate=rate,
            completion_rate=finished,
            ttft_seconds=first if rate else None,
            ttft_samples=rate * 60,
            itl_seconds=self.physics.gap(self.running / self.decode.ready) if self.running > 0.01 else None,
        )

    def decide(self, window: Window) -> None:
        self.now += POLL_SECONDS
        decision = decide(self.profile, PROMISE, self.bounds, window, self.now, self.state)
        self.state = decision.state
        self.prefill.ask(decision.prefill)
        self.decode.ask(decision.decode)
        self.pairs.append((decision.prefill, decision.decode))


def reversals(pairs: list[tuple[int, int]], role: int) -> int:
    moves = [b[role] - a[role] for a, b in itertools.pairwise(pairs) if a[role] != b[role]]
    return sum((a > 0) != (b > 0) for a, b in itertools.pairwise(moves))


def drawn(seed: int) -> tuple[Physics, float, bool]:
    """Some model on some kind of worker, the part of the budget that its load needs, and whether a profile is known."""
    dice = random.Random(seed)
    model = Physics(
        prefill_rate=dice.uniform(0.5, 8),
        slots=dice.uniform(8, 200),
        tokens=dice.uniform(20, 1500),
        gap_seconds=dice.uniform(0.006, 0.02),
        gap_per_request=dice.uniform(0.0001, 0.001),
    )
    return model, dice.uniform(0.05, 0.55), dice.random() < 0.5


@pytest.mark.parametrize("seed", range(12))
def test_a_steady_load_is_met_and_then_nothing_moves(seed: int) -> None:
    """From one worker of each role, with a budget of about twice to many times what the load needs."""
    model, part, known = drawn(seed)
    rate = part * BUDGET / sum(model.needed(1.0))
    profile = Profile(decode_concurrent_requests=model.slots) if known else Profile()
    world = World(model, profile, Bounds(RoleBounds(), RoleBounds(), budget=BUDGET))
    world.run(rate, 2 * HOUR)
    settled = len(world.pairs)
    world.run(rate, HOUR)
    assert world.waiting + world.queued < max(rate, 1.0) * 2 * PROMISE.ttft_seconds
    assert len(set(world.pairs[settled - 1 :])) == 1, "it still moves after two hours"
    for role in (0, 1):
        assert reversals(world.pairs, role) <= 4, "it may overshoot while a backlog is worked off, and learn from it"
    for got, exact in zip(world.pairs[-1], model.needed(rate), strict=True):
        assert exact <= got <= 2.5 * exact + 2
    world.run(0.0, HOUR)
    assert world.pairs[-1] == (1, 1)
