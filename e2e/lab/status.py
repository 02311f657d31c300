"""What runs in a lab at this moment, and how it is shown."""

from __future__ import annotations

import dataclasses
import http.client
import json
from collections.abc import Sequence
from dataclasses import dataclass

from e2e.lab.api import Api, ApiError, Object
from e2e.lab.components import Component
from e2e.lab.errors import LabError
from e2e.lab.fake_nodes import FAKE_TYPE, GPU, RDMA, TYPE_LABEL, is_ready
from e2e.lab.lab import Lab
from e2e.lab.processes import Process, main_process
from e2e.lab.spec import LabSpec

MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ComponentStatus:
    name: str
    pid: int | None
    """As the host numbers it; None when the component is down."""
    rss_mib: float
    cpu_seconds: float
    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NodeStatus:
    name: str
    ready: bool
    real: bool
    zone: str
    gpus: int
    rdma: int


@dataclass(frozen=True, slots=True)
class LabStatus:
    name: str
    profile: str
    up: bool
    """Every component runs."""
    kubeconfig: str
    components: list[ComponentStatus]
    rss_mib: float
    """Of all the lab's processes together, pods and their shims left out."""
    nodes: list[NodeStatus]
    """Empty while the API server does not answer."""
    urls: dict[str, str]
    """What a browser or client on the host may open."""


def observe(lab: Lab) -> LabStatus:
    """Looks at processes and nodes. Raises LabError when there is no such lab."""
    spec = lab.state().spec
    running = lab.runtime().processes()
    components = [_component(component, running) for component in lab.components()] if running else []
    return LabStatus(
        name=lab.name,
        profile=spec.profile,
        up=bool(components) and all(component.pid is not None for component in components),
        kubeconfig=str(lab.kubeconfig),
        components=components,
        rss_mib=_mebibytes(sum(process.rss_bytes for process in running)),
        nodes=_nodes(lab) if running else [],
        urls=_urls(spec) if running else {},
    )


def as_json(status: LabStatus) -> str:
    return json.dumps(dataclasses.asdict(status), indent=2)


def as_text(status: LabStatus) -> str:
    if not status.components:
        return f"lab {status.name} ({status.profile}) is down"
    lines = [f"lab {status.name} ({status.profile}): {'up' if status.up else 'INCOMPLETE'}", ""]
    rows = [("COMPONENT", "PID", "RSS MiB", "CPU s", "PORTS")]
    rows += [
        (
            item.name,
            str(item.pid) if item.pid is not None else "DOWN",
            f"{item.rss_mib:.0f}",
            f"{item.cpu_seconds:.1f}",
            " ".join(str(port) for port in item.ports),
        )
        for item in status.components
    ]
    lines += [*_table(rows), f"all processes: {status.rss_mib:.0f} MiB RSS", ""]
    node_rows = [("NODE", "READY", "ZONE", GPU, RDMA)]
    node_rows += [
        (node.name, "yes" if node.ready else "NO", node.zone, str(node.gpus), str(node.rdma))
        for node in status.nodes
        if node.real
    ]
    fakes = [node for node in status.nodes if not node.real]
    lines += _table(node_rows) if len(node_rows) > 1 else []
    lines.append(f"fake GPU nodes: {sum(node.ready for node in fakes)} of {len(fakes)} ready")
    lines += [f"{name}: {url}" for name, url in status.urls.items()]
    lines.append(f"export KUBECONFIG={status.kubeconfig}")
    return "\n".join(lines)


def _component(component: Component, running: list[Process]) -> ComponentStatus:
    process = main_process(running, component.name, component.argv[0])
    return ComponentStatus(
        name=component.name,
        pid=process.pid if process else None,
        rss_mib=_mebibytes(process.rss_bytes) if process else 0.0,
        cpu_seconds=round(process.cpu_seconds, 2) if process else 0.0,
        ports=component.ports,
    )


def _nodes(lab: Lab) -> list[NodeStatus]:
    try:
        with lab.runtime().api() as api:
            return [_node(item) for item in _listed(api)]
    except (OSError, http.client.HTTPException, ApiError, LabError):
        return []


def _listed(api: Api) -> list[Object]:
    return api.items("/api/v1/nodes")


def _node(item: Object) -> NodeStatus:
    labels = item["metadata"].get("labels", {})
    allocatable = item.get("status", {}).get("allocatable", {})
    return NodeStatus(
        name=item["metadata"]["name"],
        ready=is_ready(item),
        real=labels.get(TYPE_LABEL) != FAKE_TYPE,
        zone=labels.get("topology.kubernetes.io/zone", ""),
        gpus=int(allocatable.get(GPU, 0)),
        rdma=int(allocatable.get(RDMA, 0)),
    )


def _urls(spec: LabSpec) -> dict[str, str]:
    urls = {"API server": f"https://127.0.0.1:{spec.ports.apiserver}"}
    if spec.full:
        urls["Prometheus"] = f"http://127.0.0.1:{spec.ports.prometheus}"
    return urls


def _mebibytes(count: int) -> float:
    return round(count / MEBIBYTE, 1)


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
