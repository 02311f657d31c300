#!/usr/bin/env python3
"""Create the project's Python environment from its lock file, once per machine, and link it as `.venv`.

Standard library only: this is the first thing that runs on a new machine. The environment is kept under the
user's cache folder, named after the lock file's content and the interpreter, so a second clone starts in
seconds and two clones never build the same one twice. The clone itself is not installed; targets put its
folders on PYTHONPATH.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements" / "dev.txt"
MINIMUM = (3, 11)


def cache_dir() -> Path:
    """The folder for everything that is built once per user: `PD_CACHE_DIR`, else below the XDG cache folder."""
    if explicit := os.environ.get("PD_CACHE_DIR"):
        return Path(explicit)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pd-operator"


def location() -> Path:
    """Where the environment for this lock file and this interpreter belongs."""
    digest = hashlib.sha256(LOCK.read_bytes() + sys.version.encode() + sys.executable.encode()).hexdigest()
    return cache_dir() / "venv" / digest[:16]


def build(target: Path) -> None:
    """Create `target` from the lock file; a half-built environment left by an interruption is replaced."""
    started = time.monotonic()
    print(f"== Python environment from {LOCK.relative_to(ROOT)} (about a minute, once per machine)", flush=True)
    shutil.rmtree(target, ignore_errors=True)
    made = subprocess.run([sys.executable, "-m", "venv", str(target)], check=False)
    if made.returncode:
        sys.exit(
            f"error: '{sys.executable} -m venv' failed. Its output is above; on Debian and Ubuntu the fix is usually:\n"
            f"    apt-get install python{sys.version_info.major}.{sys.version_info.minor}-venv"
        )
    pip = [str(target / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    installed = subprocess.run([*pip, "--require-hashes", "-r", str(LOCK)], check=False)
    if installed.returncode:
        sys.exit(
            "error: pip could not install the locked packages (see above). Check the package index and run make again."
        )
    (target / ".complete").touch()
    print(f"== Python environment ready after {time.monotonic() - started:.0f} s", flush=True)


def main() -> None:
    if sys.version_info < MINIMUM:
        wanted, found = ".".join(map(str, MINIMUM)), sys.version.split()[0]
        sys.exit(
            f"error: Python {wanted} or newer is needed, this is {found}. Point make at one: make PYTHON=python3.12 …"
        )
    target = location()
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(target.parent / f"{target.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (target / ".complete").exists():
            build(target)
    link = ROOT / ".venv"
    if not (link.is_symlink() and link.resolve() == target.resolve()):
        if link.is_symlink():
            link.unlink()
        elif link.exists():
            sys.exit(f"error: {link} exists and is not ours. Move it away, then run make again.")
        link.symlink_to(target)


if __name__ == "__main__":
    main()
