"""Generations beside each other: what serves keeps serving until the new one has taken over."""

from __future__ import annotations

from pd_operator.api import conditions, labels
from pd_operator.api.v1alpha1 import ConditionStatus
from pd_operator.plan.conditions import find
from pd_operator.plan.generations import generation_of
from pd_operator.plan.observed import Problem
from tests.unit.plan.world import World, service

FIXED = {"image": "lmsysorg/sglang:v0.5.23-fixed"}  # may be paired with what runs
NEWER = {"image": "lmsysorg/sglang:v0.5.24"}  # may not
ROLES = (labels.PREFILL, labels.DECODE)


def _world(prefill: int = 1, decode: int = 2) -> World:
    world = World(service({"prefill": {"replicas": prefill}, "decode": {"replicas": decode}}))
    world.settle()
    assert _ready(world)
    return world


def _ready(world: World) -> bool:
    found = find(world.service.status.conditions, conditions.READY)
    return found is not None and found.status == ConditionStatus.TRUE


def _current(world: World) -> str:
    return generation_of(world.service.spec).hash


def _stages(world: World) -> dict[str, str]:
    return {entry.hash: entry.state for entry in world.service.status.generations}


def _break(world: World) -> None:
    """The new generation's pods cannot pull their image."""
    for pod in world.pods.values():
        if pod.generation == _current(world):
            pod.problem = Problem(conditions.IMAGE_PULL_FAILED, f"pod {pod.name}", "manifest unknown")


def _finish(world: World) -> None:
    for _ in range(12):
        world.idle = dict.fromkeys(world.pods, True)
        world.step(9)
        world.controllers()
        world.become_ready()


def test_a_compatible_change_shares_the_router() -> None:
    world = _world()
    old = _current(world)
    world.edit(engine=FIXED)
    world.step()
    world.controllers()
    assert [len(world.pods_of(role)) for role in ROLES] == [2, 4]
    assert len([kind for kind, _ in world.children if kind == "Deployment"]) == 1
    assert _stages(world) == {_current(world): "Starting", old: "Serving"}
    world.become_ready()
    world.step()
    assert _stages(world)[old] == "Retiring"
    assert all(pod.traffic == labels.DRAINING for role in ROLES for pod in world.pods_of(role, old))
    _finish(world)
    assert _stages(world) == {_current(world): "Current"}
    assert [len(world.pods_of(role)) for role in ROLES] == [1, 2]
    assert world.lost == []
    assert _ready(world)


def test_an_incompatible_change_waits_for_its_own_router_and_withdraws_the_old_one_first() -> None:
    world = _world()
    old = _current(world)
    world.edit(engine=NEWER)
    world.step()
    world.controllers()
    for pod in world.pods_of(labels.PREFILL) + world.pods_of(labels.DECODE):
        pod.ready = pod.was_ready = True
    world.step()
    assert _stages(world)[old] == "Serving", "the new router is not ready yet"
    assert len([kind for kind, _ in world.children if kind == "Deployment"]) == 2
    world.become_ready()
    world.step()
    assert _stages(world)[old] == "Retiring"
    assert len([kind for kind, _ in world.children if kind == "Deployment"]) == 1
    assert all(pod.traffic == labels.SERVING for pod in world.pods_of(labels.DECODE, old)), "the old router still runs"
    world.controllers()
    world.step()
    assert all(pod.traffic == labels.DRAINING for pod in world.pods_of(labels.DECODE, old))
    _finish(world)
    assert world.lost == []
    assert [len(world.pods_of(role)) for role in ROLES] == [1, 2]


def test_a_broken_revision_takes_nothing_away_and_is_told() -> None:
    world = _world()
    old = _current(world)
    world.edit(engine=NEWER)
    world.step()
    world.controllers()
    _break(world)
    _finish(world)
    assert world.serving(labels.DECODE) == 2
    assert _ready(world)
    rollout = find(world.service.status.conditions, conditions.ROLLOUT_PROGRESSING)
    assert rollout is not None
    assert rollout.reason == conditions.IMAGE_PULL_FAILED
    assert rollout.message == (
        f"generation {old} keeps serving, because pod demo-prefill-{_current(world)}-0 cannot pull its image: "
        "manifest unknown"
    )
    reconciling = find(world.service.status.conditions, conditions.RECONCILING)
    assert reconciling is not None
    assert reconciling.status == ConditionStatus.TRUE


def test_a_second_edit_drops_what_never_worked_at_once() -> None:
    world = _world()
    old = _current(world)
    world.edit(engine=NEWER)
    world.step()
    world.controllers()
    _break(world)
    world.step()
    broken = _current(world)
    world.edit(engine=FIXED)
    world.step()
    world.controllers()
    assert world.pods_of(labels.DECODE, broken) == []
    assert _stages(world)[old] == "Serving"
    _finish(world)
    assert _stages(world) == {_current(world): "Current"}
    assert world.lost == []


def test_going_back_finds_the_old_workers() -> None:
    world = _world()
    old = _current(world)
    before = {pod.name for pod in world.pods_of(labels.DECODE)}
    world.edit(engine=NEWER)
    world.step()
    world.controllers()
    _break(world)
    world.step()
    world.edit(engine={})
    assert _current(world) == old
    _finish(world)
    assert {pod.name for pod in world.pods_of(labels.DECODE)} == before
    assert _stages(world) == {old: "Current"}
    assert world.lost == []


def test_going_back_during_the_drain_returns_victims() -> None:
    world = _world()
    old = _current(world)
    world.edit(engine=FIXED)
    world.step()
    world.controllers()
    world.become_ready()
    world.step()
    assert world.pods_of(labels.DECODE, old)[0].traffic == labels.DRAINING
    world.edit(engine={})
    world.step()
    assert all(pod.traffic == labels.SERVING for pod in world.pods_of(labels.DECODE, old))
    _finish(world)
    assert world.lost == []
    assert _stages(world) == {old: "Current"}


def test_a_service_that_is_short_of_capacity_is_not_dropped_by_an_edit() -> None:
    world = World(service({"decode": {"replicas": 3}}))
    world.step()
    world.controllers()
    world.pods_of(labels.DECODE)[2].problem = Problem(conditions.UNSCHEDULABLE, "pod x", "no node")
    world.become_ready()
    world.become_ready()
    world.step()
    old = _current(world)
    assert _stages(world) == {old: "Current"}
    world.edit(engine=NEWER)
    world.step()
    assert _stages(world)[old] == "Serving"
    assert world.serving(labels.DECODE) == 2


def test_lost_status_makes_no_difference() -> None:
    world = _world()
    world.edit(engine=FIXED)
    world.step()
    world.controllers()
    world.service = world.service.model_copy(update={"status": type(world.service.status)()})
    made = world.step()
    assert made.actions == ()
    assert sorted(_stages(world).values()) == ["Serving", "Starting"]


def test_suspend_drains_and_resume_brings_back() -> None:
    world = _world()
    world.edit(suspend=True)
    _finish(world)
    assert not any(world.pods_of(role) for role in (*ROLES, labels.ROUTER))
    assert world.lost == []
    ready = find(world.service.status.conditions, conditions.READY)
    assert ready is not None
    assert ready.reason == conditions.SUSPENDED
    world.edit(suspend=False)
    _finish(world)
    assert _ready(world)


def test_fixed_ratio_scales_by_units() -> None:
    scaling = {"mode": "FixedRatio", "fixedRatio": {"prefill": 1, "decode": 2}, "units": 1}
    world = World(service({"scaling": scaling}))
    world.settle()
    assert world.service.status.units == 1
    assert world.service.status.ratio == "1:2"
    world.edit(scaling={**scaling, "units": 3})
    _finish(world)
    assert [len(world.pods_of(role)) for role in ROLES] == [3, 6]
    assert world.service.status.units == 3
    world.edit(scaling={**scaling, "units": 1})
    _finish(world)
    assert [len(world.pods_of(role)) for role in ROLES] == [1, 2]
    assert world.lost == []
