"""One cgroup per real node, below which its kubelet puts all pods. Works on cgroup v1, v2 and both at once."""

from __future__ import annotations

import os
import time
from pathlib import Path

from e2e.lab.errors import LabError
from e2e.lab.spec import LabSpec, cgroup_name, cgroup_prefix

ROOT = Path("/sys/fs/cgroup")
REMOVE_TIMEOUT_SECONDS = 10.0


def hierarchies(root: Path = ROOT) -> list[Path]:
    """The roots of all mounted hierarchies: one on v2, one per controller on v1."""
    if (root / "cgroup.controllers").exists():
        return [root]
    if not root.is_dir():
        return []
    return sorted(folder for folder in root.iterdir() if folder.is_dir() and not folder.is_symlink())


def create(spec: LabSpec, root: Path = ROOT) -> None:
    """Makes the nodes' cgroups. A kubelet refuses a `cgroupRoot` that does not exist in every hierarchy."""
    for hierarchy in hierarchies(root):
        for node in spec.node_indexes:
            folder = hierarchy / cgroup_name(spec, node)
            try:
                folder.mkdir(exist_ok=True)
                _prepare(hierarchy, folder)
            except OSError as error:
                raise LabError(
                    f"cgroup {folder} cannot be made ({error}); the full profile needs writable cgroups"
                ) from error


def remove(directory: Path, root: Path = ROOT) -> None:
    """Removes the cgroups of the lab in `directory` and all below, if it has any.

    Those of processes that were killed just now empty within moments.
    """
    pattern = f"{cgroup_prefix(directory)}-*"
    deadline = time.monotonic() + REMOVE_TIMEOUT_SECONDS
    while left := [folder for hierarchy in hierarchies(root) for folder in hierarchy.glob(pattern)]:
        for folder in left:
            _remove_tree(folder)
        if time.monotonic() > deadline:
            raise LabError(f"cgroup {left[0]} is still in use after {REMOVE_TIMEOUT_SECONDS:.0f} s; run `down` again")
        time.sleep(0.02)


def _prepare(hierarchy: Path, folder: Path) -> None:
    if (hierarchy / "cgroup.controllers").exists():
        controllers = (hierarchy / "cgroup.controllers").read_text().split()
        for parent in (hierarchy, folder):
            (parent / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in controllers))
    elif (hierarchy / "cpuset.cpus").exists():
        # a v1 cpuset starts empty, and no process can enter an empty one
        for name in ("cpuset.cpus", "cpuset.mems"):
            (folder / name).write_text((hierarchy / name).read_text())


def _remove_tree(folder: Path) -> None:
    for path, _, _ in os.walk(folder, topdown=False):
        try:
            Path(path).rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            return  # still in use: the caller comes back
