"""Built objects, as YAML in `golden/`. After a change on purpose: `UPDATE_GOLDEN=1 pytest tests/unit/plan`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from pd_operator.api import labels
from pd_operator.plan.generations import generation_of
from pd_operator.plan.objects import engine_command
from pd_operator.plan.objects.statefulset import worker_set
from pd_operator.plan.observed import Observed
from pd_operator.plan.plan import plan
from tests.unit.plan.world import START, service

GOLDEN = Path(__file__).parent / "golden"

SPECS: dict[str, dict[str, Any]] = {
    # A model name is enough.
    "minimal": {},
    # Two nodes for each prefill replica, RDMA that must work, weights on a claim.
    "multi-node-rdma": {
        "model": {
            "name": "deepseek",
            "servedName": "chat",
            "source": {"type": "PersistentVolumeClaim", "persistentVolumeClaim": {"claimName": "weights"}},
        },
        "engine": {"pageSize": 1, "kvCacheDtype": "fp8_e4m3", "args": ["--trust-remote-code"]},
        "transfer": {
            "rdma": {
                "requirement": "Required",
                "resourceName": "rdma/hca",
                "count": 8,
                "devices": "mlx5_0,mlx5_1",
                "gidIndex": 3,
                "trafficClass": 186,
            }
        },
        "prefill": {
            "replicas": 2,
            "parallelism": {"tensor": 16, "expert": 16, "nodes": 2},
            "accelerator": {"type": "NVIDIA-H200"},
            "sharedMemory": "64Gi",
        },
        "decode": {"parallelism": {"tensor": 8}, "drainTimeoutSeconds": 1800},
        "disruption": {"maxUnavailableReplicas": 2},
    },
    # Everything that a team may add to pods, on the CPU, with a router of its own making.
    "overlay-tcp": {
        "model": {
            "name": "org/gated",
            "source": {
                "huggingFace": {
                    "tokenSecretRef": {"name": "hub", "key": "token"},
                    "revision": "main",
                    "endpoint": "http://mirror.example",
                }
            },
        },
        "engine": {
            "image": "registry.example/sglang:v0.5.23-cpu",
            "env": [{"name": "OMP_NUM_THREADS", "value": "1"}, {"name": "HOME", "value": "/home/engine"}],
        },
        "transfer": {"backend": "MooncakeTCP", "bootstrapPort": 9000},
        "prefill": {
            "args": ["--chunked-prefill-size", "4096"],
            "env": [{"name": "OMP_NUM_THREADS", "value": "2"}],
            "resources": {"requests": {"cpu": "2", "memory": "4Gi"}, "limits": {"memory": "8Gi"}},
            "pod": {
                "labels": {"team": "search"},
                "annotations": {"k8s.v1.cni.cncf.io/networks": "rdma-net"},
                "nodeSelector": {"pool": "gpu"},
                "tolerations": [{"key": "gpu", "operator": "Exists"}],
                "affinity": {"nodeAffinity": {}},
                "priorityClassName": "high",
                "schedulerName": "gang",
                "runtimeClassName": "nvidia",
                "hostNetwork": True,
                "imagePullSecrets": ["registry"],
                "serviceAccountName": "workers",
                "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "fsGroup": 1000},
                "containerSecurityContext": {"readOnlyRootFilesystem": True},
                "volumes": [{"name": "scratch", "hostPath": {"path": "/fast"}}],
                "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
                "initContainers": [{"name": "wait", "image": "registry.example/wait:1"}],
            },
        },
        "router": {
            "replicas": 2,
            "policy": "RoundRobin",
            "args": ["--log-json"],
            "env": [{"name": "RUST_LOG", "value": "info"}],
            "resources": {"limits": {"cpu": "2"}},
            "service": {"type": "LoadBalancer", "port": 80, "annotations": {"lb.example/internal": "true"}},
        },
        "disruption": {"enabled": False},
    },
    # Routing is the user's.
    "no-router": {"router": {"type": "None"}},
}


@pytest.mark.parametrize("name", SPECS)
def test_objects_are_as_written_down(name: str) -> None:
    made = plan(Observed(service(SPECS[name]), now=START))
    text = yaml.safe_dump_all([dict(action.body) for action in made.actions], sort_keys=False, width=118)  # type: ignore[union-attr]
    path = GOLDEN / f"{name}.yaml"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text


def _arguments(spec: dict[str, Any], role: str = labels.PREFILL) -> list[str]:
    return engine_command.arguments(service(spec), role)


def _environment(spec: dict[str, Any]) -> dict[str, Any]:
    made = service(spec)
    body = worker_set(made, labels.PREFILL, generation_of(made.spec), 1)
    variables = body["spec"]["template"]["spec"]["containers"][0]["env"]
    return {variable["name"]: variable.get("value", variable.get("valueFrom")) for variable in variables}


def _value(arguments: list[str], flag: str) -> str | None:
    return arguments[arguments.index(flag) + 1] if flag in arguments else None


@pytest.mark.parametrize(
    ("version", "backend", "requirement", "flag", "variable"),
    [
        ("0.5.23", "MooncakeTCP", "Disabled", "mooncake_tcp", None),
        ("0.5.14", "MooncakeTCP", "Disabled", "mooncake", "MC_FORCE_TCP"),
        ("0.5.23", "Mooncake", "Disabled", "mooncake", "MC_FORCE_TCP"),
        ("0.5.23", "Mooncake", "Preferred", "mooncake", None),
        ("0.5.23", "Mooncake", "Required", "mooncake", "MC_FORCE_HCA"),
        ("0.5.23", "NIXL", "Preferred", "nixl", None),
    ],
)
def test_transfer(version: str, backend: str, requirement: str, flag: str, variable: str | None) -> None:
    rdma = {"requirement": requirement, "resourceName": "rdma/hca"}
    spec = {"engine": {"version": version}, "transfer": {"backend": backend, "rdma": rdma}}
    assert _value(_arguments(spec), "--disaggregation-transfer-backend") == flag
    forced = [name for name in _environment(spec) if name.startswith("MC_FORCE")]
    assert forced == ([variable] if variable else [])


def test_devices_are_not_passed_without_rdma() -> None:
    spec = {"transfer": {"rdma": {"requirement": "Disabled", "devices": "mlx5_0"}}}
    assert "--disaggregation-ib-device" not in _arguments(spec)


@pytest.mark.parametrize(
    ("source", "name", "path"),
    [
        ({"type": "HuggingFace"}, "org/model", "org/model"),
        ({"type": "HuggingFace"}, "/opt/model", "/opt/model"),
        ({"type": "HostPath", "hostPath": {"path": "/data"}}, "llama", "/models/llama"),
        ({"type": "HostPath", "hostPath": {"path": "/data"}}, "/models/llama", "/models/llama"),
    ],
)
def test_model_path(source: dict[str, Any], name: str, path: str) -> None:
    assert _value(_arguments({"model": {"name": name, "source": source}}), "--model-path") == path


def test_arguments_of_the_role_come_last() -> None:
    spec = {"engine": {"args": ["--log-level", "info"]}, "decode": {"args": ["--log-level", "debug"]}}
    assert _arguments(spec, labels.DECODE)[-4:] == ["--log-level", "info", "--log-level", "debug"]
    assert _arguments(spec, labels.PREFILL)[-2:] == ["--log-level", "info"]


@pytest.mark.parametrize(
    ("version", "nodes", "path"), [("0.5.23", 1, "/ready"), ("0.5.23", 2, "/health"), ("0.5.15", 1, "/health")]
)
def test_readiness_asks_what_the_engine_has(version: str, nodes: int, path: str) -> None:
    made = service({"engine": {"version": version}, "prefill": {"parallelism": {"tensor": nodes, "nodes": nodes}}})
    body = worker_set(made, labels.PREFILL, generation_of(made.spec), 1)
    probe = body["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]
    assert probe["httpGet"]["path"] == path
    assert path == "/ready" or probe["timeoutSeconds"] > 20


def test_only_leaders_are_in_front_of_users() -> None:
    for nodes, traffic, rank in ((1, labels.SERVING, "0"), (2, labels.HELD, None)):
        made = service({"decode": {"parallelism": {"tensor": nodes, "nodes": nodes}}})
        tags = worker_set(made, labels.DECODE, generation_of(made.spec), 2)["spec"]["template"]["metadata"]["labels"]
        assert (tags[labels.TRAFFIC], tags.get(labels.RANK)) == (traffic, rank)
