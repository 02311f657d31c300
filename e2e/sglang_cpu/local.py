"""A prefill worker, a decode worker and the router as processes of this machine: SGLang without Kubernetes.

It takes the flags from `examples/cpu-demo.yaml`, so that what is measured here is what the example runs. The
environments are those that the two Dockerfiles install, at any place:

    python -m e2e.sglang_cpu.local --engine ENGINE_FOLDER --router ROUTER_FOLDER --model MODEL_FOLDER
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

EXAMPLE: Final = Path(__file__).resolve().parents[2] / "examples" / "cpu-demo.yaml"
MODEL: Final = "tiny-llama"
HOST: Final = "127.0.0.1"
READY_WITHIN: Final = 300.0
STOPS_WITHIN: Final = 30.0


class LocalError(Exception):
    """A process ended, or was not ready in time; the message has the end of its log."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Where the programs are.

    Attributes:
        engine: Folder with SGLang's environment, and in it `stand-ins` and `shim`.
        router: Folder with the router's environment.
        model: Folder with the model.
    """

    engine: Path
    router: Path
    model: Path


@dataclass(frozen=True, slots=True)
class Process:
    """A running server."""

    name: str
    url: str
    metrics: str
    """Address of its metrics page."""
    running: subprocess.Popen[bytes]
    log: Path


def server_command(environment: Environment, example: Mapping[str, Any], port: int, *more: str) -> list[str]:
    """`sglang serve` as the operator would start it, on the loopback address."""
    command = [str(environment.engine / "bin" / "sglang"), "serve", "--model-path", str(environment.model)]
    command += ["--served-model-name", MODEL, "--host", HOST, "--port", str(port), "--enable-metrics"]
    return [*command, "--page-size", str(example["engine"]["pageSize"]), *example["engine"]["args"], *more]


def server_variables(environment: Environment, example: Mapping[str, Any]) -> dict[str, str]:
    """What the image sets, what the operator sets and what the example sets."""
    return {
        "PATH": f"{environment.engine / 'bin'}:/usr/bin:/bin",
        "LD_LIBRARY_PATH": str(environment.engine / "stand-ins"),
        "PYTHONPATH": str(environment.engine / "shim"),
        "PYTHONUNBUFFERED": "1",
        "SGLANG_EXTERNAL_MODEL_PACKAGE": "serving_models",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "SGLANG_HOST_IP": HOST,
        **{variable["name"]: variable["value"] for variable in example["engine"]["env"]},
    }


def role_arguments(example: Mapping[str, Any], role: str, bootstrap_port: int) -> list[str]:
    """The flags by which a server becomes one half of a pair."""
    arguments = ["--disaggregation-mode", role, "--disaggregation-transfer-backend", "mooncake_tcp"]
    return [*arguments, "--disaggregation-bootstrap-port", str(bootstrap_port), *example[role].get("args", ())]


@contextmanager
def pair(environment: Environment, *, first_port: int = 30000) -> Iterator[dict[str, Process]]:
    """Run prefill, decode and router; yields them by name once the router has both. Uses five ports in a row."""
    example = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))["spec"]
    prefill, decode, bootstrap, router, router_metrics = range(first_port, first_port + 5)
    with ExitStack() as stack:
        variables = server_variables(environment, example)
        found = {}
        for role, port in (("prefill", prefill), ("decode", decode)):
            command = server_command(environment, example, port, *role_arguments(example, role, bootstrap))
            found[role] = stack.enter_context(_process(role, command, variables, f"http://{HOST}:{port}"))
        command = [str(environment.router / "bin" / "python3"), "-m", "smg.launch_router", "--pd-disaggregation"]
        command += ["--host", HOST, "--port", str(router), "--health-check-interval-secs", "5"]
        command += ["--prometheus-host", HOST, "--prometheus-port", str(router_metrics)]
        command += ["--prefill", found["prefill"].url, str(bootstrap), "--decode", found["decode"].url]
        for process in found.values():
            _wait(process, "/ready")
        found["router"] = stack.enter_context(
            _process("router", command, {}, f"http://{HOST}:{router}", metrics=f"http://{HOST}:{router_metrics}")
        )
        _wait(found["router"], "/readiness")
        yield found


@contextmanager
def single(environment: Environment, *, port: int = 30010) -> Iterator[Process]:
    """Run one server without disaggregation: the answers of a pair must be its answers."""
    example = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))["spec"]
    command = server_command(environment, example, port)
    with _process("single", command, server_variables(environment, example), f"http://{HOST}:{port}") as process:
        _wait(process, "/ready")
        yield process


@contextmanager
def _process(
    name: str, command: Sequence[str], variables: Mapping[str, str], url: str, *, metrics: str = ""
) -> Iterator[Process]:
    """Run a server in a folder of its own, and stop it as a kubelet would: SIGTERM, then SIGKILL."""
    with tempfile.TemporaryDirectory(prefix=f"{name}-") as home:
        log = Path(home) / "log"
        with log.open("wb") as out:
            running = subprocess.Popen(
                command,
                env={"PATH": os.environ["PATH"], "HOME": home, **variables},
                cwd=home,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        try:
            yield Process(name, url, f"{metrics or url}/metrics", running, log)
        finally:
            running.terminate()
            try:
                running.wait(STOPS_WITHIN)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()


def _wait(process: Process, path: str) -> None:
    deadline = time.monotonic() + READY_WITHIN
    while not _answers(process.url + path):
        ended = process.running.poll()
        if ended is not None or time.monotonic() > deadline:
            state = "is not ready in time" if ended is None else f"ended with status {ended}"
            raise LocalError(f"{process.name} {state}:\n{process.log.read_text(errors='replace')[-3000:]}")
        time.sleep(0.2)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def environment_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the three folders."""
    parser.add_argument("--engine", type=Path, required=True, help="environment with SGLang, stand-ins and shim")
    parser.add_argument("--router", type=Path, required=True, help="environment with the router")
    parser.add_argument("--model", type=Path, required=True, help="folder of the model")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the pair until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m e2e.sglang_cpu.local", description=__doc__.splitlines()[0])
    environment_arguments(parser)
    options = parser.parse_args(arguments)
    try:
        with pair(Environment(options.engine, options.router, options.model)) as processes:
            for process in processes.values():
                print(f"{process.name}: {process.url}, metrics {process.metrics}", flush=True)
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            signal.pause()
    except KeyboardInterrupt:
        return 0
    except LocalError as error:
        print(f"local: {error}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
