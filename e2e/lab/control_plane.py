"""Bringing up the control plane, which both profiles share, and the fake nodes on it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from e2e.lab import components, configs, fake_nodes, pki, processes
from e2e.lab.api import Api
from e2e.lab.runtime import Runtime
from e2e.lab.spec import LabSpec

FAKE_NODES_TIMEOUT_SECONDS = 60.0


def write_files(spec: LabSpec) -> None:
    """Certificates, tokens, kubeconfigs and configuration files; what exists and is still right stays as it is."""
    tokens = pki.ensure(spec)
    authority = (spec.pki / "ca.crt").read_bytes()
    configs.write(configs.files(spec), configs.kubeconfigs(spec, authority, tokens))
    spec.logs.mkdir(exist_ok=True)
    # etcd refuses a data folder that others may read
    (spec.data / "etcd").mkdir(parents=True, exist_ok=True, mode=0o700)


def start(runtime: Runtime, binaries: Mapping[str, Path]) -> list[str]:
    """Starts what does not run, waits until all of it is ready and returns the names of what was started."""
    started: list[str] = []
    for component in components.control_plane(runtime.spec, binaries):
        if runtime.start(component):
            started.append(component.name)
        # the others come up together, and are waited for together, once these two answer
        if component.name in (components.ETCD, components.APISERVER):
            runtime.wait(component)
    for component in components.control_plane(runtime.spec, binaries):
        runtime.wait(component)
    return started


def populate(runtime: Runtime, api: Api) -> None:
    """Brings the fake nodes to their number and waits until pods can be made in the default namespace."""
    spec = runtime.spec
    fake_nodes.reconcile(api, spec.gpu_nodes, tainted=spec.full)
    processes.wait_until(
        lambda: api.exists("/api/v1/namespaces/default/serviceaccounts/default"),
        what="the default ServiceAccount",
        timeout=FAKE_NODES_TIMEOUT_SECONDS,
        log=spec.log(components.CONTROLLER_MANAGER),
    )
    processes.wait_until(
        lambda: fake_nodes.ready(api, spec.gpu_nodes),
        what=f"{spec.gpu_nodes} fake nodes",
        timeout=FAKE_NODES_TIMEOUT_SECONDS,
        log=spec.log(components.KWOK),
    )
