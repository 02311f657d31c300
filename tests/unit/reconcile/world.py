"""An operator around a fake API server, run step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry

from pd_operator.plan.plan import plan
from pd_operator.reconcile.instruments import Instruments
from pd_operator.reconcile.loop import Planner, Reconciler
from pd_operator.reconcile.ports import NoWindows, Raw, ServiceKey
from pd_operator.reconcile.queue import WorkQueue
from pd_operator.reconcile.store import Store
from pd_operator.reconcile.sync import Intake, Sync
from tests.unit.reconcile.fakes import FakeClock, FakeCluster, FakeEngines, FakeRecorder, kind_of

KEY: ServiceKey = ("default", "demo")


class World:
    """One operator process and its cluster; `restarted` gives the next process on the same cluster."""

    def __init__(self, planner: Planner = plan, cluster: FakeCluster | None = None) -> None:
        self.clock = FakeClock()
        self.cluster = cluster or FakeCluster()
        self.registry = CollectorRegistry()
        self.meters = Instruments(self.registry)
        self.store = Store()
        self.queue = WorkQueue(self.clock)
        self.engines = FakeEngines()
        self.recorder = FakeRecorder()
        self.intake = Intake(self.store, self.queue, self.clock, self.meters)
        self.sync = Sync(self.cluster, self.store, self.queue, self.clock, self.meters, (None,))
        self.reconciler = Reconciler(
            planner,
            cluster=self.cluster,
            engines=self.engines,
            recorder=self.recorder,
            windows=NoWindows(),
            clock=self.clock,
            store=self.store,
            queue=self.queue,
            meters=self.meters,
        )

    async def start(self, *bodies: Raw) -> World:
        """Create objects, and begin as a new process does."""
        for body in bodies:
            self.cluster.create(body)
        await self.sync.first()
        self.cluster.calls.clear()
        return self

    def restarted(self, planner: Planner = plan) -> World:
        return World(planner, self.cluster)

    def user_creates(self, body: Raw) -> None:
        """Somebody creates an object, and the operator sees it."""
        self.cluster.create(body)
        created = self.cluster.objects[body["kind"], body["metadata"]["name"]]
        self.intake.saw(kind_of(created), created, deleted=False)

    def user_edits(self, kind: str, name: str, change: Callable[[dict[str, Any]], None], *, seen: bool = True) -> None:
        """Somebody changes an object; unless the event is lost, the operator sees it."""
        body = self.cluster.edit(kind, name, change)
        if seen:
            self.intake.saw(kind_of(body), body, deleted=False)

    def user_deletes(self, kind: str, name: str, *, seen: bool = True) -> None:
        body = self.cluster.objects.pop((kind, name))
        self.cluster.version += 1
        if seen:
            self.intake.saw(kind_of(body), body, deleted=True)

    async def settle(self, seconds: float = 0.0) -> None:
        """Run everything that is due, for some time."""
        end = self.clock.elapsed + seconds
        while True:
            while self.queue.depth:
                key = await self.queue.get()
                try:
                    await self.reconciler.run(key)
                finally:
                    self.queue.done(key)
            if self.clock.elapsed >= end:
                return
            self.clock.advance(min(0.1, end - self.clock.elapsed))

    def results(self, result: str) -> float:
        """How many runs ended so."""
        return self.registry.get_sample_value("pd_operator_reconcile_total", {"result": result}) or 0.0

    def condition(self, name: str) -> dict[str, Any]:
        """A condition in the status that the API server has."""
        status = self.cluster.objects["PDInferenceService", "demo"].get("status", {})
        found: dict[str, Any] = next((c for c in status.get("conditions", []) if c["type"] == name), {})
        return found
