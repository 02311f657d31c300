"""The environment's bootstrap, without building one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools import venv


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PD_CACHE_DIR", str(tmp_path / "own"))
    assert venv.cache_dir() == tmp_path / "own"
    monkeypatch.delenv("PD_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert venv.cache_dir() == tmp_path / "xdg" / "pd-operator"


def test_another_lock_file_is_another_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = venv.location()
    changed = tmp_path / "dev.txt"
    changed.write_text(venv.LOCK.read_text() + "# one more line\n")
    monkeypatch.setattr(venv, "LOCK", changed)
    assert venv.location() != before


def test_it_needs_nothing_but_the_standard_library() -> None:
    bare = [sys.executable, "-I", "-S", "-c", f"import runpy; runpy.run_path({venv.__file__!r})"]
    assert subprocess.run(bare, check=False, capture_output=True, text=True).stderr == ""


def test_an_old_python_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(venv, "MINIMUM", (4, 0))
    with pytest.raises(SystemExit, match=r"Python 4\.0 or newer is needed.*make PYTHON="):
        venv.main()
