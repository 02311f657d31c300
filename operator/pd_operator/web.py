"""The operator's own web pages: `/healthz` (restart me), `/readyz` (I work) and `/metrics`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from pd_operator.reconcile.instruments import Instruments
from pd_operator.reconcile.pulse import Pulse
from pd_operator.reconcile.queue import WorkQueue
from pd_operator.reconcile.store import Store

#: One run waits for the API server at most three times 20 s per request; a run of this length hangs.
STUCK_SECONDS: Final = 600.0


@dataclass(slots=True)
class Health:
    """What the probes answer.

    Attributes:
        queue, store: Of the loop.
        waiting_for: What start-up waits for, in words; empty once the operator works.
        pulse: Of the watches, as soon as there are any.
    """

    queue: WorkQueue
    store: Store
    waiting_for: str = "start-up"
    pulse: Pulse | None = None
    _checks: tuple[Callable[[], str], ...] = field(init=False)

    def __post_init__(self) -> None:
        self._checks = (self._silent_watches, self._stuck_run, self._stuck_queue)

    def unhealthy(self) -> str:
        """Why a restart is needed; empty when it is not."""
        return "; ".join(problem for check in self._checks if (problem := check()))

    def unready(self) -> str:
        """Why the operator does not work yet; empty when it does."""
        if self.waiting_for:
            return f"waiting for {self.waiting_for}"
        return "" if self.store.ready else "waiting for the first list of every kind"

    def _silent_watches(self) -> str:
        silent = self.pulse.silent() if self.pulse is not None else []
        return f"silent watches: {', '.join(silent)}" if silent else ""

    def _stuck_run(self) -> str:
        seconds = self.queue.longest_run_seconds
        return f"one run has taken {seconds:.0f} s" if seconds > STUCK_SECONDS else ""

    def _stuck_queue(self) -> str:
        seconds = self.queue.oldest_wait_seconds
        return f"a service has waited {seconds:.0f} s for a worker" if seconds > STUCK_SECONDS else ""


def application(health: Health, meters: Instruments, registry: CollectorRegistry) -> web.Application:
    """The three pages."""

    async def healthz(_: web.Request) -> web.Response:
        return _answer(health.unhealthy())

    async def readyz(_: web.Request) -> web.Response:
        return _answer(health.unready())

    async def metrics(_: web.Request) -> web.Response:
        _take_stock(health, meters)
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    pages = web.Application()
    pages.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", metrics)])
    return pages


async def serve(pages: web.Application, host: str, port: int) -> web.AppRunner:
    """Start to serve; the caller must `cleanup()` what it gets.

    Raises:
        OSError: The port is taken.
    """
    runner = web.AppRunner(pages, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    return runner


def _answer(problem: str) -> web.Response:
    return web.Response(text=f"{problem or 'ok'}\n", status=503 if problem else 200)


def _take_stock(health: Health, meters: Instruments) -> None:
    """Values that are only worth computing when somebody asks."""
    meters.queue_depth.set(health.queue.depth)
    meters.queue_age.set(health.queue.oldest_wait_seconds)
    meters.queue_running.set(health.queue.running)
    meters.ready.set(0 if health.unready() else 1)
    for kind, count in health.store.counts().items():
        meters.objects.labels(kind=kind).set(count)
