"""Fake GPU nodes."""

from __future__ import annotations

from typing import Any, cast

from e2e.lab import fake_nodes
from e2e.lab.api import Api, Object


class RecordingApi:
    """Stands in for an API server that has the nodes `present`."""

    def __init__(self, present: list[str]) -> None:
        self.nodes: list[Object] = [{"metadata": {"name": name}} for name in present]
        self.created: list[str] = []
        self.deleted: list[str] = []

    def items(self, path: str) -> list[Object]:
        assert path == "/api/v1/nodes?labelSelector=type%3Dkwok"
        return self.nodes

    def create(self, path: str, body: dict[str, Any]) -> None:
        assert path == "/api/v1/nodes"
        self.created.append(body["metadata"]["name"])

    def delete(self, path: str) -> None:
        self.deleted.append(path.rpartition("/")[2])


def reconcile(api: RecordingApi, count: int) -> None:
    fake_nodes.reconcile(cast("Api", api), count, tainted=True)


def test_a_node_offers_what_a_gpu_server_offers() -> None:
    node = fake_nodes.node(0, tainted=False)
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    assert node["status"]["allocatable"]["rdma/hca"] == "8"
    assert node["metadata"]["annotations"] == {"kwok.x-k8s.io/node": "fake"}
    assert node["metadata"]["labels"]["nvidia.com/gpu.product"]


def test_beside_real_nodes_a_taint_keeps_real_pods_away() -> None:
    assert fake_nodes.node(0, tainted=True)["spec"]["taints"][0]["effect"] == "NoSchedule"
    assert "taints" not in fake_nodes.node(0, tainted=False)["spec"]


def test_racks_hold_eight_nodes_and_never_cross_a_zone() -> None:
    zones_of_rack: dict[str, set[str]] = {}
    for index in range(48):
        place = fake_nodes.topology(index)
        zones_of_rack.setdefault(place["topology.kubernetes.io/rack"], set()).add(place["topology.kubernetes.io/zone"])
    assert len(zones_of_rack) == 6
    assert all(len(zones) == 1 for zones in zones_of_rack.values())
    assert set.union(*zones_of_rack.values()) == {"zone-a", "zone-b", "zone-c"}


def test_missing_nodes_are_made_and_surplus_ones_deleted() -> None:
    api = RecordingApi(["gpu-0000", "gpu-0003"])
    reconcile(api, 2)
    assert (api.created, api.deleted) == (["gpu-0001"], ["gpu-0003"])


def test_the_right_number_changes_nothing() -> None:
    api = RecordingApi(["gpu-0000", "gpu-0001"])
    reconcile(api, 2)
    assert (api.created, api.deleted) == ([], [])
