"""One lab with real pods for all scenarios, and helpers that count what clients got."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from e2e.kubectl import Kubectl
from e2e.lab.lab import Lab, Size
from e2e.lab.progress import Progress
from e2e.lab.spec import Profile
from e2e.stack import Stack, bring_up

#: Engines that load while others serve, on two cores.
READY_WITHIN = 420.0


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """The lab of the scenarios, removed at the end unless PD_KEEP_LAB is set."""
    name = os.environ.get("PD_E2E_LAB", "e2e")
    try:
        yield bring_up(name, Size(Profile.FULL, nodes=1, gpu_nodes=0), Progress())
    finally:
        if not os.environ.get("PD_KEEP_LAB"):
            Lab.named(name).down(wipe=True)


@dataclass(frozen=True, slots=True)
class Client:
    """Requests to one service from inside the lab."""

    stack: Stack
    kubectl: Kubectl
    service: str

    @property
    def target(self) -> tuple[str, ...]:
        return "--url", f"http://{self.service}.{self.kubectl.namespace}.svc:8000", "--model", "tiny-llama"

    def ask(self, prompt: str, max_tokens: int) -> dict[str, Any]:
        """One streamed answer: `text`, `tokens`, `ttft_seconds`, `itl_seconds`."""
        command = self.stack.python("e2e.client", *self.target, "--json", "--max-tokens", str(max_tokens), prompt)
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def burst(self, requests: int, concurrency: int, max_tokens: int = 48) -> dict[str, Any]:
        """Send `requests` streams, `concurrency` at a time, and count."""
        done = subprocess.run(
            self.stack.python(
                *("e2e.load", *self.target, "--concurrency", str(concurrency)),
                *("--requests", str(requests), "--max-tokens", str(max_tokens)),
            ),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        counts: dict[str, Any] = json.loads(done.stdout)
        return counts

    @contextmanager
    def load(self, concurrency: int, max_tokens: int = 96) -> Iterator[dict[str, Any]]:
        """Streams in the background; the counts are there once the block has ended."""
        counts: dict[str, Any] = {}
        running = subprocess.Popen(
            self.stack.python(
                *("e2e.load", *self.target, "--concurrency", str(concurrency)),
                *("--seconds", "1200", "--max-tokens", str(max_tokens), "--until-eof"),
            ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            yield counts
        finally:
            out, _ = running.communicate(timeout=180)  # the end of its input; it finishes the streams that it has begun
        counts.update(json.loads(out))
