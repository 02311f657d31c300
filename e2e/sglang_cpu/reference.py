"""One server without disaggregation, from the same image and with the same flags: what a pair must agree with."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from e2e.kubectl import Kubectl, Object, wait_until
from e2e.stack import ENGINE, Stack

NAME: Final = "reference"
PORT: Final = 30000
READY_WITHIN: Final = 300.0


@dataclass(frozen=True, slots=True)
class Reference:
    """A running reference server."""

    stack: Stack
    address: str

    def ask(self, prompt: str, max_tokens: int) -> dict[str, Any]:
        """One streamed greedy answer, as `e2e.client --json` prints it."""
        done = subprocess.run(
            self.stack.python(
                *("e2e.client", "--json", "--url", f"http://{self.address}:{PORT}"),
                *("--model", "tiny-llama", "--max-tokens", str(max_tokens), prompt),
            ),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode:
            raise AssertionError(f"the reference server did not answer: {done.stderr}")
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer


def manifest(stack: Stack) -> Object:
    """The pod, built from the example's engine so that nothing but disaggregation differs."""
    service = stack.service(NAME)["spec"]
    engine, worker = service["engine"], service["prefill"]
    command = ["sglang", "serve", "--model-path", service["model"]["name"], "--served-model-name", "tiny-llama"]
    command += ["--host", "0.0.0.0", "--port", str(PORT), "--page-size", str(engine["pageSize"]), *engine["args"]]
    writable = {"scratch": "/scratch", "tmp": "/tmp"}
    container = {
        "name": "engine",
        "image": stack.images[ENGINE],
        "imagePullPolicy": "Never",
        "command": command,
        "env": [*engine["env"], {"name": "HOME", "value": "/scratch"}],
        "resources": worker["resources"],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": PORT}, "periodSeconds": 2},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            **worker["pod"]["containerSecurityContext"],
        },
        "volumeMounts": [{"name": name, "mountPath": path} for name, path in writable.items()],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": NAME},
        "spec": {
            "securityContext": {**worker["pod"]["securityContext"], "seccompProfile": {"type": "RuntimeDefault"}},
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 30,
            "shareProcessNamespace": True,
            "containers": [container],
            "volumes": [{"name": name, "emptyDir": {}} for name in writable],
        },
    }


@contextmanager
def reference(stack: Stack, kubectl: Kubectl) -> Iterator[Reference]:
    """Run the reference server for as long as the block lasts."""

    def ready() -> str | None:
        status = kubectl.get("pod", NAME)["status"]
        conditions = {condition["type"]: condition["status"] for condition in status.get("conditions", [])}
        return str(status["podIP"]) if conditions.get("Ready") == "True" else None

    kubectl.apply(manifest(stack))
    try:
        yield Reference(stack, wait_until("the reference server is Ready", ready, within=READY_WITHIN))
    finally:
        kubectl.delete("pod", NAME, "--now")
