"""The operator stops, dies, comes back; so does the API server. The services do not notice."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from e2e.lab import components
from e2e.lab.lab import Lab
from e2e.operator_process import OperatorProcess, RequestCount, install_identity
from e2e.rest import Rest
from pd_operator.api import labels
from tests.cluster.support import World, eventually, holds, quiet, service


def test_writes_nothing_while_nothing_happens_nor_when_it_starts_anew(world: World, operator: OperatorProcess) -> None:
    scaling = {"mode": "FixedRatio", "fixedRatio": {"prefill": 1, "decode": 3}}
    changes: dict[str, dict[str, Any]] = {"plain": {}, "ratio": {"scaling": scaling}, "wide": {"decode.replicas": 4}}
    for name, change in changes.items():
        world.apply(name, change)
    for name in changes:
        world.wait_ready(name)
    counted = quiet(world.rest)
    before = {name: world.versions(name) for name in changes}

    def untouched() -> None:
        assert {name: world.versions(name) for name in changes} == before

    holds("a running operator touches nothing", untouched, during=2)
    assert operator.stop(signal.SIGTERM) < 10
    assert operator.start() < 15
    holds("a new operator touches nothing", untouched, during=3)
    # the API server's own count: nothing was even tried
    assert (RequestCount.now(world.rest) - counted).writes == 0


def test_killed_in_the_middle_of_creating(world: World, operator: OperatorProcess) -> None:
    names = [f"demo-{index}" for index in range(10)]
    for name in names:
        world.apply(name)
    # as soon as it has begun: some children exist, most do not
    eventually("a first child", lambda: _some(world, "StatefulSet"), within=60)
    operator.kill()
    operator.start()
    for name in names:
        world.wait_ready(name, within=60)
        assert len(world.pods(name, labels.PREFILL)) == 1


def _some(world: World, kind: str) -> None:
    assert world.rest.list(kind, world.namespace)


def test_what_happened_while_it_was_away_is_made_up_for(world: World, operator: OperatorProcess) -> None:
    for name in ("edited", "deleted", "drifted"):
        world.apply(name)
        world.wait_ready(name)
    operator.stop()
    world.edit("edited", {"decode": {"replicas": 3}})
    world.rest.delete(labels.KIND, "deleted", world.namespace)
    world.rest.delete("Service", "drifted", world.namespace)
    world.apply("created")
    operator.start()
    for name in ("edited", "drifted", "created"):
        world.wait_ready(name, within=60)
    assert len(world.pods("edited", labels.DECODE)) == 3
    assert ("Service", "drifted") in world.children("drifted")
    eventually("nothing of the deleted one is left", lambda: _none(world, "deleted"), within=60)


def _none(world: World, name: str) -> None:
    assert world.children(name) == {}


def test_the_api_server_restarts(world: World, lab: Lab, operator: OperatorProcess) -> None:
    world.apply("before")
    world.wait_ready("before")
    pods = {pod["metadata"]["uid"] for pod in world.pods("before")}
    lab.stop(components.APISERVER, signal.SIGKILL)
    lab.start(components.APISERVER)
    eventually("a new service is accepted", lambda: world.apply("after"), within=60)
    world.wait_ready("after", within=60)
    world.edit("before", {"decode": {"replicas": 2}})
    eventually("decode has two pods", lambda: _count(world, "before", 2), within=60)
    assert pods <= {pod["metadata"]["uid"] for pod in world.pods("before")}
    assert operator.running


def _count(world: World, name: str, wanted: int) -> None:
    assert len(world.pods(name, labels.DECODE)) == wanted


@pytest.fixture
def confined(lab: Lab, rest: Rest, helm: Path, namespace: str, _operator: OperatorProcess) -> Iterator[OperatorProcess]:
    """An operator that may look into one namespace only, in place of the usual one."""
    _operator.stop()
    identity = install_identity(lab, rest, helm, account="pd-operator-confined", namespaces=[namespace])
    process = replace(
        _operator,
        kubeconfig=identity,
        settings={"PD_WATCH_NAMESPACES": namespace},
        log=_operator.log.with_name("confined.log"),
    )
    yield process
    process.stop()


def test_with_roles_in_one_namespace_only(rest: Rest, namespace: str, confined: OperatorProcess) -> None:
    assert confined.start() < 15
    world = World(rest, namespace)
    world.apply("demo")
    world.wait_ready("demo")
    rest.apply(service("elsewhere", "default"))

    def ignored() -> None:
        assert "status" not in rest.get(labels.KIND, "elsewhere", "default")

    holds("services elsewhere are left alone", ignored, during=1)
    rest.delete(labels.KIND, "elsewhere", "default")
