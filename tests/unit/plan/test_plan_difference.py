"""A live object that has everything desired is left alone; anything else is applied."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from pd_operator.plan.difference import covers
from pd_operator.plan.observed import Observed
from pd_operator.plan.plan import plan
from tests.unit.plan.test_plan_objects import SPECS
from tests.unit.plan.world import START, World, service, with_defaults


@pytest.mark.parametrize(
    ("live", "desired"),
    [
        ({"a": 1, "b": 2}, {"a": 1}),
        ({}, {"a": None, "b": [], "c": {}, "d": "", "e": False, "f": 0}),
        ({"a": None}, {"a": ""}),
        # Lists of objects by their keys, whatever the order and whoever added more.
        ({"env": [{"name": "B"}, {"name": "A", "value": "1"}]}, {"env": [{"name": "A", "value": "1"}]}),
        ({"volumeMounts": [{"mountPath": "/a", "name": "x"}]}, {"volumeMounts": [{"mountPath": "/a"}]}),
        (
            {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP", "nodePort": 30001}]},
            {"ports": [{"port": 53, "protocol": "TCP"}]},
        ),
        ({"ports": [{"port": 80, "protocol": "TCP"}]}, {"ports": [{"port": 80}]}),
        # Amounts by value.
        ({"limits": {"cpu": "1"}}, {"limits": {"cpu": "1000m"}}),
        ({"sizeLimit": "16Gi"}, {"sizeLimit": "16384Mi"}),
        ({"targetPort": 80}, {"targetPort": "80"}),
        # Items of atomic lists get defaults too.
        ({"subjects": [{"kind": "ServiceAccount", "apiGroup": ""}]}, {"subjects": [{"kind": "ServiceAccount"}]}),
    ],
)
def test_covered(live: Any, desired: Any) -> None:
    assert covers(live, desired)


@pytest.mark.parametrize(
    ("live", "desired"),
    [
        ({"a": 1}, {"a": 2}),
        ({}, {"a": 1}),
        ({"a": {"b": 1}}, {"a": [1]}),
        ({"a": "text"}, {"a": {"b": 1}}),
        ({"env": [{"name": "A", "value": "1"}]}, {"env": [{"name": "A", "value": "01"}]}),
        ({"env": [{"name": "B"}]}, {"env": [{"name": "A"}]}),
        ({"args": ["a", "b"]}, {"args": ["b", "a"]}),
        ({"args": ["a", "b"]}, {"args": ["a"]}),
        ({"limits": {"cpu": "2"}}, {"limits": {"cpu": "1"}}),
        ({"value": "1"}, {"value": "1000m"}),
        ({"replicas": 5}, {"replicas": 0}),
        ({"ports": [{"port": 53, "protocol": "UDP"}]}, {"ports": [{"port": 53, "protocol": "TCP"}]}),
        ({"readOnly": True}, {"readOnly": False}),
    ],
)
def test_not_covered(live: Any, desired: Any) -> None:
    assert not covers(live, desired)


@pytest.mark.parametrize("name", SPECS)
def test_nothing_is_applied_to_what_came_back_with_defaults(name: str) -> None:
    made = plan(Observed(service(SPECS[name]), now=START))
    for action in made.actions:
        body = dict(action.body)  # type: ignore[union-attr]
        assert covers(with_defaults(copy.deepcopy(body)), body)


def _settled() -> World:
    world = World(service({"prefill": {"replicas": 2}}))
    world.settle()
    assert world.step().actions == ()
    return world


def _edit(world: World, kind: str, *path: str, value: Any) -> str:
    """Someone changes a field of the first child of a kind."""
    name = next(name for child, name in sorted(world.children) if child == kind)
    node: Any = world.children[kind, name]
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    return name


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("Deployment", ("spec", "replicas"), 5),
        ("StatefulSet", ("spec", "replicas"), 0),
        ("Service", ("spec", "selector"), {"app": "mine"}),
        ("PodDisruptionBudget", ("spec", "maxUnavailable"), 9),
        ("Role", ("rules",), []),
        ("ServiceAccount", ("metadata", "labels"), {}),
        ("Service", ("metadata", "ownerReferences"), []),
        ("StatefulSet", ("spec", "template", "spec", "terminationGracePeriodSeconds"), 1),
    ],
)
def test_drift_is_repaired(kind: str, path: tuple[str, ...], value: Any) -> None:
    world = _settled()
    before = {key: copy.deepcopy(body) for key, body in world.children.items()}
    name = _edit(world, kind, *path, value=value)
    made = world.step()
    assert [(a.body["kind"], a.body["metadata"]["name"]) for a in made.actions] == [(kind, name)]  # type: ignore[union-attr]
    assert world.children == before


def test_fields_of_others_stay() -> None:
    world = _settled()
    _edit(world, "Service", "metadata", "annotations", "other.example/note", value="mine")
    assert world.step().actions == ()


def test_a_field_that_is_no_longer_wanted_is_taken_back() -> None:
    world = World(service({"router": {"env": [{"name": "RUST_LOG", "value": "debug"}]}}))
    world.settle()
    world.edit(router={})
    applied = [action.body for action in world.step().actions]  # type: ignore[union-attr]
    assert [body["kind"] for body in applied] == ["Deployment"]
    assert "env" not in applied[0]["spec"]["template"]["spec"]["containers"][0]


def test_a_set_built_by_another_release_keeps_its_template() -> None:
    world = _settled()
    name = _edit(world, "StatefulSet", "metadata", "annotations", "pdinference.dev/fingerprint", value="0ther000")
    template = world.children["StatefulSet", name]["spec"]["template"]
    template["spec"]["containers"][0]["args"].append("--built-otherwise")
    assert world.step().actions == ()
    world.edit(prefill={"replicas": 3}, decode={"replicas": 2})
    made = world.step()
    bodies = {a.body["metadata"]["name"]: a.body for a in made.actions}  # type: ignore[union-attr]
    assert bodies[name]["spec"]["template"] == template
    assert bodies[name]["spec"]["replicas"] == 2
