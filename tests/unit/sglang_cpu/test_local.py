"""The command and the environment of a server, and what a process that cannot start says."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from e2e.sglang_cpu import local
from e2e.sglang_cpu.local import Environment, LocalError, role_arguments, server_command, server_variables

ENVIRONMENT = Environment(Path("/engine"), Path("/router"), Path("/models/tiny-llama"))
EXAMPLE: dict[str, Any] = {
    "engine": {"pageSize": 16, "args": ["--device=cpu"], "env": [{"name": "OMP_NUM_THREADS", "value": "1"}]},
    "prefill": {},
    "decode": {"args": ["--disaggregation-decode-retraction-backup=cpu_tensor"]},
}


def test_a_server_has_the_flags_of_the_example() -> None:
    command = server_command(ENVIRONMENT, EXAMPLE, 30000, "--more")
    assert command[:4] == ["/engine/bin/sglang", "serve", "--model-path", "/models/tiny-llama"]
    assert command[-4:] == ["--page-size", "16", "--device=cpu", "--more"]


def test_a_server_has_the_environment_of_image_and_example() -> None:
    variables = server_variables(ENVIRONMENT, EXAMPLE)
    assert variables["OMP_NUM_THREADS"] == "1"
    assert variables["PYTHONPATH"] == "/engine/shim"
    image = (Path(local.__file__).parent / "Dockerfile").read_text()
    missing = [
        name for name in variables if name.startswith(("SGLANG_EX", "HF_", "TRANS", "LD_")) and name not in image
    ]
    assert not missing


@pytest.mark.parametrize(("role", "last"), [("prefill", "8998"), ("decode", EXAMPLE["decode"]["args"][0])])
def test_a_role_has_its_own_flags(role: str, last: str) -> None:
    arguments = role_arguments(EXAMPLE, role, 8998)
    assert arguments[:2] == ["--disaggregation-mode", role]
    assert arguments[-1] == last


def test_a_process_that_ends_shows_the_end_of_its_log() -> None:
    command = [sys.executable, "-c", "import sys; print('no such model'); sys.exit(3)"]
    with local._process("prefill", command, {}, "http://127.0.0.1:9") as process:
        process.running.wait(30)
        with pytest.raises(LocalError, match=r"prefill ended with status 3:\nno such model"):
            local._wait(process, "/ready")


def test_a_process_is_stopped_with_its_block() -> None:
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    with local._process("idle", command, {}, "http://127.0.0.1:9") as process:
        assert process.running.poll() is None
    assert process.running.returncode is not None
    assert not process.log.exists()
