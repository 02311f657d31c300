"""What a lab is: its folder, profile, size, addresses and ports. Pure: everything here follows from its fields."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from e2e.lab.errors import LabError

# Addresses of the `full` profile. They exist only inside the lab's own network namespace, so every lab uses the same.
CONTROL_PLANE_IP = "10.90.0.1"
SERVICE_CIDR = "10.96.0.0/16"
KUBERNETES_SERVICE_IP = "10.96.0.1"
POD_CIDR = "10.88.0.0/16"
FAKE_POD_CIDR = "10.87.0.1/16"
CLUSTER_DOMAIN = "cluster.local"

MAX_REAL_NODES = 9
MAX_FAKE_NODES = 5000
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,28}[a-z0-9])?")


class Profile(StrEnum):
    """How much of a cluster a lab is."""

    FULL = "full"
    """Real nodes with kubelet and containerd, DNS, Services and Prometheus. Needs root."""

    CONTROL_PLANE = "control-plane"
    """API server, controllers, scheduler and fake nodes only: pods never run. Any user."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Loopback ports. In `full` only `apiserver` and `prometheus` exist on the host; the rest are inside the lab."""

    etcd: int = 2379
    etcd_peer: int = 2380
    apiserver: int = 6443
    controller_manager: int = 10257
    scheduler: int = 10259
    kwok: int = 10247
    prometheus: int = 9090


@dataclass(frozen=True, slots=True)
class LabSpec:
    """One lab. `directory` is absolute, ends with the lab's name and holds everything the lab writes."""

    directory: Path
    profile: Profile = Profile.FULL
    nodes: int = 1
    gpu_nodes: int = 0
    ports: Ports = Ports()

    def __post_init__(self) -> None:
        if not self.directory.is_absolute():
            raise LabError(f"lab folder {self.directory} is not absolute")
        check_name(self.name)
        if self.profile is Profile.FULL and not 1 <= self.nodes <= MAX_REAL_NODES:
            raise LabError(f"nodes is {self.nodes}: the full profile has 1 to {MAX_REAL_NODES} real nodes")
        if self.profile is Profile.CONTROL_PLANE and self.nodes:
            raise LabError(f"nodes is {self.nodes}: the control-plane profile has no real nodes, only gpu-nodes")
        if not 0 <= self.gpu_nodes <= MAX_FAKE_NODES:
            raise LabError(f"gpu-nodes is {self.gpu_nodes}: use 0 to {MAX_FAKE_NODES}")

    @property
    def name(self) -> str:
        return self.directory.name

    @property
    def context(self) -> str:
        """Name of the context in the lab's kubeconfig."""
        return f"pd-lab-{self.name}"

    @property
    def full(self) -> bool:
        return self.profile is Profile.FULL

    @property
    def node_indexes(self) -> range:
        return range(self.nodes)

    @property
    def pki(self) -> Path:
        return self.directory / "pki"

    @property
    def config(self) -> Path:
        return self.directory / "config"

    @property
    def logs(self) -> Path:
        return self.directory / "logs"

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig; it works on the host and inside the lab."""
        return self.directory / "kubeconfig"

    def component_kubeconfig(self, user: str) -> Path:
        return self.config / f"{user}.kubeconfig"

    def node_data(self, node: int) -> Path:
        return self.data / node_name(node)

    def log(self, component: str) -> Path:
        return self.logs / f"{component}.log"

    @property
    def api_host(self) -> str:
        """Where components find the API server: an address of every node in `full`, loopback otherwise."""
        return CONTROL_PLANE_IP if self.full else "127.0.0.1"

    @property
    def api_url(self) -> str:
        return f"https://{self.api_host}:{self.ports.apiserver}"

    def with_ports(self, ports: Ports) -> LabSpec:
        return replace(self, ports=ports)


def check_name(name: str) -> None:
    """Raises LabError for a lab name that cannot be part of file, cgroup and context names."""
    if not _NAME.fullmatch(name):
        raise LabError(
            f"lab name {name!r} is not valid: use up to 30 lower-case letters, digits and dashes, "
            "starting and ending with a letter or digit"
        )


def node_name(node: int) -> str:
    """Name of a real node's Node object."""
    return f"node-{node}"


def node_ip(node: int) -> str:
    """A real node's InternalIP; node 0 shares the control plane's namespace and address."""
    return f"10.90.0.{node + 1}"


def node_pod_cidr(node: int) -> str:
    return f"10.88.{node}.0/24"


def cgroup_prefix(directory: Path) -> str:
    """Start of a lab's cgroup names. Its folder is hashed in, so two clones may use the same lab name."""
    return f"pd-lab-{directory.name}-{hashlib.sha256(str(directory).encode()).hexdigest()[:8]}"


def cgroup_name(spec: LabSpec, node: int) -> str:
    return f"{cgroup_prefix(spec.directory)}-{node}"
