"""Finding and ending processes by their marks, with real but tiny processes."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.lab import processes
from e2e.lab.errors import LabError


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    processes.end_all(tmp_path)


def launch(directory: Path, component: str, *argv: str) -> None:
    processes.launch(argv, directory=directory, component=component, log=directory / "logs" / f"{component}.log")
    processes.wait_until(
        lambda: processes.main_process(processes.find(directory), component, argv[0]) is not None,
        what=component,
        timeout=10,
        alive=lambda: bool(processes.find(directory)),
        log=directory / "logs" / f"{component}.log",
    )


def test_a_launched_component_is_found_by_its_mark(directory: Path) -> None:
    launch(directory, "etcd", "sleep", "60")
    (found,) = processes.find(directory)
    assert (found.component, found.program) == ("etcd", "sleep")
    assert found.rss_bytes > 0


def test_processes_of_another_lab_or_of_nobody_are_left_alone(
    directory: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        launch(other, "etcd", "sleep", "60")
        launch(directory, "etcd", "sleep", "60")
        assert processes.end_all(directory) == 1
        assert processes.find(directory) == []
        assert len(processes.find(other)) == 1
        assert bystander.poll() is None
    finally:
        processes.end_all(other)
        bystander.kill()
        bystander.wait()


def test_ending_twice_is_fine(directory: Path) -> None:
    launch(directory, "etcd", "sleep", "60")
    processes.end_all(directory)
    assert processes.end_all(directory) == 0


def test_a_helper_is_not_taken_for_its_component(directory: Path) -> None:
    launch(directory, "kubelet", "sh", "-c", "sleep 60 & wait")
    running = processes.find(directory)
    main = processes.main_process(running, "kubelet", "sh")
    assert main is not None
    assert processes.main_process(running, "kubelet", "containerd") is None


def test_a_signal_meant_for_a_process_that_ended_reaches_no_other(directory: Path) -> None:
    launch(directory, "etcd", "sleep", "60")
    (found,) = processes.find(directory)
    processes.end_all(directory)
    processes.send(found, directory, signal.SIGKILL)
    assert processes.find(directory) == []


def test_a_component_that_dies_is_reported_with_the_end_of_its_log(directory: Path) -> None:
    log = directory / "logs" / "etcd.log"
    argv = (sys.executable, "-c", "print('disk is full')")
    processes.launch(argv, directory=directory, component="etcd", log=log)
    with pytest.raises(LabError, match=r"(?s)etcd ended by itself.*disk is full"):
        processes.wait_until(
            lambda: False, what="etcd", timeout=30, alive=lambda: bool(processes.find(directory)), log=log
        )


def test_a_program_that_does_not_exist_is_reported_at_once(directory: Path) -> None:
    with pytest.raises(LabError, match=r"(?s)etcd ended by itself.*/nowhere/etcd"):
        launch(directory, "etcd", "/nowhere/etcd")
