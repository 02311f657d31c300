"""Command lines and configuration files of a lab's components."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from e2e.lab import components, configs, node_components, node_configs
from e2e.lab.components import Component
from e2e.lab.spec import LabSpec, Ports, Profile

PROGRAMS = {
    name: Path("/programs", name)
    for name in (
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kwok",
        "containerd",
        "kubelet",
        "kube-proxy",
        "coredns",
        "prometheus",
    )
}
PORTS = Ports(
    etcd=20001,
    etcd_peer=20002,
    apiserver=20003,
    controller_manager=20004,
    scheduler=20005,
    kwok=20006,
    prometheus=20007,
)
CONTROL_PLANE = LabSpec(Path("/clone/build/tests"), Profile.CONTROL_PLANE, 0, 3, PORTS)
FULL = LabSpec(Path("/clone/build/lab"), Profile.FULL, 2, 3, Ports(apiserver=20003, prometheus=20007))


def everything(spec: LabSpec) -> list[Component]:
    found = components.control_plane(spec, PROGRAMS)
    if spec.full:
        found += node_components.runtimes(spec, PROGRAMS)
        found += node_components.services(spec, PROGRAMS)
        found += node_components.agents(spec, PROGRAMS)
        found.append(node_components.gateway(spec, inside_pid=4711))
    return found


def named(spec: LabSpec, name: str) -> Component:
    return next(component for component in everything(spec) if component.name == name)


def test_the_control_plane_starts_storage_first_and_then_the_api_server() -> None:
    names = [component.name for component in components.control_plane(CONTROL_PLANE, PROGRAMS)]
    assert names == ["etcd", "apiserver", "controller-manager", "scheduler", "kwok"]


def test_the_control_plane_profile_opens_loopback_ports_only() -> None:
    listening = [
        word
        for component in everything(CONTROL_PLANE)
        for word in component.argv
        if word.startswith(("--bind-address=", "--listen-", "--server-address="))
    ]
    assert len(listening) == 6
    assert all("127.0.0.1" in word for word in listening)


def test_every_component_names_the_port_that_was_chosen_for_it() -> None:
    for component in everything(CONTROL_PLANE):
        text = " ".join(component.argv)
        assert component.ports, component.name
        assert all(str(port) in text for port in component.ports), component.name


@pytest.mark.parametrize("spec", [CONTROL_PLANE, FULL], ids=["control-plane", "full"])
def test_component_names_are_unique_and_each_is_waited_for(spec: LabSpec) -> None:
    found = everything(spec)
    names = [component.name for component in found]
    assert len(set(names)) == len(names)
    # containerd has no health page; it is asked by `ctr version`
    assert {component.name for component in found if component.probe is None} <= {"containerd.0", "containerd.1"}


@pytest.mark.parametrize("spec", [CONTROL_PLANE, FULL], ids=["control-plane", "full"])
def test_the_api_server_authorizes_nodes_apart_and_keeps_no_audit_log(spec: LabSpec) -> None:
    argv = named(spec, "apiserver").argv
    assert "--authorization-mode=Node,RBAC" in argv
    assert "--enable-admission-plugins=NodeRestriction" in argv
    assert not [word for word in argv if "audit" in word]


def test_the_api_server_verifies_kubelets_and_serves_the_host_and_the_nodes() -> None:
    argv = named(FULL, "apiserver").argv
    assert "--kubelet-certificate-authority=/clone/build/lab/pki/ca.crt" in argv
    assert "--bind-address=0.0.0.0" in argv
    assert "--advertise-address=10.90.0.1" in argv


def test_each_node_has_its_own_agents_in_its_own_namespaces() -> None:
    for node in (0, 1):
        for program in ("containerd", "kubelet", "kube-proxy"):
            assert named(FULL, f"{program}.{node}").node == node
    assert "--hostname-override=node-1" in named(FULL, "kubelet.1").argv


def test_the_gateway_runs_outside_and_only_forwards_what_the_host_may_reach() -> None:
    gateway = named(FULL, "gateway")
    assert gateway.node is None
    assert gateway.argv[-3:] == ("4711", "20003", "20007")


def test_kwok_manages_annotated_nodes_only() -> None:
    argv = named(FULL, "kwok").argv
    assert "--manage-all-nodes=false" in argv
    assert "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake" in argv


def test_kwok_has_enough_workers_for_a_bench_of_thousands_of_pods() -> None:
    assert configs.kwok()["options"]["podPlayStageParallelism"] == 64


def test_kubelets_authenticate_and_authorize_their_callers() -> None:
    for node in FULL.node_indexes:
        kubelet = node_configs.kubelet(FULL, node)
        assert kubelet["authentication"]["anonymous"] == {"enabled": False}
        assert kubelet["authorization"] == {"mode": "Webhook"}
        assert kubelet["readOnlyPort"] == 0


def test_nodes_have_disjoint_pod_addresses() -> None:
    subnets = {node_configs.cni(node)["plugins"][0]["ipam"]["ranges"][0][0]["subnet"] for node in range(3)}
    assert subnets == {"10.88.0.0/24", "10.88.1.0/24", "10.88.2.0/24"}


def test_configuration_files_are_well_formed_and_hold_no_token() -> None:
    files = configs.files(FULL) | node_configs.files(FULL, "local/pause:1", Path("/usr/lib/cni"))
    for path, content in files.items():
        if path.suffix == ".yaml":
            assert isinstance(yaml.safe_load(content), dict)
        elif path.suffix == ".conflist":
            assert json.loads(content)["cniVersion"]
        assert b"token" not in content, path


def test_containerd_uses_the_lab_image_for_pauses_and_leaves_scores_alone() -> None:
    text = node_configs.containerd(FULL, 1, "local/pause:1", Path("/opt/cni/bin"))
    assert 'sandbox_image = "local/pause:1"' in text
    assert "restrict_oom_score_adj = true" in text
    assert 'bin_dir = "/opt/cni/bin"' in text
    assert 'root = "/clone/build/lab/data/node-1/containerd"' in text


def test_prometheus_takes_port_and_path_from_annotations_and_skips_fake_nodes() -> None:
    files = node_configs.files(FULL, "local/pause:1", Path("/usr/lib/cni"))
    job = yaml.safe_load(files[FULL.config / "prometheus.yaml"])["scrape_configs"][0]
    rules = job["relabel_configs"]
    assert {"action": "drop", "regex": r"gpu-\d+", "source_labels": ["__meta_kubernetes_pod_node_name"]} in rules
    targets = {rule.get("target_label") for rule in rules}
    assert {"__address__", "__metrics_path__", "namespace", "pod", "node"} <= targets
