"""Contents of the control plane's configuration files. Pure; `write` is the one exception."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from e2e.lab import kubeconfig, pki
from e2e.lab.components import CLIENT_BURST, CLIENT_QPS
from e2e.lab.files import write_if_changed, write_private
from e2e.lab.spec import LabSpec

# kwok's own defaults (4 workers each) need minutes for the thousands of pods of a bench
KWOK_POD_WORKERS = 64
KWOK_NODE_WORKERS = 16


def files(spec: LabSpec) -> dict[Path, bytes]:
    """Every configuration file of the control plane without secrets."""
    return {
        spec.config / "scheduler.yaml": document(scheduler(spec)),
        spec.config / "kwok.yaml": document(kwok()),
    }


def kubeconfigs(spec: LabSpec, authority: bytes, tokens: Mapping[str, str]) -> dict[Path, bytes]:
    """The administrator's kubeconfig and one for every component that is a client."""
    rendered = {
        spec.component_kubeconfig(user): kubeconfig.render(spec.context, user, spec.api_url, authority, token)
        for user, token in tokens.items()
        if user != pki.ADMIN
    }
    # loopback serves both sides: the API server inside the lab, the gateway's listener outside
    server = f"https://127.0.0.1:{spec.ports.apiserver}"
    rendered[spec.kubeconfig] = kubeconfig.render(spec.context, pki.ADMIN, server, authority, tokens[pki.ADMIN])
    return rendered


def write(public: Mapping[Path, bytes], private: Mapping[Path, bytes]) -> None:
    for path, content in public.items():
        write_if_changed(path, content)
    for path, content in private.items():
        write_private(path, content)


def scheduler(spec: LabSpec) -> dict[str, Any]:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {
            "kubeconfig": str(spec.component_kubeconfig("system:kube-scheduler")),
            "qps": CLIENT_QPS,
            "burst": CLIENT_BURST,
        },
    }


def kwok() -> dict[str, Any]:
    return {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokConfiguration",
        "options": {
            "podPlayStageParallelism": KWOK_POD_WORKERS,
            "nodePlayStageParallelism": KWOK_NODE_WORKERS,
            "nodeLeaseParallelism": KWOK_NODE_WORKERS,
            "podsOnNodeSyncParallelism": KWOK_NODE_WORKERS,
        },
    }


def document(content: Mapping[str, Any]) -> bytes:
    return yaml.safe_dump(dict(content), sort_keys=False).encode("utf-8")
