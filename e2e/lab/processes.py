"""Starting, finding and ending a lab's processes.

There are no pid files: every process of a lab carries the lab's folder and its component's name in its environment,
so the process table itself says what runs. Nothing can be stale, a reused pid is never mistaken for a component,
and a lab whose `up` was interrupted half-way is found as well as any other.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.lab.errors import LabError
from e2e.lab.host import search_path

LAB_VARIABLE = "PD_LAB_DIRECTORY"
COMPONENT_VARIABLE = "PD_LAB_COMPONENT"
POLL_SECONDS = 0.1
DEAD_AFTER_SECONDS = 0.5
"""How long a process that was just launched may be invisible: it replaces two helpers by then."""

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Process:
    """A process of a lab, as the host numbers it."""

    pid: int
    component: str
    program: str
    """First word of its command line."""
    started_ticks: int
    rss_bytes: int
    cpu_seconds: float


def launch(
    argv: Sequence[str],
    *,
    directory: Path,
    component: str,
    log: Path,
    enter: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> None:
    """Starts a component that outlives the caller. `enter` is a command prefix that enters namespaces."""
    log.parent.mkdir(parents=True, exist_ok=True)
    marks = {LAB_VARIABLE: str(directory), COMPONENT_VARIABLE: component}
    with open(log, "ab") as output:
        done = subprocess.run(
            # --fork lets the helper end at once and leaves the component to the namespace's init
            [*enter, "setsid", "--fork", *argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, "PATH": search_path(), **(environment or {}), **marks},
            check=False,
        )
    if done.returncode != 0:
        raise LabError(f"{component} could not be started (exit {done.returncode}){tail(log)}")


def find(directory: Path) -> list[Process]:
    """Every living process of the lab in `directory`, oldest first."""
    wanted = f"{LAB_VARIABLE}={directory}".encode()
    found = [_read(int(entry.name), wanted) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return sorted((process for process in found if process), key=lambda process: process.started_ticks)


def main_process(processes: Iterable[Process], component: str, program: str) -> Process | None:
    """The component itself, not a helper that it started: those have another program or started later."""
    own = (process for process in processes if process.component == component and process.program == program)
    return next(own, None)


def send(process: Process, directory: Path, number: signal.Signals) -> None:
    """Signals exactly this process: between finding and signalling, its pid may have passed to another."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        again = _read(process.pid, f"{LAB_VARIABLE}={directory}".encode())
        if again is not None and again.started_ticks == process.started_ticks:
            signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return
    finally:
        os.close(handle)


def end_all(directory: Path, timeout: float = 20.0) -> int:
    """Kills every process of the lab, waits until they are gone and returns how many there were.

    No notice is given: a lab's data survives the loss of its processes, and pods end with their namespace.
    """
    killed: set[int] = set()
    deadline = time.monotonic() + timeout
    while processes := find(directory):
        if time.monotonic() > deadline:
            names = ", ".join(f"{process.component} (pid {process.pid})" for process in processes)
            raise LabError(f"{names} did not end within {timeout:.0f} s of SIGKILL; run `down` again")
        for process in processes:
            send(process, directory, signal.SIGKILL)
            killed.add(process.pid)
        time.sleep(POLL_SECONDS)
    return len(killed)


def wait_until(
    ready: Callable[[], bool],
    *,
    what: str,
    timeout: float,
    alive: Callable[[], bool] | None = None,
    log: Path | None = None,
) -> None:
    """Polls until `ready`, or raises a LabError with the end of the log when the process dies or time runs out."""
    start = last_alive = time.monotonic()
    while not ready():
        now = time.monotonic()
        if alive is None or alive():
            last_alive = now
        elif now - last_alive > DEAD_AFTER_SECONDS:
            raise LabError(f"{what} ended by itself{tail(log)}")
        if now - start > timeout:
            raise LabError(f"{what} was not ready after {timeout:.0f} s{tail(log)}")
        time.sleep(POLL_SECONDS)


def tail(log: Path | None, lines: int = 12) -> str:
    """The end of a log as a continuation of an error message; empty when there is nothing to show."""
    if log is None or not log.exists():
        return ""
    text = log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]
    return f"; the end of {log}:\n  " + "\n  ".join(text) if text else f"; {log} is empty"


def _read(pid: int, wanted: bytes) -> Process | None:
    """The process if it belongs to the lab named by `wanted`, else None. Zombies have no environment."""
    folder = Path("/proc", str(pid))
    try:
        environment = (folder / "environ").read_bytes().split(b"\0")
        if wanted not in environment:
            return None
        program = (folder / "cmdline").read_bytes().split(b"\0")[0]
        # the fields after the program's name, which may hold spaces and brackets; see proc(5)
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
    except (OSError, ProcessLookupError):
        return None
    mark = f"{COMPONENT_VARIABLE}=".encode()
    component = next((line.removeprefix(mark) for line in environment if line.startswith(mark)), b"")
    user_ticks, system_ticks, started_ticks, rss_pages = (int(fields[index]) for index in (11, 12, 19, 21))
    return Process(
        pid=pid,
        component=component.decode(),
        program=program.decode(errors="replace"),
        started_ticks=started_ticks,
        rss_bytes=rss_pages * _PAGE_BYTES,
        cpu_seconds=(user_ticks + system_ticks) / _TICKS_PER_SECOND,
    )
