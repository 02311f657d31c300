"""The lab's programs: what is built, when, and under which identity."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from e2e.lab import binaries, cache, toolchain
from e2e.lab.binaries import Module
from e2e.lab.errors import LabError
from e2e.lab.progress import Progress

# Writes a file for each package into the folder after -o, as `go build` names it, and notes the packages.
FAKE_GO = """#!/bin/sh
[ -z "$FAKE_GO_FAILS" ] || {{ echo "cannot reach the proxy"; exit 1; }}
[ "$CGO_ENABLED $GOWORK" = "0 off" ] || exit 2
while [ "$1" != -o ]; do shift; done
out=$2; shift 2
echo "$@" >> {calls}
for package; do
    case $package in .) name=${{PWD##*/}} ;; */v3) name=server ;; *) name=${{package##*/}} ;; esac
    echo "$package" > "$out$name"
done
"""


class Lab:
    """A cache in a temporary folder and a Go that only pretends."""

    def __init__(self, folder: Path) -> None:
        self.cache = folder / "cache"
        self.calls = folder / "calls"
        self.go = folder / "go"
        self.seen = io.StringIO()
        self.go.write_text(FAKE_GO.format(calls=self.calls))
        self.go.chmod(0o755)

    def ensure(self, *names: str) -> dict[str, Path]:
        return binaries.ensure(names, Progress(self.seen))

    def builds(self) -> list[str]:
        return self.calls.read_text().splitlines() if self.calls.exists() else []


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    lab = Lab(tmp_path)
    monkeypatch.setenv("PD_CACHE_DIR", str(lab.cache))
    monkeypatch.setattr(toolchain, "go", lambda _: lab.go)
    monkeypatch.setattr(toolchain, "language_version", lambda: "1.26")
    return lab


def test_programs_of_one_module_are_one_build_and_nothing_else_is_built(lab: Lab) -> None:
    found = lab.ensure("kube-scheduler", "kube-apiserver")
    assert lab.builds() == ["k8s.io/kubernetes/cmd/kube-scheduler k8s.io/kubernetes/cmd/kube-apiserver"]
    assert found["kube-scheduler"].read_text() == "k8s.io/kubernetes/cmd/kube-scheduler\n"
    assert list(found) == ["kube-scheduler", "kube-apiserver"]


def test_what_was_built_is_not_built_again_and_new_names_join_it(lab: Lab) -> None:
    first = lab.ensure("kube-apiserver")["kube-apiserver"]
    second = lab.ensure("kube-apiserver", "kubelet")
    assert lab.builds() == ["k8s.io/kubernetes/cmd/kube-apiserver", "k8s.io/kubernetes/cmd/kubelet"]
    assert second["kube-apiserver"] == first
    assert second["kubelet"].parent == first.parent


@pytest.mark.parametrize("name", ["etcd", "coredns", "pause", "promtool"])
def test_a_program_has_its_name_whatever_go_calls_it(lab: Lab, name: str) -> None:
    path = lab.ensure(name)[name]
    assert path.name == name
    assert path.is_file()


def test_a_failed_build_leaves_nothing_and_the_next_one_succeeds(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_GO_FAILS", "1")
    with pytest.raises(LabError, match=r"Build etcd .*status 1; .*GOPROXY.*same command again"):
        lab.ensure("etcd")
    assert "    | cannot reach the proxy" in lab.seen.getvalue()
    assert not list(lab.cache.rglob("etcd"))
    assert not list(lab.cache.rglob(".scratch-*"))
    monkeypatch.delenv("FAKE_GO_FAILS")
    assert lab.ensure("etcd")["etcd"].is_file()


def test_a_build_that_another_process_did_meanwhile_is_taken(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait for the lock ends with the program there: it must not be built a second time."""
    wait = cache.locked

    def other_process_builds_first(directory: Path, when_busy: object) -> object:
        monkeypatch.setattr(cache, "locked", wait)
        lab.ensure("etcd")
        return wait(directory, lambda: None)

    monkeypatch.setattr(cache, "locked", other_process_builds_first)
    assert lab.ensure("etcd")["etcd"].is_file()
    assert len(lab.builds()) == 1


def test_old_builds_of_a_module_go_and_other_modules_stay(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.ensure("kwok")
    for version in range(binaries.KEPT_BUILDS + 2):
        monkeypatch.setattr(toolchain, "language_version", lambda version=version: f"1.{version}")
        newest = lab.ensure("etcd")["etcd"]
    assert len(list(lab.cache.glob("bin/etcd-*"))) == binaries.KEPT_BUILDS
    assert len(list(lab.cache.glob("bin/kwok-*"))) == 1
    assert newest.exists()


def test_an_unknown_name_is_refused_with_the_known_ones(lab: Lab) -> None:
    with pytest.raises(LabError, match="no program is called kube-magic; known are kubectl, kube-apiserver"):
        lab.ensure("etcd", "kube-magic")
    assert lab.builds() == []


def test_kubectl_comes_with_the_environment(lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    with pytest.raises(LabError, match="make venv"):
        lab.ensure("kubectl")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kubectl").touch()
    assert lab.ensure("kubectl") == {"kubectl": tmp_path / "bin" / "kubectl"}


def test_prefetch_builds_everything_that_a_lab_uses(lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(binaries, "kubectl", lambda: tmp_path / "kubectl")
    binaries.prefetch(Progress(lab.seen))
    before = len(lab.builds())
    lab.ensure(*binaries.CONTROL_PLANE, *binaries.FULL)
    assert len(lab.builds()) == before


def test_the_identity_is_the_module_its_flags_and_the_go_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binaries, "MODULES", tmp_path)
    folder = tmp_path / "tool"
    folder.mkdir()
    (folder / "go.mod").write_text("module tool\n")
    module = Module("tool", {"tool": "."})
    first = binaries.key(module, "1.26")
    (folder / "README.md").write_text("not part of it")
    assert binaries.key(module, "1.26") == first
    variants = {
        first,
        binaries.key(module, "1.27"),
        binaries.key(Module("tool", {"tool": "."}, tags=("x",)), "1.26"),
        binaries.key(Module("tool", {"tool": "."}, variables={"v": "1"}), "1.26"),
    }
    for name in ("go.sum", "main.go"):
        (folder / name).write_text("x")
        variants.add(binaries.key(module, "1.26"))
    assert len(variants) == 6


def test_the_build_command_is_reproducible_and_keeps_the_modules_as_locked() -> None:
    module = Module("tool", {"a": "x/a", "b": "x/b"}, tags=("t1", "t2"), variables={"x.version": "v1"})
    assert binaries.command(module, ["a", "b"], Path("/go"), Path("/out")) == [
        *("/go", "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-tags=t1,t2"),
        *("-ldflags=-s -w -X x.version=v1", "-o", "/out/", "x/a", "x/b"),
    ]


@pytest.mark.parametrize("module", binaries._ALL, ids=lambda module: module.name)
def test_every_module_is_checked_in_with_what_it_needs(module: Module) -> None:
    text = (module.directory / "go.mod").read_text()
    for package in module.packages.values():
        assert (module.directory / "main.go").exists() if package == "." else package in text
    if "require" in text:
        assert (module.directory / "go.sum").stat().st_size > 0


def test_versions_told_to_the_linker_are_those_of_the_modules() -> None:
    def required(module: str, path: str) -> str:
        text = (binaries.MODULES / module / "go.mod").read_text()
        found = re.search(rf"{re.escape(path)} v(\S+)", text)
        assert found is not None
        return found[1]

    by_name = {module.name: module for module in binaries._ALL}
    assert required("kubernetes", "k8s.io/kubernetes") == binaries.KUBERNETES_VERSION
    helm = by_name["helm"].variables["helm.sh/helm/v3/internal/version.version"]
    assert f"v{required('helm', 'helm.sh/helm/v3')}" == helm
    # Prometheus 3.N is published as the Go module version 0.3NN.
    _, minor, patch = required("prometheus", "github.com/prometheus/prometheus").split(".")
    told = by_name["prometheus"].variables["github.com/prometheus/common/version.Version"]
    assert told == f"3.{int(minor) - 300}.{patch}"
