"""What the `full` profile needs from the machine, checked before anything is started."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from e2e.lab.errors import LabError

# number of each capability in the kernel's bit set; see linux/capability.h
CAPABILITIES = {
    "CAP_CHOWN": 0,
    "CAP_DAC_OVERRIDE": 1,
    "CAP_KILL": 5,
    "CAP_SETUID": 7,
    "CAP_NET_ADMIN": 12,
    "CAP_NET_RAW": 13,
    "CAP_SYS_CHROOT": 18,
    "CAP_SYS_PTRACE": 19,
    "CAP_SYS_ADMIN": 21,
    "CAP_MKNOD": 27,
}

# a user's PATH often lacks these, and `ip` and `nft` are in them
SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")


def search_path(environment: Mapping[str, str] = os.environ) -> str:
    """PATH for the lab's processes: the caller's, and then the system's folders."""
    return os.pathsep.join((environment.get("PATH", os.defpath), *SYSTEM_FOLDERS))


def check_rights(user_id: int | None = None, status: str | None = None) -> None:
    """Raises LabError unless this process is root with the capabilities that namespaces and mounts need."""
    if sys.platform != "linux":
        raise LabError(
            f"the lab runs on Linux, not on {sys.platform}; use a virtual machine, or PD_LAB_KUBECONFIG "
            "with the kubeconfig of a kind cluster"
        )
    if (os.geteuid() if user_id is None else user_id) != 0:
        raise LabError(
            "the full profile makes network and mount namespaces and so needs root: run it as root, "
            "or use PROFILE=control-plane, which does not"
        )
    lacking = missing_capabilities(Path("/proc/self/status").read_text() if status is None else status)
    if lacking:
        raise LabError(
            f"the full profile needs {', '.join(lacking)}, which this root does not have: leave the container, "
            "or start it with --privileged; or use PROFILE=control-plane"
        )


def missing_capabilities(status: str) -> list[str]:
    """Capabilities that are not effective according to a /proc/PID/status."""
    line = next(line for line in status.splitlines() if line.startswith("CapEff:"))
    effective = int(line.split()[1], 16)
    return [name for name, bit in CAPABILITIES.items() if not effective >> bit & 1]
