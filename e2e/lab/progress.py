"""What a person sees while something long runs: one line when a step starts, one when it ends, and why it failed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from e2e.lab.errors import LabError

HEARTBEAT_S = 30.0
"""A step that runs longer says so this often, so that a log does not look stuck."""

TAIL_LINES = 15
STOP_S = 5.0
"""How long an interrupted command may take to end by itself."""


class Progress:
    """Prints steps with the time since its creation. Safe to use from several threads: it prints whole lines."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream or sys.stderr
        self._clock = clock
        self._started = clock()

    def say(self, text: str) -> None:
        minutes, seconds = divmod(int(self._clock() - self._started), 60)
        self._stream.write(f"[{minutes:3d}:{seconds:02d}] {text}\n")
        self._stream.flush()

    @contextmanager
    def step(self, title: str, *, log: Path | None = None) -> Iterator[None]:
        """Announces `title` and how it ended. When it failed, shows the end of `log` too."""
        started = self._clock()
        self.say(f"{title} …")
        try:
            yield
        except (KeyboardInterrupt, SystemExit):
            self.say(f"{title}: interrupted after {self._clock() - started:.1f} s")
            raise
        except BaseException:
            self.say(f"{title}: FAILED after {self._clock() - started:.1f} s")
            if log is not None and log.exists():
                self._stream.write("".join(f"    | {line}\n" for line in tail(log)))
                self._stream.write(f"    whole log: {log}\n")
                self._stream.flush()
            raise
        self.say(f"{title}: done in {self._clock() - started:.1f} s")

    def run(
        self,
        title: str,
        command: Sequence[str | Path],
        *,
        log: Path,
        fix: str,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Runs `command` as a step, with its output in `log` and `env` added to the environment.

        Raises LabError with `fix`, what the reader can do, when the command is missing or fails. An interrupt ends
        the command and everything that it started.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        with self.step(title, log=log), _terminated_as_exit(), open(log, "wb") as output:
            try:
                process = subprocess.Popen(
                    command,
                    cwd=cwd,
                    env={**os.environ, **(env or {})},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    process_group=0,
                )
            except FileNotFoundError as error:
                raise LabError(f"{title}: {error.filename} was not found; {fix}") from error
            try:
                status = self._wait(process, title, log)
            except BaseException:
                _stop(process)
                raise
            if status:
                raise LabError(f"{title}: {Path(command[0]).name} ended with status {status}; {fix}")

    def _wait(self, process: subprocess.Popen[bytes], title: str, log: Path) -> int:
        started = self._clock()
        while True:
            try:
                return process.wait(HEARTBEAT_S)
            except subprocess.TimeoutExpired:
                last = "".join(tail(log, 1)).strip()[-80:]
                self.say(f"{title}: {self._clock() - started:.0f} s so far{f' ({last})' if last else ''}")


def tail(log: Path, lines: int = TAIL_LINES) -> list[str]:
    """The last lines of a log, without their ends; bytes that are no text are shown as �."""
    with open(log, encoding="utf-8", errors="replace") as file:
        return [line.rstrip() for line in deque(file, lines)]


@contextmanager
def _terminated_as_exit() -> Iterator[None]:
    """Lets SIGTERM unwind like an interrupt: by default Python would just end, and its command would go on alone."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers, and only it gets signals
        return
    previous = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ends a command politely, then whatever is left of its process group."""
    os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
