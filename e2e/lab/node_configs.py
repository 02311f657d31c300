"""Contents of the configuration files that only the `full` profile has. Pure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from e2e.lab.configs import document
from e2e.lab.node_components import (
    COREDNS_HEALTH_PORT,
    COREDNS_READY_PORT,
    KUBE_PROXY_HEALTH_PORT,
    KUBE_PROXY_METRICS_PORT,
)
from e2e.lab.prometheus import configuration as prometheus
from e2e.lab.spec import (
    CLUSTER_DOMAIN,
    CONTROL_PLANE_IP,
    POD_CIDR,
    LabSpec,
    cgroup_name,
    node_ip,
    node_name,
    node_pod_cidr,
)

CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
DNS_TTL_SECONDS = 5


def files(spec: LabSpec, pause_image: str, cni_plugins: Path) -> dict[Path, bytes]:
    """Every configuration file of nodes, DNS and Prometheus; none holds a secret."""
    found = {
        spec.config / "Corefile": corefile(spec).encode(),
        spec.config / "prometheus.yaml": document(prometheus(spec)),
        # for commands run inside the lab, and for kubelets to hand to pods with `dnsPolicy: Default`
        spec.config / "resolv.conf": (
            f"nameserver {CONTROL_PLANE_IP}\nsearch svc.{CLUSTER_DOMAIN} {CLUSTER_DOMAIN}\n".encode()
        ),
        spec.config / "pod-resolv.conf": f"nameserver {CONTROL_PLANE_IP}\n".encode(),
    }
    for node in spec.node_indexes:
        found |= {
            spec.config / f"containerd-{node}.toml": containerd(spec, node, pause_image, cni_plugins).encode(),
            spec.config / f"cni-{node}" / "10-ptp.conflist": json.dumps(cni(node), indent=2).encode(),
            spec.config / f"kubelet-{node}.yaml": document(kubelet(spec, node)),
            spec.config / f"kube-proxy-{node}.yaml": document(kube_proxy(spec, node)),
        }
    return found


def folders(spec: LabSpec) -> list[Path]:
    """Data folders that must exist before a node's namespaces are set up."""
    return [spec.node_data(node) / name for node in spec.node_indexes for name in ("containerd", "kubelet", "pod-logs")]


def containerd(spec: LabSpec, node: int, pause_image: str, cni_plugins: Path) -> str:
    data = spec.node_data(node)
    return f"""\
version = 2
root = "{data / "containerd"}"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
]

[grpc]
  address = "{CONTAINERD_SOCKET}"

[plugins."io.containerd.internal.v1.opt"]
  path = "{data / "opt"}"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause_image}"
  # without CAP_SYS_RESOURCE (in most containers) runc cannot lower a score and dies
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni_plugins}"
    conf_dir = "{spec.config / f"cni-{node}"}"
"""


def cni(node: int) -> dict[str, Any]:
    """Point-to-point links from the node to its pods, routed without address translation."""
    ipam = {
        "type": "host-local",
        "ranges": [[{"subnet": node_pod_cidr(node)}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    return {"cniVersion": "0.4.0", "name": "pd-lab", "plugins": [{"type": "ptp", "ipMasq": False, "ipam": ipam}]}


def kubelet(spec: LabSpec, node: int) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup_name(spec, node)}",
        "enforceNodeAllocatable": [],
        "authentication": {
            "anonymous": {"enabled": False},
            "x509": {"clientCAFile": str(spec.pki / "ca.crt")},
            "webhook": {"enabled": True},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(spec.pki / f"kubelet-{node}.crt"),
        "tlsPrivateKeyFile": str(spec.pki / f"kubelet-{node}.key"),
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "clusterDNS": [CONTROL_PLANE_IP],
        "clusterDomain": CLUSTER_DOMAIN,
        "resolvConf": str(spec.config / "pod-resolv.conf"),
        "address": node_ip(node),
        "readOnlyPort": 0,
        "healthzBindAddress": "127.0.0.1",
        "failSwapOn": False,
        "makeIPTablesUtilChains": False,
        "volumePluginDir": str(spec.node_data(node) / "volume-plugins"),
        # the disk is the host's and mostly full of other things: evict late, and never collect images that
        # no registry could bring back
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "localStorageCapacityIsolation": False,
    }


def kube_proxy(spec: LabSpec, node: int) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(spec.component_kubeconfig("system:kube-proxy"))},
        "mode": "nftables",
        "clusterCIDR": POD_CIDR,
        "hostnameOverride": node_name(node),
        "bindAddress": node_ip(node),
        "healthzBindAddress": f"127.0.0.1:{KUBE_PROXY_HEALTH_PORT}",
        "metricsBindAddress": f"127.0.0.1:{KUBE_PROXY_METRICS_PORT}",
        # limits of connection tracking belong to the host and stay as they are
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }


def corefile(spec: LabSpec) -> str:
    return f"""\
.:53 {{
  bind {CONTROL_PLANE_IP}
  errors
  health 127.0.0.1:{COREDNS_HEALTH_PORT}
  ready 127.0.0.1:{COREDNS_READY_PORT}
  kubernetes {CLUSTER_DOMAIN} in-addr.arpa {{
    kubeconfig {spec.component_kubeconfig("coredns")}
    pods verified
    ttl {DNS_TTL_SECONDS}
  }}
}}
"""
