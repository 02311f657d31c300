"""Pods as the kubelet and the scheduler describe them, and what is made of them."""

from __future__ import annotations

from typing import Any

import pytest

from pd_operator.api import conditions, labels
from pd_operator.reconcile.kinds import POD
from pd_operator.reconcile.pods import pod_facts
from pd_operator.reconcile.trim import trim

GPUS = frozenset({"nvidia.com/gpu"})
NAME = "demo-decode-1a2b3c4d-2"
IMAGE = "registry.example/sglang:v0.5.23"


def pod(
    *,
    ready: str = "False",
    ready_since: str = "2026-11-30T10:00:00Z",
    node: str | None = "node-1",
    containers: list[dict[str, Any]] | None = None,
    init: list[dict[str, Any]] | None = None,
    scheduled: dict[str, Any] | None = None,
    **metadata: Any,
) -> dict[str, Any]:
    """A pod of a StatefulSet as the API server returns it, with what a real one carries besides."""
    status: dict[str, Any] = {
        "phase": "Running" if node else "Pending",
        "qosClass": "Burstable",
        "hostIP": "10.0.0.1",
        "podIP": "10.1.2.3" if node else None,
        "conditions": [
            {"type": "PodReadyToStartContainers", "status": "True", "lastTransitionTime": "2026-11-30T10:00:01Z"},
            {"type": "Initialized", "status": "True", "lastTransitionTime": "2026-11-30T10:00:00Z"},
            {"type": "Ready", "status": ready, "lastTransitionTime": ready_since, "lastProbeTime": None},
            {"type": "ContainersReady", "status": ready, "lastTransitionTime": ready_since},
            scheduled or {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-30T10:00:00Z"},
        ],
    }
    if containers is not None:
        status["containerStatuses"] = containers
    if init is not None:
        status["initContainerStatuses"] = init
    raw = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": NAME,
            "namespace": "default",
            "uid": "u",
            "resourceVersion": "7",
            "labels": {
                labels.SERVICE: "demo",
                labels.ROLE: "decode",
                labels.GENERATION: "1a2b3c4d",
                labels.COMPAT: "99887766",
                labels.TRAFFIC: labels.SERVING,
                labels.RANK: "0",
                labels.POD_INDEX: "2",
            },
            **metadata,
        },
        "spec": {
            "nodeName": node,
            "containers": [
                {
                    "name": "engine",
                    "image": IMAGE,
                    "resources": {
                        "limits": {"nvidia.com/gpu": "4", "rdma/hca": "1", "memory": "1Ti"},
                        "requests": {"nvidia.com/gpu": "4", "cpu": "8"},
                    },
                },
                {"name": "helper", "resources": {}},
            ],
        },
        "status": status,
    }
    return trim(POD, raw)


def container(state: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "engine", "image": IMAGE, "imageID": "", "ready": False, "restartCount": 0, "state": state, **more}


RUNNING = {"running": {"startedAt": "2026-11-30T10:05:00Z"}}


def test_a_serving_pod() -> None:
    facts = pod_facts(pod(ready="True", containers=[container(RUNNING)]), GPUS)
    assert facts.ready
    assert facts.was_ready
    assert facts.problem is None
    assert (facts.role, facts.generation, facts.compat, facts.ordinal) == ("decode", "1a2b3c4d", "99887766", 2)
    assert (facts.traffic, facts.rank, facts.ip, facts.node) == ("serving", "0", "10.1.2.3", "node-1")
    assert facts.accelerators == 4


def test_a_terminating_pod_is_not_ready_but_may_hold_requests() -> None:
    body = pod(ready="True", containers=[container(RUNNING)], deletionTimestamp="2026-11-30T11:00:00Z")
    facts = pod_facts(body, GPUS)
    assert facts.terminating
    assert not facts.ready
    assert facts.was_ready


@pytest.mark.parametrize(
    ("since", "was_ready"),
    [
        pytest.param("2026-11-30T10:00:00Z", False, id="never ready: unready since before its containers started"),
        pytest.param("2026-11-30T10:05:00Z", False, id="same second"),
        pytest.param("2026-11-30T10:30:00Z", True, id="ready once and lost it"),
    ],
)
def test_whether_an_unready_pod_was_ready(since: str, was_ready: bool) -> None:
    facts = pod_facts(pod(ready_since=since, containers=[container(RUNNING)]), GPUS)
    assert facts.was_ready is was_ready


def test_a_restarted_container_holds_no_requests() -> None:
    restarted = container({"running": {"startedAt": "2026-11-30T10:40:00Z"}})
    assert not pod_facts(pod(ready_since="2026-11-30T10:30:00Z", containers=[restarted]), GPUS).was_ready


def test_the_beginning_of_a_drain_is_read_from_its_annotation() -> None:
    facts = pod_facts(pod(annotations={labels.DRAIN_STARTED: "2026-11-30T10:00:10Z"}), GPUS)
    assert facts.drain_started == 1796032810.0
    assert pod_facts(pod(annotations={labels.DRAIN_STARTED: "soon"}), GPUS).drain_started is None


def test_a_pod_without_its_index_label_has_the_ordinal_of_its_name() -> None:
    body = pod()
    del body["metadata"]["labels"][labels.POD_INDEX]
    assert pod_facts(body, GPUS).ordinal == 2


UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/25 nodes are available: 25 Insufficient nvidia.com/gpu. preemption: not helpful.",
}

PROBLEMS = [
    pytest.param(
        pod(node=None, scheduled=UNSCHEDULABLE),
        conditions.UNSCHEDULABLE,
        "0/25 nodes are available: 25 Insufficient nvidia.com/gpu. preemption: not helpful.",
        id="no node",
    ),
    pytest.param(
        pod(
            containers=[
                container(
                    {
                        "waiting": {
                            "reason": "ImagePullBackOff",
                            "message": f'Back-off pulling image "{IMAGE}": ErrImagePull: not found',
                        }
                    }
                )
            ]
        ),
        conditions.IMAGE_PULL_FAILED,
        f'Back-off pulling image "{IMAGE}": ErrImagePull: not found',
        id="image that does not exist",
    ),
    pytest.param(
        pod(containers=[container({"waiting": {"reason": "ErrImageNeverPull"}})]),
        conditions.IMAGE_PULL_FAILED,
        f"image {IMAGE}: ErrImageNeverPull",
        id="image that must not be pulled",
    ),
    pytest.param(
        pod(
            containers=[
                container(
                    {
                        "waiting": {
                            "reason": "CreateContainerConfigError",
                            "message": 'secret "hf-token" not found',
                        }
                    }
                )
            ]
        ),
        conditions.CONTAINER_CONFIG_FAILED,
        'secret "hf-token" not found',
        id="missing Secret",
    ),
    pytest.param(
        pod(
            containers=[
                container(
                    {
                        "waiting": {
                            "reason": "CrashLoopBackOff",
                            "message": "back-off 5m0s restarting failed container=engine",
                        }
                    },
                    lastState={
                        "terminated": {"reason": "OOMKilled", "exitCode": 137, "startedAt": "x", "finishedAt": "y"}
                    },
                    restartCount=7,
                )
            ]
        ),
        conditions.CRASH_LOOP,
        "container engine keeps ending (OOMKilled, exit code 137)",
        id="out of memory again and again",
    ),
    pytest.param(
        pod(
            containers=[
                container(
                    {"waiting": {"reason": "CrashLoopBackOff"}},
                    lastState={
                        "terminated": {
                            "reason": "Error",
                            "exitCode": 1,
                            "message": "Traceback:\n  no RDMA device\n" + "x" * 900,
                        }
                    },
                )
            ]
        ),
        conditions.CRASH_LOOP,
        "container engine keeps ending (Error, exit code 1): Traceback: no RDMA device xxx",
        id="with a long message of its own",
    ),
    pytest.param(
        pod(
            init=[{"name": "fetch", "image": IMAGE, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}],
            containers=[container({"waiting": {"reason": "PodInitializing"}})],
        ),
        conditions.CRASH_LOOP,
        "container fetch keeps ending (Error)",
        id="an init container",
    ),
]


@pytest.mark.parametrize(("body", "reason", "message"), PROBLEMS)
def test_problems(body: dict[str, Any], reason: str, message: str) -> None:
    problem = pod_facts(body, GPUS).problem
    assert problem is not None
    assert problem.reason == reason
    assert problem.subject == f"pod {NAME}"
    assert problem.message.startswith(message)
    assert "\n" not in problem.message
    assert len(problem.message) <= 500


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(pod(containers=[container({"waiting": {"reason": "ContainerCreating"}})]), id="being created"),
        pytest.param(pod(containers=[container(RUNNING)]), id="loading its model"),
        pytest.param(
            pod(node=None, scheduled={"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}),
            id="held by a scheduling gate",
        ),
        pytest.param(
            pod(node=None, scheduled=UNSCHEDULABLE, deletionTimestamp="2026-11-30T11:00:00Z"), id="on its way out"
        ),
    ],
)
def test_no_problem(body: dict[str, Any]) -> None:
    assert pod_facts(body, GPUS).problem is None
