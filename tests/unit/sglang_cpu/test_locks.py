"""The images install exactly what is written down: every package pinned, every file by its hash."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = ("e2e/sglang_cpu", "router_image")


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_lock_has_the_pins_of_the_list_with_hashes(folder: str) -> None:
    wanted = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / folder / "requirements.in").read_text(), re.MULTILINE))
    lock = (ROOT / folder / "requirements.txt").read_text()
    blocks = re.findall(r"^([\w.-]+)==(\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", lock, re.MULTILINE)
    assert {name: version for name, version, _ in blocks} == {normal(name): pin for name, pin in wanted.items()}
    assert "http" not in re.sub(r"^[\w.-]+==", "", lock, flags=re.MULTILINE), "a lock names no server"


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_dockerfile_installs_by_hash_and_runs_as_nobody_special(folder: str) -> None:
    text = (ROOT / folder / "Dockerfile").read_text()
    assert "--require-hashes" in text
    assert "--no-deps" in text
    assert re.search(r"^ARG BASE=python:3\.\d+-slim$", text, re.MULTILINE)
    assert re.findall(r"^USER (\S+)$", text, re.MULTILINE) == ["65532:65532"]
