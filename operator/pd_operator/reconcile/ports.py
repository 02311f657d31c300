"""What the loop needs from the outside world. `pd_operator.adapters` implements these; tests fake them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pd_operator.plan.actions import Announce
from pd_operator.reconcile.kinds import Kind
from pd_operator.scaling.window import MetricsFault, Window

#: Namespace and name of a PDInferenceService.
ServiceKey = tuple[str, str]

#: An object as the API server has it.
Raw = Mapping[str, Any]


class Timer(Protocol):
    """A pending call."""

    def cancel(self) -> None:
        """Forget it."""


class Clock(Protocol):
    """Time."""

    def now(self) -> float:
        """Seconds since the epoch."""

    def monotonic(self) -> float:
        """Seconds that never jump; for differences only."""

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Run `call` after some time."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list.

    Attributes:
        items: Its objects.
        version: Resource version of the whole list, the same on every page.
    """

    items: Sequence[Raw]
    version: int


class Cluster(Protocol):
    """The API server. Every call raises `ClusterError`."""

    async def apply(self, body: Raw, *, force: bool) -> Raw:
        """Server-side apply of a whole child; with `force`, fields that others set are taken over."""

    async def apply_status(self, namespace: str, name: str, status: Raw) -> Raw:
        """Server-side apply of a service's status."""

    async def get(self, kind: Kind, namespace: str, name: str) -> Raw:
        """One object."""

    async def delete(self, kind: Kind, namespace: str, name: str, uid: str | None) -> None:
        """Delete an object, only if it still has that uid; what it owns goes after it."""

    async def patch_metadata(
        self, kind: Kind, namespace: str, name: str, labels: Mapping[str, str | None], notes: Mapping[str, str | None]
    ) -> Raw:
        """Set labels and annotations; `None` removes one."""

    def pages(self, kind: Kind, namespace: str | None) -> AsyncIterator[Page]:
        """Every object of a kind that the operator watches, in one namespace or in all."""

    async def events_about(self, kind: Kind, namespace: str, name: str) -> Sequence[Raw]:
        """Events whose subject is this object."""


class Engines(Protocol):
    """The engines inside worker pods."""

    async def idle(self, addresses: Mapping[str, str]) -> Mapping[str, bool]:
        """Whether each pod (name to IP) has nothing running, queued or in transfer; unreachable pods are left out."""


class Recorder(Protocol):
    """Events about services, for people."""

    async def announce(self, service: Raw, announcement: Announce) -> None:
        """Post one; a failure is logged and never raised, since an event is only news."""


class Windows(Protocol):
    """The latest metrics of each service."""

    def window(self, key: ServiceKey) -> Window | None:
        """The latest poll for a service in SLO mode, or None before the first."""


class NoWindows:
    """`Windows` of an operator without Prometheus."""

    def window(self, key: ServiceKey) -> Window | None:  # noqa: ARG002 (the protocol's signature)
        """Says that, for every service."""
        return Window(
            fault=MetricsFault.NOT_CONFIGURED,
            message="the operator has no Prometheus address: set its prometheusUrl (PD_PROMETHEUS_URL)",
        )
