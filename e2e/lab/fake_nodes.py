"""Fake GPU nodes, kept alive by kwok: what they look like, and bringing their number to what was asked."""

from __future__ import annotations

from e2e.lab.api import Api, Object
from e2e.lab.components import FAKE_NODE_ANNOTATION

GPU = "nvidia.com/gpu"
RDMA = "rdma/hca"
GPUS_PER_NODE = 8
HCAS_PER_NODE = 8

RACK_LABEL = "topology.kubernetes.io/rack"
ZONE_LABEL = "topology.kubernetes.io/zone"
REGION_LABEL = "topology.kubernetes.io/region"
PRODUCT_LABEL = "nvidia.com/gpu.product"
TYPE_LABEL = "type"
FAKE_TYPE = "kwok"

NODES_PER_RACK = 8
ZONES = ("zone-a", "zone-b", "zone-c")
REGION = "lab"
GPU_PRODUCT = "NVIDIA-H100-80GB-HBM3"

TAINT: Object = {"key": FAKE_NODE_ANNOTATION, "value": "fake", "effect": "NoSchedule"}
"""Keeps pods that are meant to run away from nodes that only pretend. Pods for fake nodes tolerate it."""

CAPACITY = {
    "cpu": "128",
    "memory": "2Ti",
    "ephemeral-storage": "4Ti",
    "pods": "110",
    GPU: str(GPUS_PER_NODE),
    RDMA: str(HCAS_PER_NODE),
}


def name(index: int) -> str:
    return f"gpu-{index:04d}"


def topology(index: int) -> dict[str, str]:
    """Labels of place: racks of eight nodes, and racks spread over three zones in turn."""
    rack = index // NODES_PER_RACK
    return {
        REGION_LABEL: REGION,
        ZONE_LABEL: ZONES[rack % len(ZONES)],
        RACK_LABEL: f"rack-{rack:03d}",
    }


def node(index: int, *, tainted: bool) -> Object:
    """A fake node's Node object as kwok takes it over."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name(index),
            "annotations": {FAKE_NODE_ANNOTATION: "fake"},
            "labels": {
                "kubernetes.io/hostname": name(index),
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                TYPE_LABEL: FAKE_TYPE,
                PRODUCT_LABEL: GPU_PRODUCT,
                "nvidia.com/gpu.count": str(GPUS_PER_NODE),
                **topology(index),
            },
        },
        "spec": {"taints": [TAINT]} if tainted else {},
        "status": {"capacity": CAPACITY, "allocatable": CAPACITY},
    }


def reconcile(api: Api, count: int, *, tainted: bool) -> None:
    """Creates missing fake nodes and deletes surplus ones until there are `count`."""
    present = {item["metadata"]["name"] for item in fakes(api)}
    wanted = {name(index): index for index in range(count)}
    for surplus in sorted(present - wanted.keys()):
        api.delete(f"/api/v1/nodes/{surplus}")
    for missing in sorted(wanted.keys() - present):
        api.create("/api/v1/nodes", node(wanted[missing], tainted=tainted))


def ready(api: Api, count: int) -> bool:
    """Whether kwok has made all fake nodes Ready."""
    return sum(is_ready(item) for item in fakes(api)) == count


def fakes(api: Api) -> list[Object]:
    return api.items(f"/api/v1/nodes?labelSelector={TYPE_LABEL}%3D{FAKE_TYPE}")


def is_ready(item: Object) -> bool:
    conditions = item.get("status", {}).get("conditions") or []
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
