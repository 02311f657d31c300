"""Using a cluster that exists already (kind, k3d, …) instead of a lab, on purpose only.

The kubeconfig is copied when the cluster is chosen, its current context alone. Whatever the person's own kubeconfig
points at later, the project goes on with the cluster that was checked.
"""

from __future__ import annotations

import base64
import fnmatch
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from e2e.lab.errors import LabError
from e2e.lab.files import write_private, write_public

KUBECONFIG_VARIABLE = "PD_LAB_KUBECONFIG"
ALLOWED_VARIABLE = "PD_ALLOWED_CONTEXTS"
ALLOWED_CONTEXTS = ("kind-*", "k3d-*", "minikube", "docker-desktop")
MARK_FILE = "external"
# kubeconfig keys that name files, which may be relative to the kubeconfig's folder
_FILE_KEYS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")


@dataclass(frozen=True, slots=True)
class ExternalCluster:
    """A cluster that somebody else runs; it is used, never started, stopped or removed."""

    directory: Path
    context: str

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"

    def command(self, argv: Sequence[str], node: int = 0) -> list[str]:
        if node:
            raise LabError(f"--node needs a lab; {self.context} is an external cluster")
        return list(argv)

    def environment(self, base: Mapping[str, str] = os.environ) -> dict[str, str]:
        return {**base, "KUBECONFIG": str(self.kubeconfig)}


def chosen(option: Path | None = None, environment: Mapping[str, str] = os.environ) -> Path | None:
    """The kubeconfig that a person named on purpose: `--kubeconfig`, else PD_LAB_KUBECONFIG.

    An exported KUBECONFIG is not taken: it may be a production cluster's, and was set for other work.
    """
    if option is not None:
        return option
    named = environment.get(KUBECONFIG_VARIABLE)
    return Path(named).expanduser() if named else None


def admit(source: Path, environment: Mapping[str, str] = os.environ) -> tuple[str, bytes]:
    """The current context of `source` and a kubeconfig of that context alone.

    Raises LabError when the file cannot be read, or its context is not on the allow-list.
    """
    document = _read(source)
    context = document.get("current-context") or ""
    patterns = [*ALLOWED_CONTEXTS, *environment.get(ALLOWED_VARIABLE, "").replace(",", " ").split()]
    if not any(fnmatch.fnmatchcase(context, pattern) for pattern in patterns):
        raise LabError(
            f"the current context of {source} is {context!r}, which is not on the list of clusters this project may "
            f"change ({', '.join(patterns)}); if it is a test cluster, set {ALLOWED_VARIABLE}={context or 'NAME'}"
        )
    chosen_context = _named(document, "contexts", context)["context"]
    cluster = _named(document, "clusters", chosen_context["cluster"])
    user = _named(document, "users", chosen_context["user"])
    alone = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster["name"], "cluster": _absolute(cluster["cluster"], source.parent)}],
        "users": [{"name": user["name"], "user": _absolute(user["user"], source.parent)}],
        "contexts": [{"name": context, "context": chosen_context}],
        "current-context": context,
    }
    return context, yaml.safe_dump(alone, sort_keys=False).encode("utf-8")


def adopt(directory: Path, source: Path, environment: Mapping[str, str] = os.environ) -> ExternalCluster:
    """Makes the cluster behind `source` the one that this lab's name stands for."""
    if (directory / "lab.json").exists():
        raise LabError(f"{directory.name!r} is a lab of its own already; `down --wipe` it, or use another name")
    context, content = admit(source, environment)
    cluster = ExternalCluster(directory, context)
    write_private(cluster.kubeconfig, content)
    write_public(directory / MARK_FILE, context.encode("utf-8"))
    return cluster


def load(directory: Path) -> ExternalCluster | None:
    """The external cluster that this lab's name stands for, if any."""
    mark = directory / MARK_FILE
    return ExternalCluster(directory, mark.read_text(encoding="utf-8")) if mark.exists() else None


def forget(cluster: ExternalCluster) -> None:
    """Stops using the cluster. Nothing in it is touched."""
    (cluster.directory / MARK_FILE).unlink(missing_ok=True)
    cluster.kubeconfig.unlink(missing_ok=True)
    if not any(cluster.directory.iterdir()):
        cluster.directory.rmdir()


def _read(source: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(source.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise LabError(f"the kubeconfig {source} cannot be read: {error}") from error
    if not isinstance(document, dict):
        raise LabError(f"{source} is not a kubeconfig")
    return document


def _named(document: Mapping[str, Any], kind: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] | None = next((item for item in document.get(kind) or [] if item["name"] == name), None)
    if found is None:
        raise LabError(f"the kubeconfig's current context needs {name!r} among its {kind}, which is not there")
    return found


def _absolute(entry: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The entry with certificates and keys put in, so that the copy does not depend on the original's folder."""
    result = dict(entry)
    for key in _FILE_KEYS:
        if key not in result:
            continue
        path = folder / result[key]
        if key == "tokenFile":
            result[key] = str(path.absolute())
        else:
            del result[key]
            result[f"{key}-data"] = base64.b64encode(path.read_bytes()).decode("ascii")
    return result
