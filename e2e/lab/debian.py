"""Programs that the lab takes from the Linux distribution, and their installation on Debian and its relatives."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.lab import cache
from e2e.lab.errors import LabError
from e2e.lab.progress import Progress

NODE = ("containerd", "runc", "containernetworking-plugins", "nftables", "iproute2", "util-linux")
"""What a real node needs besides our own programs."""

IMAGES = ("buildah", "mmdebstrap", "debian-archive-keyring")
"""What building container images needs."""

_PROGRAMS = {
    "buildah": ("buildah",),
    "containerd": ("containerd", "ctr"),
    "containernetworking-plugins": ("ptp", "host-local", "loopback"),
    "debian-archive-keyring": ("/usr/share/keyrings/debian-archive-keyring.gpg",),
    "iproute2": ("ip",),
    "mmdebstrap": ("mmdebstrap",),
    "nftables": ("nft",),
    "runc": ("runc",),
    "util-linux": ("nsenter", "unshare"),
}
"""The files that show a package's content is there, from whatever source: other distributions split theirs
differently, and a machine with Docker has containerd from a package of another name."""

_FOLDERS = ("/usr/sbin", "/sbin", "/usr/lib/cni", "/opt/cni/bin")
"""Searched besides PATH: a user's PATH often lacks the system folders, and CNI plug-ins are on nobody's."""

POLICY = Path("/usr/sbin/policy-rc.d")
_POLICY_TEXT = "#!/bin/sh\n# Written by pd-operator's lab while it installs packages: start no services.\nexit 101\n"


def ensure(packages: Iterable[str], progress: Progress) -> None:
    """Makes the programs of `packages` available. Does nothing when they are.

    Installs them on a Debian-like system as root, without recommended packages and without starting services, and
    never removes a package for it. Raises LabError with the names and the command where it cannot.
    """
    missing = [package for package in dict.fromkeys(packages) if not is_there(package)]
    if not missing:
        return
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        raise LabError(refusal(missing, debian_like=apt is not None))
    directory = cache.root() / "debian"
    busy = "Another process installs Debian packages; waiting for it …"
    with cache.locked(directory, lambda: progress.say(busy)):
        missing = [package for package in missing if not is_there(package)]
        if missing:
            _install(apt, missing, directory / "install.log", progress)
    if still := [package for package in missing if not is_there(package)]:
        raise LabError(f"installed {', '.join(still)}, but not its programs {_names(still)}; install them by hand")


def is_there(package: str) -> bool:
    """Whether all of a package's programs are on this machine. Raises LabError for a package not listed here."""
    try:
        programs = _PROGRAMS[package]
    except KeyError:
        raise LabError(f"package {package} is not known to e2e/lab/debian.py; add its programs there") from None
    return all(find(program) for program in programs)


def find(program: str) -> Path | None:
    """Where a program is: on PATH, or in the system folders that a user's PATH may lack."""
    found = shutil.which(program, path=os.pathsep.join((os.environ.get("PATH", ""), *_FOLDERS)))
    if found:
        return Path(found)
    return Path(program) if program.startswith("/") and Path(program).exists() else None


def refusal(missing: list[str], *, debian_like: bool) -> str:
    """Why nothing was installed, and what the reader can do."""
    if debian_like:
        fix = f"run: sudo apt-get install --no-install-recommends {' '.join(missing)}"
    else:
        fix = f"install the programs {_names(missing)} with this system's package manager"
    return f"the lab needs {', '.join(missing)} and may not install them here; {fix}"


def _names(packages: list[str]) -> str:
    return ", ".join(Path(program).name for package in packages for program in _PROGRAMS[package])


def install_command(apt: str, packages: list[str]) -> list[str]:
    """`--no-remove`: on a machine with Docker, Debian's containerd would otherwise replace Docker's."""
    options = ("--yes", "--no-install-recommends", "--no-remove", "-o", "DPkg::Lock::Timeout=300")
    return [apt, "install", *options, *packages]


def _install(apt: str, packages: list[str], log: Path, progress: Progress) -> None:
    names = ", ".join(packages)
    env = {"DEBIAN_FRONTEND": "noninteractive"}
    fix = f"run `{' '.join(install_command('apt-get', packages))}` by hand to see why"
    with _services_stay_off():
        try:
            progress.run(f"Install Debian packages {names}", install_command(apt, packages), log=log, env=env, fix=fix)
        except LabError:
            # A new machine has no package lists, an old one has lists of packages that are gone.
            progress.run("Update the package lists", [apt, "update"], log=log, env=env, fix=fix)
            progress.run(f"Install Debian packages {names}", install_command(apt, packages), log=log, env=env, fix=fix)


@contextmanager
def _services_stay_off() -> Iterator[None]:
    """A policy for the package scripts: a machine that lends itself to a lab gets no new running service.

    The administrator's own policy stays as it is. One that a killed run of ours left behind goes at the end.
    """
    theirs = POLICY.exists() and POLICY.read_text(encoding="utf-8", errors="replace") != _POLICY_TEXT
    if theirs:
        yield
        return
    POLICY.write_text(_POLICY_TEXT, encoding="utf-8")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink(missing_ok=True)
