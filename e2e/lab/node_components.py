"""Components of the `full` profile beyond the control plane: those of each real node, DNS, Prometheus, the gateway."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from e2e.lab.components import Component
from e2e.lab.connection import Probe
from e2e.lab.spec import CONTROL_PLANE_IP, LabSpec, node_ip, node_name

CONTAINERD = "containerd"
KUBELET = "kubelet"
KUBE_PROXY = "kube-proxy"
COREDNS = "coredns"
PROMETHEUS = "prometheus"
GATEWAY = "gateway"

KUBELET_PORT = 10250
KUBELET_HEALTH_PORT = 10248
KUBE_PROXY_HEALTH_PORT = 10256
KUBE_PROXY_METRICS_PORT = 10249
DNS_PORT = 53
COREDNS_HEALTH_PORT = 8180
COREDNS_READY_PORT = 8181

REPOSITORY = Path(__file__).resolve().parents[2]


def of_node(component: str, node: int) -> str:
    """Name of a component that every real node has."""
    return f"{component}.{node}"


def containerd(spec: LabSpec, node: int, binary: Path) -> Component:
    argv = (str(binary), f"--config={spec.config / f'containerd-{node}.toml'}")
    return Component(of_node(CONTAINERD, node), argv, node=node)


def kubelet(spec: LabSpec, node: int, binary: Path) -> Component:
    argv = (
        str(binary),
        f"--kubeconfig={spec.component_kubeconfig(f'system:node:{node_name(node)}')}",
        f"--config={spec.config / f'kubelet-{node}.yaml'}",
        f"--hostname-override={node_name(node)}",
        f"--node-ip={node_ip(node)}",
    )
    probe = Probe("127.0.0.1", KUBELET_HEALTH_PORT, "/healthz")
    return Component(of_node(KUBELET, node), argv, node=node, probe=probe, ports=(KUBELET_PORT,))


def kube_proxy(spec: LabSpec, node: int, binary: Path) -> Component:
    argv = (str(binary), f"--config={spec.config / f'kube-proxy-{node}.yaml'}")
    probe = Probe("127.0.0.1", KUBE_PROXY_HEALTH_PORT, "/healthz")
    return Component(of_node(KUBE_PROXY, node), argv, node=node, probe=probe)


def coredns(spec: LabSpec, binary: Path) -> Component:
    argv = (str(binary), "-conf", str(spec.config / "Corefile"))
    return Component(COREDNS, argv, probe=Probe("127.0.0.1", COREDNS_READY_PORT, "/ready"), ports=(DNS_PORT,))


def prometheus(spec: LabSpec, binary: Path) -> Component:
    argv = (
        str(binary),
        f"--config.file={spec.config / 'prometheus.yaml'}",
        f"--storage.tsdb.path={spec.data / 'prometheus'}",
        "--storage.tsdb.retention.time=1d",
        f"--web.listen-address=0.0.0.0:{spec.ports.prometheus}",
        "--log.level=warn",
    )
    port = spec.ports.prometheus
    return Component(PROMETHEUS, argv, probe=Probe(CONTROL_PLANE_IP, port, "/-/ready"), ports=(port,))


def gateway(spec: LabSpec, inside_pid: int) -> Component:
    """Runs on the host and carries connections to the API server and Prometheus into the namespaces of `inside_pid`."""
    ports = (spec.ports.apiserver, spec.ports.prometheus)
    argv = (sys.executable, "-m", "e2e.lab.gateway", str(inside_pid), *(str(port) for port in ports))
    return Component(
        GATEWAY,
        argv,
        node=None,
        probe=Probe("127.0.0.1", spec.ports.apiserver, "/readyz", tls=True),
        ports=ports,
        environment={"PYTHONPATH": str(REPOSITORY)},
    )


def runtimes(spec: LabSpec, binaries: Mapping[str, Path]) -> list[Component]:
    """The container runtimes of all nodes."""
    return [containerd(spec, node, binaries["containerd"]) for node in spec.node_indexes]


def agents(spec: LabSpec, binaries: Mapping[str, Path]) -> list[Component]:
    """kubelet and kube-proxy of all nodes."""
    return [
        component
        for node in spec.node_indexes
        for component in (kubelet(spec, node, binaries["kubelet"]), kube_proxy(spec, node, binaries["kube-proxy"]))
    ]


def services(spec: LabSpec, binaries: Mapping[str, Path]) -> list[Component]:
    """What the cluster offers to pods beside the control plane."""
    return [coredns(spec, binaries["coredns"]), prometheus(spec, binaries["prometheus"])]
