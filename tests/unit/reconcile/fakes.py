"""A clock that moves when told, and an API server in memory with the semantics that the loop relies on."""

from __future__ import annotations

import asyncio
import copy
import heapq
import itertools
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pd_operator.api import labels
from pd_operator.plan.actions import Announce
from pd_operator.reconcile.errors import AbsentError, ClusterError, ConflictError
from pd_operator.reconcile.kinds import BY_NAME, SERVICE_KIND, Kind
from pd_operator.reconcile.ports import Page, Raw

UID = "11111111-2222-3333-4444-555555555555"


@dataclass(slots=True)
class FakeTimer:
    due: float
    call: Callable[[], None]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeClock:
    """Time stands still until `advance`."""

    def __init__(self, start: float = 1_800_000_000.0) -> None:
        self._start = start
        self.elapsed = 0.0
        self._order = itertools.count()
        self._timers: list[tuple[float, int, FakeTimer]] = []
        self.slept: list[float] = []

    def now(self) -> float:
        return self._start + self.elapsed

    def monotonic(self) -> float:
        return self.elapsed

    def call_later(self, seconds: float, call: Callable[[], None]) -> FakeTimer:
        timer = FakeTimer(self.elapsed + seconds, call)
        heapq.heappush(self._timers, (timer.due, next(self._order), timer))
        return timer

    async def sleep(self, seconds: float) -> None:
        """Passes at once, and is written down."""
        self.slept.append(seconds)
        await asyncio.sleep(0)

    def advance(self, seconds: float) -> None:
        end = self.elapsed + seconds
        while self._timers and self._timers[0][0] <= end:
            due, _, timer = heapq.heappop(self._timers)
            self.elapsed = due
            if not timer.cancelled:
                timer.call()
        self.elapsed = end


def service(name: str = "demo", **spec: Any) -> dict[str, Any]:
    """A PDInferenceService as a user writes it."""
    return {
        "apiVersion": labels.API_VERSION,
        "kind": labels.KIND,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"model": {"name": "org/tiny"}, **spec},
    }


Fault = Callable[[str, str, str], ClusterError | None]


@dataclass(slots=True)
class FakeCluster:
    """Objects with uids, resource versions and the last applied content.

    Attributes:
        fault: Called with verb, kind and name before each request; an error that it returns is raised.
        calls: Verb, kind and name of each request that was carried out.
        events: What `events_about` returns.
        foreign: Kind and name of objects that another manager owns.
    """

    fault: Fault = lambda _verb, _kind, _name: None
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    events: list[Raw] = field(default_factory=list)
    foreign: set[tuple[str, str]] = field(default_factory=set)
    objects: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    version: int = 100

    @property
    def writes(self) -> list[tuple[str, str, str]]:
        return [call for call in self.calls if call[0] not in ("get", "list")]

    def create(self, body: Raw) -> dict[str, Any]:
        """What a user or a controller does: not counted as a call."""
        stored = copy.deepcopy(dict(body))
        stored["metadata"].setdefault("uid", UID if body["kind"] == labels.KIND else f"uid-{self.version}")
        stored["metadata"].setdefault("generation", 1)
        self.objects[body["kind"], body["metadata"]["name"]] = stored
        return self._changed(stored)

    def edit(self, kind: str, name: str, change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        """What a user or a controller does to an object."""
        stored = self.objects[kind, name]
        change(stored)
        return self._changed(stored)

    def _changed(self, stored: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        stored["metadata"]["resourceVersion"] = str(self.version)
        return copy.deepcopy(stored)

    def _request(self, verb: str, kind: str, name: str) -> None:
        error = self.fault(verb, kind, name)
        if error is not None:
            raise error
        self.calls.append((verb, kind, name))

    async def apply(self, body: Raw, *, force: bool) -> Raw:
        key = (body["kind"], body["metadata"]["name"])
        await asyncio.sleep(0)
        if key in self.foreign and not force:
            raise ConflictError(f"Apply failed with 1 conflict: {key}")
        self._request("apply", *key)
        known = self.objects.get(key)
        if known is None:
            return self.create(body)
        merged = _merge(known, body)
        if merged == known:
            return copy.deepcopy(known)
        self.objects[key] = merged
        return self._changed(merged)

    async def apply_status(self, namespace: str, name: str, status: Raw) -> Raw:
        await asyncio.sleep(0)
        self._request("status", labels.KIND, name)
        stored = self.objects.get((labels.KIND, name))
        if stored is None:
            raise AbsentError(f"{name} not found")
        stored["status"] = copy.deepcopy(dict(status))
        return self._changed(stored)

    async def get(self, kind: Kind, namespace: str, name: str) -> Raw:
        self._request("get", kind.name, name)
        if (kind.name, name) not in self.objects:
            raise AbsentError(f"{name} not found")
        return copy.deepcopy(self.objects[kind.name, name])

    async def delete(self, kind: Kind, namespace: str, name: str, uid: str | None) -> None:
        self._request("delete", kind.name, name)
        stored = self.objects.get((kind.name, name))
        if stored is None:
            raise AbsentError(f"{name} not found")
        if uid is not None and stored["metadata"]["uid"] != uid:
            raise ConflictError("uid precondition failed")
        del self.objects[kind.name, name]
        self.version += 1

    async def patch_metadata(
        self, kind: Kind, namespace: str, name: str, labels: Mapping[str, str | None], notes: Mapping[str, str | None]
    ) -> Raw:
        self._request("patch", kind.name, name)
        stored = self.objects.get((kind.name, name))
        if stored is None:
            raise AbsentError(f"{name} not found")
        for part, values in (("labels", labels), ("annotations", notes)):
            present = {**stored["metadata"].get(part, {}), **values}
            stored["metadata"][part] = {k: v for k, v in present.items() if v is not None}
        return self._changed(stored)

    async def pages(self, kind: Kind, namespace: str | None) -> AsyncIterator[Page]:
        self._request("list", kind.name, namespace or "")
        items = [copy.deepcopy(body) for (name, _), body in self.objects.items() if name == kind.name]
        half = len(items) // 2
        for part in (items[:half], items[half:]):
            yield Page(part, self.version)

    async def events_about(self, kind: Kind, namespace: str, name: str) -> Sequence[Raw]:
        self._request("list", "Event", name)
        return self.events


def _merge(live: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    merged = copy.deepcopy(dict(live))
    for key, value in wanted.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merge(merged[key], value) if both else copy.deepcopy(value)
    return merged


@dataclass(slots=True)
class FakeEngines:
    """Answers by pod name; pods that are not named do not answer."""

    answers: dict[str, bool] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def idle(self, addresses: Mapping[str, str]) -> Mapping[str, bool]:
        self.asked += sorted(addresses)
        return {name: answer for name, answer in self.answers.items() if name in addresses}


@dataclass(slots=True)
class FakeRecorder:
    """Remembers what was announced."""

    announced: list[Announce] = field(default_factory=list)

    async def announce(self, service: Raw, announcement: Announce) -> None:
        self.announced.append(announcement)


def kind_of(body: Raw) -> Kind:
    return BY_NAME[body["kind"]]


def key_of(body: Raw) -> tuple[str, str]:
    return body["metadata"]["namespace"], body["metadata"]["name"]


__all__ = [
    "SERVICE_KIND",
    "UID",
    "FakeClock",
    "FakeCluster",
    "FakeEngines",
    "FakeRecorder",
    "key_of",
    "kind_of",
    "service",
]
