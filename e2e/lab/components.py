"""The control plane's components as command lines, built from a `LabSpec` alone. Nothing here starts anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from e2e.lab.connection import Probe
from e2e.lab.spec import CONTROL_PLANE_IP, FAKE_POD_CIDR, SERVICE_CIDR, LabSpec

ETCD = "etcd"
APISERVER = "apiserver"
CONTROLLER_MANAGER = "controller-manager"
SCHEDULER = "scheduler"
KWOK = "kwok"

FAKE_NODE_ANNOTATION = "kwok.x-k8s.io/node"
FAKE_NODE_LEASE_SECONDS = 40

# With the defaults (20 and 50 requests a second) the controllers, not the operator, would be what the bench measures.
CLIENT_QPS = 500
CLIENT_BURST = 1000


@dataclass(frozen=True, slots=True)
class Component:
    """One long-running process of a lab."""

    name: str
    argv: tuple[str, ...]
    node: int | None = 0
    """The node whose namespaces it runs in; node 0 also holds the control plane, and None is the host itself.
    Without meaning in `control-plane`, which has no namespaces."""
    probe: Probe | None = None
    ports: tuple[int, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


def control_plane(spec: LabSpec, binaries: Mapping[str, Path]) -> list[Component]:
    """etcd, API server, controller manager, scheduler and kwok, in the order to start them."""
    return [
        etcd(spec, binaries["etcd"]),
        apiserver(spec, binaries["kube-apiserver"]),
        controller_manager(spec, binaries["kube-controller-manager"]),
        scheduler(spec, binaries["kube-scheduler"]),
        kwok(spec, binaries["kwok"]),
    ]


def etcd(spec: LabSpec, binary: Path) -> Component:
    client = f"http://127.0.0.1:{spec.ports.etcd}"
    peer = f"http://127.0.0.1:{spec.ports.etcd_peer}"
    argv = [
        str(binary),
        f"--data-dir={spec.data / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",  # a lab may lose its data with the machine's power, not with its processes
        "--log-level=warn",
    ]
    ports = (spec.ports.etcd, spec.ports.etcd_peer)
    return Component(ETCD, tuple(argv), probe=Probe("127.0.0.1", spec.ports.etcd, "/health"), ports=ports)


def apiserver(spec: LabSpec, binary: Path) -> Component:
    pki = spec.pki
    argv = [
        str(binary),
        f"--etcd-servers=http://127.0.0.1:{spec.ports.etcd}",
        f"--secure-port={spec.ports.apiserver}",
        f"--service-cluster-ip-range={SERVICE_CIDR}",
        f"--client-ca-file={pki / 'ca.crt'}",
        f"--tls-cert-file={pki / 'apiserver.crt'}",
        f"--tls-private-key-file={pki / 'apiserver.key'}",
        f"--token-auth-file={pki / 'tokens.csv'}",
        f"--service-account-key-file={pki / 'service-account.pub'}",
        f"--service-account-signing-key-file={pki / 'service-account.key'}",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        "--profiling=false",
    ]
    if spec.full:
        argv += [
            # all addresses: components use the control plane's, clients on the host arrive at loopback
            "--bind-address=0.0.0.0",
            f"--advertise-address={CONTROL_PLANE_IP}",
            f"--kubelet-client-certificate={pki / 'apiserver-kubelet.crt'}",
            f"--kubelet-client-key={pki / 'apiserver-kubelet.key'}",
            f"--kubelet-certificate-authority={pki / 'ca.crt'}",
            "--kubelet-preferred-address-types=InternalIP",
        ]
    else:
        argv += [
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            # an endpoint of Service `kubernetes` may not be a loopback address, and no pod will ever ask for it
            "--endpoint-reconciler-type=none",
        ]
    probe = Probe(spec.api_host, spec.ports.apiserver, "/readyz", tls=True)
    return Component(APISERVER, tuple(argv), probe=probe, ports=(spec.ports.apiserver,))


def controller_manager(spec: LabSpec, binary: Path) -> Component:
    argv = [
        str(binary),
        f"--kubeconfig={spec.component_kubeconfig('system:kube-controller-manager')}",
        "--bind-address=127.0.0.1",
        f"--secure-port={spec.ports.controller_manager}",
        f"--service-account-private-key-file={spec.pki / 'service-account.key'}",
        f"--root-ca-file={spec.pki / 'ca.crt'}",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
        "--controllers=*,-node-ipam-controller",  # the CNI configuration hands out pod addresses
        # its default is made on the host
        f"--flex-volume-plugin-dir={spec.data / 'volume-plugins'}",
        f"--kube-api-qps={CLIENT_QPS}",
        f"--kube-api-burst={CLIENT_BURST}",
        "--profiling=false",
    ]
    probe = Probe("127.0.0.1", spec.ports.controller_manager, "/healthz", tls=True)
    return Component(CONTROLLER_MANAGER, tuple(argv), probe=probe, ports=(spec.ports.controller_manager,))


def scheduler(spec: LabSpec, binary: Path) -> Component:
    argv = [
        str(binary),
        f"--config={spec.config / 'scheduler.yaml'}",
        "--bind-address=127.0.0.1",
        f"--secure-port={spec.ports.scheduler}",
    ]
    probe = Probe("127.0.0.1", spec.ports.scheduler, "/healthz", tls=True)
    return Component(SCHEDULER, tuple(argv), probe=probe, ports=(spec.ports.scheduler,))


def kwok(spec: LabSpec, binary: Path) -> Component:
    argv = [
        str(binary),
        f"--kubeconfig={spec.component_kubeconfig('kwok')}",
        f"--config={spec.config / 'kwok.yaml'}",
        "--manage-all-nodes=false",
        f"--manage-nodes-with-annotation-selector={FAKE_NODE_ANNOTATION}=fake",
        f"--node-lease-duration-seconds={FAKE_NODE_LEASE_SECONDS}",
        f"--cidr={FAKE_POD_CIDR}",
        f"--server-address=127.0.0.1:{spec.ports.kwok}",
    ]
    probe = Probe("127.0.0.1", spec.ports.kwok, "/healthz")
    return Component(KWOK, tuple(argv), probe=probe, ports=(spec.ports.kwok,))
