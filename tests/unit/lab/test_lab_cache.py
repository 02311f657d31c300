"""The folder for what is built once."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from e2e.lab import cache


def test_the_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("PD_CACHE_DIR", raising=False)
    assert cache.root() == tmp_path / ".cache" / "pd-operator"
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert cache.root() == Path("/caches/pd-operator")
    monkeypatch.setenv("PD_CACHE_DIR", "~/own")
    assert cache.root() == tmp_path / "own"


def test_a_second_holder_is_told_to_wait_and_then_gets_its_turn(tmp_path: Path) -> None:
    told = threading.Event()
    order: list[str] = []

    def second() -> None:
        with cache.locked(tmp_path, told.set):
            order.append("second")

    thread = threading.Thread(target=second)
    with cache.locked(tmp_path, lambda: order.append("never busy for the first")):
        thread.start()
        assert told.wait(10)
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]


def test_a_scratch_folder_goes_with_its_user_and_takes_the_leftovers_of_killed_ones(tmp_path: Path) -> None:
    left = tmp_path / ".scratch-dead"
    left.mkdir()
    (left / "half").touch()
    with cache.scratch(tmp_path) as scratch:
        assert list(tmp_path.iterdir()) == [scratch]
    assert list(tmp_path.iterdir()) == []


def test_only_the_most_recently_used_are_kept(tmp_path: Path) -> None:
    folders = [tmp_path / str(age) for age in range(4)]
    for age, folder in enumerate(folders):
        folder.mkdir()
        (folder / "program").touch()
        os.utime(folder, (1000 - age, 1000 - age))
    assert cache.keep_newest(folders, 2) == folders[2:]
    assert sorted(tmp_path.iterdir()) == folders[:2]
