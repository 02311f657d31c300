"""Probes and metrics over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client import CollectorRegistry

from pd_operator import web
from pd_operator.reconcile.instruments import Instruments
from pd_operator.reconcile.kinds import POD, WATCHED_KINDS
from pd_operator.reconcile.pulse import LIMIT_SECONDS, Pulse
from pd_operator.reconcile.queue import WorkQueue
from pd_operator.reconcile.store import Store
from tests.unit.reconcile.fakes import FakeClock


@dataclass
class Site:
    clock: FakeClock
    health: web.Health
    client: TestClient  # type: ignore[type-arg]

    async def get(self, path: str) -> tuple[int, str]:
        async with self.client.get(path) as response:
            return response.status, await response.text()


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    clock, registry = FakeClock(), CollectorRegistry()
    health = web.Health(WorkQueue(clock), Store())
    pages = web.application(health, Instruments(registry), registry)
    async with TestClient(TestServer(pages)) as client:
        yield Site(clock, health, client)


async def test_readiness_says_what_it_waits_for(site: Site) -> None:
    site.health.waiting_for = "permissions on pods (list)"
    assert await site.get("/readyz") == (503, "waiting for permissions on pods (list)\n")
    site.health.waiting_for = ""
    assert await site.get("/readyz") == (503, "waiting for the first list of every kind\n")
    for kind in WATCHED_KINDS:
        site.health.store.listed(kind)
    assert await site.get("/readyz") == (200, "ok\n")


async def test_waiting_at_start_up_is_no_reason_to_restart(site: Site) -> None:
    site.clock.advance(10_000)
    assert await site.get("/healthz") == (200, "ok\n")


async def test_a_silent_watch_is(site: Site) -> None:
    site.health.pulse = Pulse([POD.path(None)], site.clock)
    assert (await site.get("/healthz"))[0] == 200
    site.clock.advance(LIMIT_SECONDS + 1)
    assert await site.get("/healthz") == (503, "silent watches: /api/v1/pods\n")


async def test_a_run_that_hangs_is(site: Site) -> None:
    site.health.queue.add(("default", "demo"))
    await site.health.queue.get()
    site.clock.advance(web.STUCK_SECONDS + 1)
    assert await site.get("/healthz") == (503, "one run has taken 601 s\n")


async def test_a_queue_that_nobody_serves_is(site: Site) -> None:
    site.health.queue.add(("default", "demo"))
    site.clock.advance(web.STUCK_SECONDS + 1)
    assert await site.get("/healthz") == (503, "a service has waited 601 s for a worker\n")


async def test_metrics(site: Site) -> None:
    site.health.queue.add(("default", "demo"))
    site.clock.advance(3)
    status, text = await site.get("/metrics")
    assert status == 200
    assert "pd_operator_queue_depth 1.0" in text
    assert "pd_operator_queue_oldest_seconds 3.0" in text
    assert 'pd_operator_objects{kind="Pod"} 0.0' in text
    assert "pd_operator_ready 0.0" in text
