"""What people read: conditions, counts and events."""

from __future__ import annotations

from typing import Any

import pytest

from pd_operator.api import conditions, labels
from pd_operator.api.v1alpha1 import Condition, ConditionStatus
from pd_operator.plan.actions import Announce
from pd_operator.plan.conditions import find
from pd_operator.plan.observed import Failure, Problem
from pd_operator.plan.plan import plan
from tests.cases import GOOD, RULES, Bad, Body, slug
from tests.unit.plan.world import UID, World, service


def _condition(world: World, kind: str) -> Condition:
    found = find(world.service.status.conditions, kind)
    assert found is not None
    return found


def _world(spec: dict[str, Any] | None = None) -> World:
    world = World(service(spec or {"decode": {"replicas": 2}}))
    world.settle()
    return world


def test_a_healthy_service() -> None:
    world = _world()
    status = world.service.status
    told = {c.type: (c.status.value, c.reason, c.message) for c in status.conditions}
    generation = status.generations[0].hash
    assert told == {
        "Ready": ("True", "AsDesired", "serving with 1 prefill and 2 decode replicas"),
        "Reconciling": ("False", "AsDesired", "everything is as desired"),
        "Stalled": ("False", "AsDesired", "nothing has to be done by hand"),
        "PrefillAvailable": ("True", "AsDesired", "all prefill replicas are ready"),
        "DecodeAvailable": ("True", "AsDesired", "all decode replicas are ready"),
        "RouterAvailable": ("True", "AsDesired", "the router is ready"),
        "RolloutProgressing": ("False", "AsDesired", f"all workers are of generation {generation}"),
        "ScalingActive": ("False", "Manual", "scaling.mode is Manual: counts are as declared"),
    }
    assert status.decode.summary == "2/2"
    assert status.ratio == "1:2"
    assert status.accelerators.in_use == status.accelerators.desired == 3
    assert status.endpoint == "http://demo.team.svc:8000"
    assert status.selector == "pdinference.dev/service=demo,pdinference.dev/role in (prefill,decode)"


def test_nothing_changes_when_nothing_changed() -> None:
    world = _world()
    before = world.service.status
    made = world.step(3600)
    assert made.status == before
    assert made.actions == ()
    assert made.events == ()
    assert made.requeue_after is None


def test_transition_times() -> None:
    world = _world()
    since = _condition(world, conditions.READY).last_transition_time
    pod = world.pods_of(labels.DECODE)[1]
    pod.ready = False
    world.step(60)
    assert _condition(world, conditions.READY).last_transition_time == since
    assert _condition(world, conditions.DECODE_AVAILABLE).last_transition_time > since


@pytest.mark.parametrize(
    ("reason", "message", "expected"),
    [
        (
            conditions.UNSCHEDULABLE,
            "0/3 nodes are available: insufficient nvidia.com/gpu",
            "cannot be scheduled: 0/3 nodes are available: insufficient nvidia.com/gpu",
        ),
        (conditions.IMAGE_PULL_FAILED, "manifest unknown", "cannot pull its image: manifest unknown"),
        (conditions.CRASH_LOOP, "Error, exit code 1", "keeps failing: Error, exit code 1"),
        (
            conditions.CONTAINER_CONFIG_FAILED,
            'secret "hub" not found',
            'cannot start its container: secret "hub" not found',
        ),
    ],
)
def test_one_sentence_about_the_pod(reason: str, message: str, expected: str) -> None:
    world = World(service())
    world.step()
    world.controllers()
    pod = world.pods_of(labels.DECODE)[0]
    pod.problem, pod.scheduled = Problem(reason, f"pod {pod.name}", message), reason != conditions.UNSCHEDULABLE
    world.become_ready()
    made = world.step()
    for kind in (conditions.READY, conditions.DECODE_AVAILABLE, conditions.RECONCILING):
        assert _condition(world, kind).reason == reason
        assert _condition(world, kind).message == f"pod {pod.name} {expected}"
    assert _condition(world, conditions.PREFILL_AVAILABLE).status == ConditionStatus.TRUE
    assert made.events == (Announce(True, reason, f"pod {pod.name} {expected}"),)
    assert world.step().events == ()
    assert world.service.status.decode.unschedulable_replicas == (reason == conditions.UNSCHEDULABLE)


def test_capacity_that_is_missing_does_not_hide_that_requests_are_served() -> None:
    world = _world({"decode": {"replicas": 3}})
    pod = world.pods_of(labels.DECODE)[2]
    pod.ready, pod.problem = False, Problem(conditions.CRASH_LOOP, f"pod {pod.name}", "OOMKilled, exit code 137")
    world.step()
    assert _condition(world, conditions.READY).message == "serving with 1 prefill and 2 of 3 decode replicas"
    assert _condition(world, conditions.DECODE_AVAILABLE).status == ConditionStatus.FALSE
    assert _condition(world, conditions.RECONCILING).reason == conditions.CRASH_LOOP


@pytest.mark.parametrize(
    ("failure", "reason", "message"),
    [
        (
            Failure("StatefulSet demo-decode-x", "spec.template.spec.affinity: Invalid value"),
            conditions.REJECTED,
            "StatefulSet demo-decode-x was rejected: spec.template.spec.affinity: Invalid value",
        ),
        (
            Failure("Role demo-router", "roles is forbidden", forbidden=True),
            conditions.FORBIDDEN,
            "the operator lacks a permission for Role demo-router: roles is forbidden",
        ),
    ],
)
def test_refused_writes_stall(failure: Failure, reason: str, message: str) -> None:
    world = World(service(), failures=(failure,))
    world.step()
    assert _condition(world, conditions.STALLED).status == ConditionStatus.TRUE
    assert _condition(world, conditions.STALLED).message == message
    assert _condition(world, conditions.READY).reason == reason
    assert _condition(world, conditions.RECONCILING).status == ConditionStatus.FALSE


def test_a_role_of_none_serves_nothing() -> None:
    world = _world({"decode": {"replicas": 0}})
    assert _condition(world, conditions.READY).reason == conditions.NO_TRAFFIC_PAIR
    assert "decode" in _condition(world, conditions.READY).message
    assert _condition(world, conditions.RECONCILING).status == ConditionStatus.FALSE


def test_without_a_router() -> None:
    world = _world({"router": {"type": "None"}})
    assert _condition(world, conditions.READY).status == ConditionStatus.TRUE
    assert _condition(world, conditions.ROUTER_AVAILABLE).reason == conditions.NO_ROUTER
    assert world.service.status.endpoint == ""
    assert not any(kind in ("Deployment", "Role", "ServiceAccount") for kind, _ in world.children)


def test_ready_is_announced_once_each_way() -> None:
    world = World(service())
    news: list[Announce] = []
    for _ in range(6):
        news += world.step(1).events
        world.controllers()
        world.become_ready()
    assert news == [Announce(False, "Ready", "serving with 1 prefill and 1 decode replicas")]
    world.pods_of(labels.PREFILL)[0].ready = False
    assert world.step().events == (Announce(True, conditions.STARTING, "waiting for prefill pods to become ready"),)
    assert world.step().events == ()


def test_an_object_that_is_being_deleted_is_left_to_garbage_collection() -> None:
    made = plan(World(service(deletionTimestamp="2026-01-01T00:00:00Z")).observed())
    assert made.actions == ()
    assert made.events == ()


def test_a_broken_rule_leaves_everything_alone() -> None:
    world = _world()
    world.edit(scaling={"mode": "FixedRatio"})
    made = world.step()
    assert made.actions == ()
    assert _condition(world, conditions.STALLED).reason == conditions.INVALID_SPEC
    assert "spec.scaling.fixedRatio" in _condition(world, conditions.STALLED).message
    assert _condition(world, conditions.READY).status == ConditionStatus.TRUE, "what serves still serves"
    assert world.service.status.observed_generation == world.service.metadata.generation
    assert world.service.status.decode.summary == "2/2"
    assert made.events == (Announce(True, conditions.INVALID_SPEC, _condition(world, conditions.STALLED).message),)


def _from(body: Body) -> World:
    metadata = {**body["metadata"], "namespace": "team", "uid": UID}
    return World(service(body["spec"], **metadata))


@pytest.mark.parametrize("body", [pytest.param(case.body, id=slug(case.title)) for case in GOOD])
def test_every_good_object_can_be_planned(body: Body) -> None:
    world = _from(body)
    assert world.step().actions
    assert world.step().actions == ()
    assert _condition(world, conditions.STALLED).status == ConditionStatus.FALSE


@pytest.mark.parametrize("case", [pytest.param(case, id=slug(case.title)) for case in RULES])
def test_every_bad_object_is_told_and_left_alone(case: Bad) -> None:
    world = _from(case.body)
    assert world.step().actions == ()
    assert _condition(world, conditions.STALLED).reason == conditions.INVALID_SPEC
    assert case.field in _condition(world, conditions.STALLED).message
