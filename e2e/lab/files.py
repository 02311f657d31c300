"""Writing files whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_public(path: Path, content: bytes) -> None:
    """Replaces `path` in one step; anyone may read it."""
    _write(path, content, 0o644)


def write_private(path: Path, content: bytes) -> None:
    """Replaces `path` in one step; only its owner may read it."""
    _write(path, content, 0o600)


def write_if_changed(path: Path, content: bytes) -> None:
    """Like `write_public`, but leaves an equal file alone: kube-proxy exits when its configuration file is touched."""
    if not path.exists() or path.read_bytes() != content:
        write_public(path, content)


def _write(path: Path, content: bytes, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), mode)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
