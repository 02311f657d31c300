"""The folder for what is built once and used by every clone: where it is, taking turns in it, filling it whole."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_SCRATCH = ".scratch-"


def root() -> Path:
    """The cache folder: $PD_CACHE_DIR, else pd-operator in the user's cache folder. It need not exist yet."""
    if chosen := os.environ.get("PD_CACHE_DIR"):
        return Path(chosen).expanduser().absolute()
    caches = os.environ.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else Path.home() / ".cache") / "pd-operator"


@contextmanager
def locked(directory: Path, when_busy: Callable[[], None]) -> Iterator[None]:
    """Holds `directory` for this process, so that two clones do not build the same thing twice.

    Calls `when_busy` once before waiting for another holder. The lock goes with its holder, however that ends.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / ".lock", "w", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            when_busy()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def scratch(directory: Path) -> Iterator[Path]:
    """A new folder inside `directory`, which the caller holds by `locked`; it is removed at the end.

    What is finished is moved out of it by a rename, so that nobody ever sees half of it. Folders that a killed
    process left behind go first.
    """
    for left in directory.glob(f"{_SCRATCH}*"):
        shutil.rmtree(left, ignore_errors=True)
    made = Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=directory))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def keep_newest(candidates: list[Path], count: int) -> list[Path]:
    """Removes all but the `count` most recently used of `candidates` (files or folders); returns the removed."""
    newest_first = sorted(candidates, key=lambda path: path.stat().st_mtime_ns, reverse=True)
    removed = newest_first[count:]
    for path in removed:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    return removed
