"""kubectl for scripts and tests: typed answers, and waiting with a deadline that says what was last seen."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml

Object = dict[str, Any]


class KubectlError(Exception):
    """kubectl ended with an error; the message is what it printed."""


class DeadlineError(AssertionError):
    """Something did not come true in time; the message says what was waited for and what was last seen."""


T = TypeVar("T")


def wait_until(what: str, look: Callable[[], T | None], *, within: float, every: float = 0.5) -> T:
    """Call `look` until it returns something true, for at most `within` seconds.

    Raises:
        DeadlineError: It did not; an error that `look` raised last is part of the message.
    """
    deadline = time.monotonic() + within
    seen: object = None
    while True:
        try:
            if found := look():
                return found
            seen = found
        except (KubectlError, AssertionError) as error:
            seen = error
        if time.monotonic() > deadline:
            raise DeadlineError(f"not within {within:.0f} s: {what}; last seen: {seen}")
        time.sleep(every)


@dataclass(frozen=True, slots=True)
class Kubectl:
    """One cluster and one namespace.

    Attributes:
        binary: The kubectl program.
        kubeconfig: Its configuration.
        namespace: Where objects without a namespace are looked for and created.
    """

    binary: Path
    kubeconfig: Path
    namespace: str = "default"

    def run(self, *arguments: str, stdin: str | None = None, within: float = 120) -> str:
        """Run kubectl and return what it printed.

        Raises:
            KubectlError: It failed.
        """
        command = [str(self.binary), "--namespace", self.namespace, *arguments]
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        done = subprocess.run(
            command, input=stdin, env=environment, capture_output=True, text=True, timeout=within, check=False
        )
        if done.returncode:
            raise KubectlError(done.stderr.strip() or done.stdout.strip())
        return done.stdout

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Apply objects as a user would, with client-side apply."""
        self.run("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))

    def get(self, kind: str, name: str) -> Object:
        """One object."""
        found: Object = json.loads(self.run("get", kind, name, "-o", "json"))
        return found

    def list(self, kind: str, selector: str = "") -> list[Object]:
        """Objects of a kind in the namespace."""
        wanted = ["--selector", selector] if selector else []
        found: list[Object] = json.loads(self.run("get", kind, "-o", "json", *wanted))["items"]
        return found

    def patch(self, kind: str, name: str, patch: Mapping[str, Any]) -> None:
        """Merge-patch an object."""
        self.run("patch", kind, name, "--type=merge", "-p", json.dumps(patch))

    def delete(self, kind: str, name: str, *options: str) -> None:
        """Delete an object and wait until it is gone; one that is gone already is fine."""
        self.run("delete", kind, name, "--ignore-not-found", *options)

    def condition(self, name: str, kind: str) -> Object:
        """One condition of a PDInferenceService; empty when it is not there yet."""
        conditions = self.get("pdinf", name).get("status", {}).get("conditions", [])
        return next((condition for condition in conditions if condition["type"] == kind), {})

    def wait_ready(self, name: str, *, within: float) -> Object:
        """Wait until a PDInferenceService is Ready for its present generation."""

        def ready() -> Object | None:
            service = self.get("pdinf", name)
            status = service.get("status", {})
            condition = next((c for c in status.get("conditions", []) if c["type"] == "Ready"), None)
            current = status.get("observedGeneration") == service["metadata"]["generation"]
            if condition is None or not current or condition["status"] != "True":
                raise AssertionError(condition["message"] if condition else "no condition yet")
            return service

        return wait_until(f"{name} Ready", ready, within=within)

    def in_namespace(self, namespace: str) -> Kubectl:
        """The same cluster, another namespace."""
        return Kubectl(self.binary, self.kubeconfig, namespace)


def names(objects: Iterable[Object]) -> list[str]:
    """The names of objects, sorted."""
    return sorted(item["metadata"]["name"] for item in objects)
