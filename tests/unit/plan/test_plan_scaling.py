"""SLO mode inside a plan: status first, budget, recommendations, missing metrics."""

from __future__ import annotations

from typing import Any

from pd_operator.api import conditions, labels
from pd_operator.api.v1alpha1 import Condition, ConditionStatus, ScalingStatus
from pd_operator.plan.conditions import find
from pd_operator.scaling.window import MetricsFault, RoleWindow, Window
from tests.unit.plan.world import World, service

SLO = {"ttftMilliseconds": 1000, "itlMilliseconds": 50}
BUSY = Window(
    prefill=RoleWindow(reporting=1, running=1, waiting=0, kv_usage=0.1, busy=0.1),
    decode=RoleWindow(reporting=1, running=60, waiting=40, kv_usage=0.97, busy=1.0),
    arrival_rate=20.0,
    completion_rate=8.0,
    in_flight=100.0,
    prompt_tokens_per_second=800.0,
    generation_tokens_per_second=900.0,
    ttft_seconds=7.0,
    itl_seconds=0.07,
    ttft_samples=500.0,
    sample_age_seconds=3.0,
)


def _world(apply: str = "Auto", budget: int = 4) -> World:
    scaling: dict[str, Any] = {"mode": "SLO", "apply": apply, "budget": {"accelerators": budget}}
    world = World(service({"slo": SLO, "scaling": scaling}))
    for _ in range(5):
        world.step(1)
        world.controllers()
        world.become_ready()
    world.window = BUSY
    return world


def _condition(world: World, kind: str) -> Condition:
    found = find(world.service.status.conditions, kind)
    assert found is not None
    return found


def test_a_decision_is_written_before_it_is_acted_upon() -> None:
    world = _world()
    made = world.step(60)
    status = made.status.scaling
    assert made.status_first
    assert status is not None
    assert status.decode is not None
    assert status.decode > 1
    assert world.set_size(labels.DECODE) == status.decode
    assert (status.history[0].from_decode, status.history[0].to_decode) == (1, status.decode)
    assert [event.reason for event in made.events] == ["Scaled"]
    again = world.step()
    assert not again.status_first
    assert again.actions == ()
    assert again.requeue_after == 15.0


def test_never_above_the_budget() -> None:
    world = _world(budget=3)
    for _ in range(20):
        world.step(60)
        world.controllers()
        world.become_ready()
        assert world.service.status.accelerators.in_use <= 3
    assert _condition(world, conditions.SCALING_LIMITED).reason == conditions.BUDGET_LIMIT


def test_recommendations_change_nothing() -> None:
    world = _world("Recommend")
    made = world.step(60)
    assert not made.status_first
    assert made.actions == ()
    assert made.status.recommended is not None
    assert made.status.recommended.decode > 1
    assert _condition(world, conditions.SCALING_ACTIVE).reason == conditions.RECOMMEND_ONLY
    assert world.set_size(labels.DECODE) == 1


def test_a_recommendation_that_is_followed_later_says_so() -> None:
    world = _world("Recommend", budget=3)
    for _ in range(3):
        world.step(60)
    world.edit(scaling={"mode": "SLO", "apply": "Auto", "budget": {"accelerators": 3}})
    made = world.step(5)
    assert world.set_size(labels.DECODE) == 2
    assert made.status.scaling is not None
    assert made.status.scaling.history[0].reason.startswith("decode 1 → 2, as was recommended before; ")


def test_recommend_freezes_what_was_decided() -> None:
    world = _world()
    world.step(60)
    decided = world.set_size(labels.DECODE)
    world.edit(scaling={"mode": "SLO", "apply": "Recommend", "budget": {"accelerators": 4}})
    assert world.step(60).actions == ()
    assert world.set_size(labels.DECODE) == decided > 1


def test_missing_metrics_hold_and_are_told() -> None:
    world = _world()
    world.step(60)
    decided = world.set_size(labels.DECODE)
    world.window = Window(fault=MetricsFault.UNAVAILABLE, message="Prometheus did not answer within 5 s")
    world.step(600)
    assert world.set_size(labels.DECODE) == decided
    metrics = _condition(world, conditions.METRICS_AVAILABLE)
    assert (metrics.status, metrics.reason) == (ConditionStatus.FALSE, "Unavailable")
    assert metrics.message == "Prometheus did not answer within 5 s"
    assert world.service.status.slo is None


def test_the_decision_survives_a_restart_and_a_pause() -> None:
    world = _world()
    world.step(60)
    decided = world.service.status.scaling
    world.edit(suspend=True)
    world.step(1)
    assert world.service.status.scaling == decided
    world.edit(suspend=False)
    world.window = None
    world.step(1)
    status = world.service.status.scaling
    assert isinstance(status, ScalingStatus)
    assert decided is not None
    assert (status.prefill, status.decode) == (decided.prefill, decided.decode)


def test_latencies_are_published_in_two_digits() -> None:
    world = _world()
    world.step(60)
    slo = world.service.status.slo
    assert slo is not None
    assert (slo.ttft_milliseconds, slo.itl_milliseconds) == (7000, 70)
