"""The poller: latest windows, their age, and who is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest

from pd_operator.adapters.metrics import Poller
from pd_operator.adapters.prometheus import MetricsError, Sample
from pd_operator.adapters.queries import Metric
from pd_operator.adapters.windows import Target
from pd_operator.reconcile.ports import ServiceKey, Timer
from pd_operator.scaling.window import MetricsFault, Window

KEY = ("ns", "demo")
TARGET = Target(key=KEY, prefill=frozenset({"p"}), decode=frozenset({"d"}))


class StopError(Exception):
    """Ends an endless loop."""


@dataclass
class Clock:
    """Time that moves when told."""

    at: float = 1000.0
    slept: list[float] = field(default_factory=list)
    rounds: int = 3

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        raise AssertionError("nothing here sets timers")

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at += seconds
        await asyncio.sleep(0)
        if len(self.slept) >= self.rounds:
            raise StopError


@dataclass
class Source:
    """Answers the same, or fails."""

    error: MetricsError | None = None
    asked: list[Mapping[Metric, str]] = field(default_factory=list)

    async def ask(self, queries: Mapping[Metric, str]) -> Mapping[Metric, Sequence[Sample]]:
        self.asked.append(queries)
        if self.error:
            raise self.error
        labels = [{"namespace": "ns", "pod": pod} for pod in ("p", "d")]
        return {
            Metric.AGE: [Sample(of, 2.0) for of in labels],
            Metric.SAMPLES: [Sample(of, 9.0) for of in labels],
            Metric.RUNNING: [Sample(of, 5.0) for of in labels],
        }


@dataclass
class World:
    """A poller and what is around it."""

    clock: Clock = field(default_factory=Clock)
    source: Source = field(default_factory=Source)
    targets: list[Target] = field(default_factory=lambda: [TARGET])
    told: list[ServiceKey] = field(default_factory=list)
    results: list[str] = field(default_factory=list)

    def poller(self, jitter: float = 0.5) -> Poller:
        return Poller(
            self.source,
            lambda: self.targets,
            self.told.append,
            self.clock,
            every_seconds=15,
            window_seconds=60,
            result=self.results.append,
            jitter=lambda: jitter,
        )


async def test_windows_age_between_polls() -> None:
    world = World()
    poller = world.poller()
    assert poller.window(KEY) is None
    await poller.poll()
    world.clock.at += 7
    window = poller.window(KEY)
    assert window is not None
    assert (window.decode.running, window.sample_age_seconds) == (5, 9)
    assert world.told == [KEY]
    assert world.results == ["ok"]


async def test_a_failure_reaches_every_service() -> None:
    world = World(source=Source(MetricsError(MetricsFault.UNAVAILABLE, "it is away")))
    poller = world.poller()
    await poller.poll()
    assert poller.window(KEY) == Window(fault=MetricsFault.UNAVAILABLE, message="it is away")
    assert world.told == [KEY]
    assert world.results == ["Unavailable"]


async def test_a_service_that_left_slo_mode_is_forgotten_and_nothing_is_asked_for_none() -> None:
    world = World()
    poller = world.poller()
    await poller.poll()
    world.targets.clear()
    await poller.poll()
    assert poller.window(KEY) is None
    assert len(world.source.asked) == 1


@pytest.mark.parametrize(("jitter", "pause"), [(0.0, 13.5), (0.5, 15.0), (1.0, 16.5)])
async def test_polls_are_spread(jitter: float, pause: float) -> None:
    world = World()
    with pytest.raises(StopError):
        await world.poller(jitter).forever()
    assert world.clock.slept == [pytest.approx(pause)] * 3
    assert len(world.source.asked) == 3


async def test_a_bug_in_a_poll_does_not_end_the_poller() -> None:
    world = World(clock=Clock(rounds=2), targets=[replace(TARGET, percentile="p90")])  # type: ignore[arg-type]
    with pytest.raises(StopError):
        await world.poller().forever()
    assert world.results == ["ok", "bug", "ok", "bug"]
