"""Services that the cluster cannot serve: one condition says why, in one sentence, and what serves goes on serving."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from e2e.operator_process import CRD, install_crd
from e2e.rest import Object, Rest
from pd_operator.api import conditions, labels
from tests.cluster.support import World, eventually

HAND_LABEL = "example.com/by-hand"


@pytest.fixture
def node_by_hand(rest: Rest) -> Iterator[str]:
    """A node that no kubelet and no kwok looks after: what its pods say is up to the test."""
    name = f"by-hand-{secrets.token_hex(3)}"
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "50", "nvidia.com/gpu": "8"}
    rest.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {HAND_LABEL: name}}})
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    ready = {"type": "Ready", "status": "True", "reason": "ByHand", "message": "", "lastHeartbeatTime": now}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [{**ready, "lastTransitionTime": now}]}
    rest.patch("Node", name, None, {"status": status}, subresource="status")
    # a new node is tainted until its first heartbeat has been seen
    eventually(f"{name} takes pods", lambda: _untainted(rest, name), within=60)
    yield name
    rest.delete("Node", name)


def _untainted(rest: Rest, name: str) -> None:
    assert rest.get("Node", name)["spec"].get("taints", []) == []


def _on(node: str) -> Object:
    return {"decode.pod": {"nodeSelector": {HAND_LABEL: node}}}


def _decode_pod(world: World) -> Object:
    """The one decode pod, once it has a node."""

    def placed() -> Object:
        pods = world.pods("demo", labels.DECODE)
        assert len(pods) == 1
        assert pods[0]["spec"].get("nodeName")
        return pods[0]

    return eventually("a decode pod has a node", placed, within=60)


def _say(world: World, pod: Object, *, phase: str, waiting: Object, restarts: int = 0) -> None:
    """Write a pod's status as a kubelet would."""
    container = pod["spec"]["containers"][0]
    state = {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": False,
        "started": False,
        "restartCount": restarts,
        "state": {"waiting": waiting},
    }
    conditions_now = [{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}]
    status = {"phase": phase, "containerStatuses": [state], "conditions": conditions_now}
    world.rest.patch("Pod", pod["metadata"]["name"], world.namespace, {"status": status}, subresource="status")


def test_no_node_has_the_accelerators(world: World) -> None:
    world.apply("demo", {"decode.accelerator": {"resourceName": "example.com/tpu"}})
    condition = world.wait_condition("demo", conditions.DECODE_AVAILABLE, "False", conditions.UNSCHEDULABLE)
    assert "demo-decode" in condition["message"]
    assert "example.com/tpu" in condition["message"]
    assert world.condition("demo", conditions.READY)["status"] == "False"
    assert world.condition("demo", conditions.PREFILL_AVAILABLE)["status"] == "True"
    assert world.get("demo")["status"]["decode"]["unschedulableReplicas"] == 1


def test_too_many_replicas_leave_those_that_fit_serving(world: World) -> None:
    # all of a device that no other pod asks for, on one node: one replica fits
    one_node = {"nodeSelector": {"kubernetes.io/hostname": "gpu-0000"}}
    world.apply("demo", {"decode.accelerator": {"resourceName": "rdma/hca", "count": 8}, "decode.pod": one_node})
    world.wait_ready("demo")
    world.edit("demo", {"decode": {"replicas": 3}})
    world.wait_condition("demo", conditions.DECODE_AVAILABLE, "False", conditions.UNSCHEDULABLE)
    ready = world.condition("demo", conditions.READY)
    assert (ready["status"], ready["message"]) == ("True", "serving with 1 prefill and 1 of 3 decode replicas")
    world.edit("demo", {"decode": {"replicas": 1}})
    world.wait_ready("demo")


def test_a_quota_refuses_pods(world: World) -> None:
    world.rest.create(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "few-pods", "namespace": world.namespace},
            "spec": {"hard": {"pods": "2"}},
        }
    )
    world.apply("demo", {"router.type": "None", "decode.replicas": 3})
    condition = world.wait_condition("demo", conditions.DECODE_AVAILABLE, "False", conditions.QUOTA_EXCEEDED)
    assert "few-pods" in condition["message"]


def test_an_image_that_cannot_be_pulled(world: World, node_by_hand: str) -> None:
    world.apply("demo", {**_on(node_by_hand), "engine.image": "registry.example.com/typo:1"})
    pod = _decode_pod(world)
    reason = {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "registry.example.com/typo:1"'}
    _say(world, pod, phase="Pending", waiting=reason)
    condition = world.wait_condition("demo", conditions.DECODE_AVAILABLE, "False", conditions.IMAGE_PULL_FAILED)
    assert pod["metadata"]["name"] in condition["message"]
    assert "registry.example.com/typo:1" in condition["message"]


def test_a_secret_that_is_missing(world: World, node_by_hand: str) -> None:
    world.apply("demo", _on(node_by_hand))
    reason = {"reason": "CreateContainerConfigError", "message": 'secret "hf-token" not found'}
    _say(world, _decode_pod(world), phase="Pending", waiting=reason)
    condition = world.wait_condition("demo", conditions.DECODE_AVAILABLE, "False", conditions.CONTAINER_CONFIG_FAILED)
    assert 'secret "hf-token" not found' in condition["message"]


def test_a_container_that_keeps_failing(world: World, node_by_hand: str) -> None:
    world.apply("demo", _on(node_by_hand))
    reason = {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting failed container"}
    _say(world, _decode_pod(world), phase="Running", waiting=reason, restarts=4)
    condition = world.wait_condition("demo", conditions.DECODE_AVAILABLE, "False", conditions.CRASH_LOOP)
    assert "demo-decode" in condition["message"]


def test_a_pod_setting_that_the_api_server_rejects(world: World) -> None:
    """Parts of the pod are passed on unchecked; the answer to the StatefulSet comes back as a condition."""
    world.apply("demo", {"decode.pod.volumes": [{"name": "Not Valid", "emptyDir": {}}]})
    condition = world.wait_condition("demo", conditions.STALLED, "True", conditions.REJECTED)
    assert "StatefulSet demo-decode" in condition["message"]
    assert "Not Valid" in condition["message"]
    assert world.condition("demo", conditions.READY)["status"] == "False"
    world.edit("demo", {"decode": {"pod": {"volumes": None}}})
    world.wait_ready("demo")


def test_a_bad_edit_leaves_the_old_generation_serving(world: World) -> None:
    world.apply("demo")
    world.wait_ready("demo")
    before = {pod["metadata"]["name"] for pod in world.pods("demo", labels.DECODE)}
    world.edit("demo", {"decode": {"pod": {"nodeSelector": {"example.com/does-not": "exist"}}}})
    condition = world.wait_condition("demo", conditions.ROLLOUT_PROGRESSING, "True", conditions.UNSCHEDULABLE)
    assert "keeps serving" in condition["message"]
    assert "demo-decode" in condition["message"]
    now = {pod["metadata"]["name"] for pod in world.pods("demo", labels.DECODE)}
    ready = world.condition("demo", conditions.READY)
    assert ready["status"] == "True", ready["message"]
    assert before <= now
    world.edit("demo", {"decode": {"pod": {"nodeSelector": None}}})
    world.wait_ready("demo")
    assert before <= {pod["metadata"]["name"] for pod in world.pods("demo", labels.DECODE)}


@pytest.fixture
def _without_rules(rest: Rest) -> Iterator[None]:
    """The CRD as it was before there were rules; the present one comes back afterwards."""
    definition = yaml.safe_load(CRD.read_text(encoding="utf-8"))
    rest.apply({**definition, "spec": _bare(definition["spec"])}, manager="pd-lab", force=True)
    yield
    install_crd(rest)


def _bare(node: Any) -> Any:
    """A schema without rules."""
    if isinstance(node, list):
        return [_bare(item) for item in node]
    if isinstance(node, dict):
        return {key: _bare(value) for key, value in node.items() if key != "x-kubernetes-validations"}
    return node


@pytest.mark.usefixtures("_without_rules")
def test_an_object_that_is_older_than_a_rule(world: World) -> None:
    """What admission could not refuse is told in a condition, and nothing is made of it."""
    eventually("a bad object gets in", lambda: world.apply("demo", {"decode.args": ["--tp=2"]}), within=30)
    condition = world.wait_condition("demo", conditions.STALLED, "True", conditions.INVALID_SPEC)
    assert "spec.decode.args is --tp=2" in condition["message"]
    assert world.condition("demo", conditions.READY)["status"] == "False"
    assert world.children("demo") == {}
    world.edit("demo", {"decode": {"args": None}})
    world.wait_ready("demo")


def test_trouble_is_announced_as_an_event(world: World) -> None:
    world.apply("demo", {"decode.accelerator": {"resourceName": "example.com/tpu"}})
    world.wait_condition("demo", conditions.DECODE_AVAILABLE, "False", conditions.UNSCHEDULABLE)

    def told() -> None:
        events = world.rest.list("Event", world.namespace)
        about = [e for e in events if e["involvedObject"].get("kind") == labels.KIND and e["type"] == "Warning"]
        assert "example.com/tpu" in " ".join(event["message"] for event in about)

    eventually("a warning about the service", told, within=60)
