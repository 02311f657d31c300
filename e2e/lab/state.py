"""What a lab remembers between commands: one small file, and a lock so that commands on one lab take turns."""

from __future__ import annotations

import fcntl
import json
import random
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from e2e.lab.errors import LabError
from e2e.lab.files import write_public
from e2e.lab.spec import LabSpec, Ports, Profile

STATE_FILE = "lab.json"
LOCK_FILE = ".lock"

# Below Linux's range for outgoing connections, so that none of those takes a port between two runs of a lab.
FIRST_PORT = 20000
LAST_PORT = 32000


@dataclass(frozen=True, slots=True)
class State:
    """A lab that was brought up, or whose bringing up began."""

    spec: LabSpec
    programs: Mapping[str, Path]
    """Paths of the programs that the lab's components are started from."""
    complete: bool
    """False while `up` is at work: if it was interrupted, the next one starts the processes afresh."""


def load(directory: Path) -> State | None:
    """The remembered state; None when there is none. Raises LabError for a file that is not one of ours."""
    path = directory / STATE_FILE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        spec = LabSpec(
            directory=directory,
            profile=Profile(content["profile"]),
            nodes=content["nodes"],
            gpu_nodes=content["gpu_nodes"],
            ports=Ports(**content["ports"]),
        )
        programs = {name: Path(program) for name, program in content["programs"].items()}
        return State(spec, programs, content["complete"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LabError(f"{path} cannot be read ({error}); remove it with `down --wipe`") from error


def save(state: State) -> None:
    spec = state.spec
    content = {
        "profile": spec.profile,
        "nodes": spec.nodes,
        "gpu_nodes": spec.gpu_nodes,
        "ports": asdict(spec.ports),
        "programs": {name: str(program) for name, program in state.programs.items()},
        "complete": state.complete,
    }
    write_public(spec.directory / STATE_FILE, json.dumps(content, indent=2).encode())


def forget(directory: Path) -> None:
    (directory / STATE_FILE).unlink(missing_ok=True)


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Only one command at a time changes a lab. The lock goes with its holder, however that ends."""
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / LOCK_FILE, "w", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LabError(
                f"another command is changing the lab {directory.name!r} at this moment; wait for it to end"
            ) from None
        yield


def choose_ports(spec: LabSpec) -> Ports:
    """Free loopback ports for what the profile opens on the host: the remembered ones where they are still free."""
    names = [field.name for field in fields(Ports)] if not spec.full else ["apiserver", "prometheus"]
    defaults = Ports()
    chosen: dict[str, int] = {}
    for name in names:
        remembered: int = getattr(spec.ports, name)
        keep = remembered != getattr(defaults, name) and is_free(remembered)
        chosen[name] = remembered if keep else _free_port(set(chosen.values()))
    return Ports(**(asdict(defaults) | chosen))


def is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # connections of an earlier run that linger in TIME_WAIT do not keep a server from binding
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _free_port(taken: set[int]) -> int:
    for _ in range(1000):
        port = random.randint(FIRST_PORT, LAST_PORT)
        if port not in taken and is_free(port):
            return port
    raise LabError(f"no free loopback port between {FIRST_PORT} and {LAST_PORT}")
