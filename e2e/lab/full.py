"""Bringing up what the `full` profile adds to a control plane: real nodes, DNS, Prometheus and the gateway."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from e2e.lab import cgroups, configs, namespaces, node_components, node_configs, prometheus, real_nodes
from e2e.lab.api import Api, Object
from e2e.lab.components import Component
from e2e.lab.runtime import Runtime
from e2e.lab.spec import LabSpec

CONTAINERD_TIMEOUT_SECONDS = 30.0
READER = "pd-lab:reader"
CNI_PLUGIN = "ptp"


def write_files(spec: LabSpec, pause_image: str, programs: Mapping[str, Path]) -> None:
    configs.write(node_configs.files(spec, pause_image, programs[CNI_PLUGIN].parent), {})
    for node in spec.node_indexes:
        # these belong to mounts and processes that are gone; containers and images are kept
        for stale in ("kubelet", "pod-logs"):
            shutil.rmtree(spec.node_data(node) / stale, ignore_errors=True)
    for folder in node_configs.folders(spec):
        folder.mkdir(parents=True, exist_ok=True)


def create_namespaces(spec: LabSpec) -> None:
    cgroups.create(spec)
    namespaces.create(spec)


def components(spec: LabSpec, binaries: Mapping[str, Path]) -> list[Component]:
    """Everything that is not the control plane; the gateway only while the namespaces exist."""
    inside = namespaces.holder_process(spec, 0)
    return [
        *node_components.runtimes(spec, binaries),
        *node_components.services(spec, binaries),
        *node_components.agents(spec, binaries),
        *([node_components.gateway(spec, inside.pid)] if inside else []),
    ]


def start_runtimes(runtime: Runtime, binaries: Mapping[str, Path]) -> list[str]:
    """Starts the container runtimes, which need nothing else, without waiting for them."""
    return start_missing(runtime, node_components.runtimes(runtime.spec, binaries))


def start(runtime: Runtime, api: Api, binaries: Mapping[str, Path], pause: Path) -> list[str]:
    """Starts the rest on a running control plane, and waits until the nodes are Ready and DNS answers."""
    spec = runtime.spec
    since = real_nodes.now()
    real_nodes.remove_surplus(api, spec.nodes)
    for path, body in objects(spec):
        api.apply(path, body)
    for component in node_components.runtimes(spec, binaries):
        wait_runtime(runtime, component)
    real_nodes.load(runtime, pause, list(spec.node_indexes))
    rest = [component for component in components(spec, binaries) if not component.name.startswith("containerd")]
    started = start_missing(runtime, rest)
    for component in rest:
        runtime.wait(component)
    if any(name.startswith(node_components.KUBELET) for name in started):
        real_nodes.wait_ready(runtime, api, since)
    return started


def wait_runtime(runtime: Runtime, component: Component) -> None:
    """Waits for a node's containerd, which has no health page."""
    ready = partial(real_nodes.runtime_answers, runtime, component.node or 0)
    runtime.wait_for(component, ready, CONTAINERD_TIMEOUT_SECONDS)


def start_missing(runtime: Runtime, wanted: Sequence[Component]) -> list[str]:
    return [component.name for component in wanted if runtime.start(component)]


def objects(spec: LabSpec) -> list[tuple[str, Object]]:
    """API paths and objects that the lab's own components need in the cluster."""
    group = "rbac.authorization.k8s.io"
    role: Object = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": READER},
        "rules": [
            {
                "apiGroups": [""],
                "resources": ["namespaces", "nodes", "pods", "services"],
                "verbs": ["get", "list", "watch"],
            },
            {
                "apiGroups": ["discovery.k8s.io"],
                "resources": ["endpointslices"],
                "verbs": ["get", "list", "watch"],
            },
        ],
    }
    binding: Object = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": READER},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": READER},
        "subjects": [
            {"kind": "User", "name": user, "apiGroup": group}
            for user in (node_components.COREDNS, node_components.PROMETHEUS)
        ],
    }
    rbac = f"/apis/{group}/v1"
    return [
        (f"{rbac}/clusterroles/{READER}", role),
        (f"{rbac}/clusterrolebindings/{READER}", binding),
        *prometheus.service(spec),
    ]
