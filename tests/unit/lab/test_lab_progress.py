"""What a person sees while something long runs."""

from __future__ import annotations

import io
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.lab import progress as progress_module
from e2e.lab.errors import LabError
from e2e.lab.progress import Progress


class Clock:
    """Seconds that pass only when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def seen() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def progress(seen: io.StringIO, clock: Clock) -> Progress:
    return Progress(seen, clock)


def test_a_step_is_two_lines_with_the_time_since_the_start_and_its_own_seconds(
    progress: Progress, seen: io.StringIO, clock: Clock
) -> None:
    clock.now += 61
    with progress.step("Build etcd"):
        clock.now += 12.34
    assert seen.getvalue() == "[  1:01] Build etcd …\n[  1:13] Build etcd: done in 12.3 s\n"


def test_a_failed_step_shows_the_end_of_its_log_and_keeps_the_error(
    progress: Progress, seen: io.StringIO, tmp_path: Path
) -> None:
    log = tmp_path / "x.log"
    log.write_text("".join(f"line {number}\n" for number in range(100)))
    with pytest.raises(ZeroDivisionError), progress.step("Divide", log=log):
        raise ZeroDivisionError
    text = seen.getvalue()
    assert "Divide: FAILED after 0.0 s" in text
    assert "    | line 85\n" in text
    assert "line 84" not in text
    assert f"whole log: {log}" in text


def test_an_interrupt_is_not_called_a_failure(progress: Progress, seen: io.StringIO) -> None:
    with pytest.raises(KeyboardInterrupt), progress.step("Build etcd"):
        raise KeyboardInterrupt
    assert "Build etcd: interrupted after 0.0 s" in seen.getvalue()
    assert "FAILED" not in seen.getvalue()


def test_a_command_runs_where_it_should_with_its_output_in_the_log(progress: Progress, tmp_path: Path) -> None:
    log = tmp_path / "logs" / "x.log"
    progress.run(
        "Say", ["sh", "-c", 'echo "$PWD $WORD"; echo no >&2'], log=log, fix="", cwd=tmp_path, env={"WORD": "x"}
    )
    assert log.read_text() == f"{tmp_path} x\nno\n"


def test_a_failed_command_says_its_status_and_the_fix(progress: Progress, seen: io.StringIO, tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"^Say: sh ended with status 3; look at it$"):
        progress.run("Say", ["sh", "-c", "echo because; exit 3"], log=tmp_path / "x.log", fix="look at it")
    assert "    | because\n" in seen.getvalue()


def test_a_missing_program_is_named(progress: Progress, tmp_path: Path) -> None:
    with pytest.raises(LabError, match="no-such-program was not found; install it"):
        progress.run("Say", ["no-such-program"], log=tmp_path / "x.log", fix="install it")


def interrupt() -> None:
    raise KeyboardInterrupt


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize(("end", "error"), [(interrupt, KeyboardInterrupt), (terminate, SystemExit)])
def test_an_interrupt_ends_the_command_and_what_it_started(
    progress: Progress,
    seen: io.StringIO,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    end: Callable[[], None],
    error: type[BaseException],
) -> None:
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    groups: list[int] = []

    def wait(_: Progress, process: subprocess.Popen[bytes], *__: object) -> int:
        ready.read_bytes()  # returns once the grandchild has opened and closed it
        groups.append(process.pid)
        end()
        raise AssertionError("was not interrupted")

    monkeypatch.setattr(Progress, "_wait", wait)
    before = signal.getsignal(signal.SIGTERM)
    # The leader waits for a child that ignores the polite signal.
    script = f"(trap '' TERM; : > {ready}; exec sleep 600) & wait"
    with pytest.raises(error):
        progress.run("Hang", ["sh", "-c", script], log=tmp_path / "x.log", fix="")
    # An ended group may still hold a zombie that init has not collected, but nothing that runs.
    assert not [line for line in _running_in(groups[0]) if not line.startswith("Z")]
    assert "Hang: interrupted after" in seen.getvalue()
    assert signal.getsignal(signal.SIGTERM) == before


def _running_in(group: int) -> list[str]:
    listed = subprocess.run(["ps", "-eo", "pgid=,stat="], capture_output=True, text=True, check=True)
    rows = (line.split() for line in listed.stdout.splitlines())
    return [state for identity, state in rows if int(identity) == group]


def test_a_long_command_says_that_it_goes_on_with_its_last_words(
    progress: Progress, seen: io.StringIO, clock: Clock, tmp_path: Path
) -> None:
    log = tmp_path / "x.log"
    log.write_text("first\ncompiling scheduler\n")

    class Slow:
        waits: Iterator[bool] = iter([False, False, True])

        def wait(self, timeout: float) -> int:
            clock.now += timeout
            if not next(self.waits):
                raise subprocess.TimeoutExpired("slow", timeout)
            return 0

    assert progress._wait(Slow(), "Build", log) == 0  # type: ignore[arg-type]
    every = progress_module.HEARTBEAT_S
    assert seen.getvalue().splitlines() == [
        f"[  0:30] Build: {every:.0f} s so far (compiling scheduler)",
        f"[  1:00] Build: {2 * every:.0f} s so far (compiling scheduler)",
    ]
