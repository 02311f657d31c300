"""What the cluster tests are written with: waiting with deadlines, and a namespace as the operator leaves it."""

from __future__ import annotations

import fcntl
import http.client
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

from e2e.kubectl import KubectlError
from e2e.operator_process import RequestCount
from e2e.rest import Object, Rest, RestError
from pd_operator.api import conditions, labels
from tests.cases import Body, changed

T = TypeVar("T")

#: The tests' own lab.
NAME: Final = os.environ.get("PD_TEST_LAB", "cluster-test")

#: Every kind that the operator writes; the API server lists these in the namespace when a test asks what is there.
CHILD_KINDS: Final = (
    "StatefulSet",
    "Deployment",
    "Service",
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "PodDisruptionBudget",
)
POLL_SECONDS: Final = 0.25

#: Conditions that say, when true, that something is not as it should be.
_ABNORMAL: Final = (conditions.RECONCILING, conditions.STALLED)

#: Kind and name of a child.
Key = tuple[str, str]


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Hold `lock` against other test sessions: two on one lab would take it away from each other."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with open(lock, "w", encoding="ascii") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pytest.fail(f"another test session uses the lab {lock.stem!r}: wait for it, or give this one a PD_TEST_LAB")
        yield


def eventually(what: str, look: Callable[[], T], *, within: float) -> T:
    """`look` until it returns without complaint, for at most `within` seconds, and give what it returned.

    A complaint is an AssertionError, an answer of the API server or kubectl that is an error, or a failed connection.

    Raises:
        AssertionError: The last complaint, with what was waited for.
    """
    deadline = time.monotonic() + within
    while True:
        try:
            return look()
        except (AssertionError, RestError, KubectlError, OSError, http.client.HTTPException, KeyError) as error:
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {within:.0f} s: {what}\n{type(error).__name__}: {error}") from error
        time.sleep(POLL_SECONDS)


def holds(what: str, look: Callable[[], None], *, during: float) -> None:
    """`look` again and again for `during` seconds: nothing it asserts may fail."""
    deadline = time.monotonic() + during
    while time.monotonic() < deadline:
        try:
            look()
        except AssertionError as error:
            raise AssertionError(f"did not last {during:.0f} s: {what}\n{error}") from error
        time.sleep(POLL_SECONDS)


def quiet(rest: Rest, *, within: float = 120) -> RequestCount:
    """Wait until the operator asks the API server nothing for two seconds, also about other tests' remains.

    Returns what it has asked so far.
    """
    last, since = RequestCount.now(rest), time.monotonic()

    def silent() -> RequestCount:
        nonlocal last, since
        now = RequestCount.now(rest)
        leaving = [item["metadata"]["name"] for item in rest.list("Namespace") if item["status"]["phase"] != "Active"]
        if now != last or leaving:
            last, since = now, time.monotonic()
        assert time.monotonic() - since > 2, f"still at work: {now}; going: {leaving}"
        return now

    return eventually("the operator is quiet", silent, within=within)


def service(name: str, namespace: str, changes: Mapping[str, Any] | None = None) -> Body:
    """A minimal service with `changes` (dotted path below `spec` → value).

    Fake pods have no engine that could say whether it is idle, so nothing is waited for when one drains.
    """
    body = changed({"prefill.drainTimeoutSeconds": 0, "decode.drainTimeoutSeconds": 0, **(changes or {})}, name)
    body["metadata"]["namespace"] = namespace
    return body


@dataclass(frozen=True, slots=True)
class World:
    """One namespace, and what a test asks about it."""

    rest: Rest
    namespace: str

    def apply(self, name: str, changes: Mapping[str, Any] | None = None) -> Object:
        """Apply a minimal service with `changes`, as its user."""
        return self.rest.apply(service(name, self.namespace, changes))

    def get(self, name: str) -> Object:
        """The service."""
        return self.rest.get(labels.KIND, name, self.namespace)

    def condition(self, name: str, kind: str) -> Object:
        """One condition of the service, for its present generation; complains when there is none yet."""
        found = self.get(name)
        present = {item["type"]: item for item in found.get("status", {}).get("conditions", [])}
        assert found.get("status", {}).get("observedGeneration") == found["metadata"]["generation"], "not observed yet"
        assert kind in present, f"no condition {kind} among {sorted(present)}"
        condition: Object = present[kind]
        return condition

    def wait_ready(self, name: str, *, within: float = 60) -> Object:
        """Wait until the service is Ready and nothing is under way."""

        def ready() -> Object:
            condition = self.condition(name, conditions.READY)
            assert condition["status"] == "True", condition["message"]
            found = self.get(name)
            busy = [c for c in found["status"]["conditions"] if c["type"] in _ABNORMAL and c["status"] != "False"]
            assert busy == []
            return found

        return eventually(f"service {name} Ready", ready, within=within)

    def wait_condition(self, name: str, kind: str, status: str, reason: str, *, within: float = 60) -> Object:
        """Wait until a condition has this status and reason."""

        def there() -> Object:
            condition = self.condition(name, kind)
            assert (condition["status"], condition["reason"]) == (status, reason), condition
            return condition

        return eventually(f"{kind} of {name} is {status} ({reason})", there, within=within)

    def children(self, name: str) -> dict[Key, Object]:
        """Every object that the operator made for the service."""
        selector = f"{labels.SERVICE}={name}"
        return {
            (kind, item["metadata"]["name"]): item
            for kind in CHILD_KINDS
            for item in self.rest.list(kind, self.namespace, selector)
        }

    def edit(self, name: str, spec: Mapping[str, Any]) -> Object:
        """Merge `spec` into the service's, as `kubectl patch` would."""
        return self.rest.patch(labels.KIND, name, self.namespace, {"spec": spec})

    def pods(self, name: str, role: str = "") -> list[Object]:
        """The service's pods that are not on their way out."""
        selector = f"{labels.SERVICE}={name}" + (f",{labels.ROLE}={role}" if role else "")
        found = self.rest.list("Pod", self.namespace, selector)
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def stateful_set(self, name: str, role: str) -> Object:
        """The one StatefulSet of a role."""
        found = self.rest.list("StatefulSet", self.namespace, f"{labels.SERVICE}={name},{labels.ROLE}={role}")
        assert len(found) == 1, [item["metadata"]["name"] for item in found]
        return found[0]

    def versions(self, name: str) -> dict[Key, str]:
        """Resource versions of the service and its children: equal before and after means that nobody wrote."""
        found = {key: item["metadata"]["resourceVersion"] for key, item in self.children(name).items()}
        return {**found, (labels.KIND, name): self.get(name)["metadata"]["resourceVersion"]}

    def settled_versions(self, name: str, *, within: float = 60) -> dict[Key, str]:
        """Resource versions once they have stayed the same for a second: Kubernetes' own controllers are through."""
        last: dict[Key, str] = {}
        since = time.monotonic()

        def settled() -> dict[Key, str]:
            nonlocal last, since
            now = self.versions(name)
            if now != last:
                last, since = now, time.monotonic()
            assert time.monotonic() - since > 1, f"still changing: {now}"
            return now

        return eventually(f"{name} settles", settled, within=within)
