"""Puts the parts together and runs them: every task runs for ever, and whichever ends first ends them all."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

import aiohttp
from kubernetes.aio.client.api_client import ApiClient
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from pd_operator import __version__, handlers, web
from pd_operator.adapters.clock import SystemClock
from pd_operator.adapters.cluster import KubernetesCluster
from pd_operator.adapters.connection import connect
from pd_operator.adapters.engine import HttpEngines
from pd_operator.adapters.events import EventRecorder
from pd_operator.adapters.metrics import Poller
from pd_operator.adapters.prometheus import Endpoint, PrometheusSource
from pd_operator.adapters.self_check import wait_until_usable
from pd_operator.adapters.targets import targets_in
from pd_operator.adapters.watch_session import watch_session
from pd_operator.plan.plan import plan
from pd_operator.reconcile.instruments import Instruments
from pd_operator.reconcile.kinds import WATCHED_KINDS
from pd_operator.reconcile.loop import Reconciler, run_workers
from pd_operator.reconcile.ports import NoWindows
from pd_operator.reconcile.pulse import Pulse
from pd_operator.reconcile.queue import WorkQueue
from pd_operator.reconcile.store import Store
from pd_operator.reconcile.sync import Intake, Sync
from pd_operator.settings import Settings

log = logging.getLogger(__name__)


async def operate(chosen: Settings, take_signals: Callable[[], None]) -> None:
    """Operate until cancelled or until a part fails.

    Args:
        chosen: Settings.
        take_signals: Called when kopf has taken the process's signals, to take them back.

    Raises:
        ConnectionProblem: There is no way to the API server.
        Exception: Whatever made a part fail.
    """
    registry = CollectorRegistry()
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    parts = Parts(chosen, Instruments(registry))
    async with contextlib.AsyncExitStack() as stack:
        client = await connect(chosen.kubeconfig)
        stack.push_async_callback(client.close)
        pages = web.application(parts.health, parts.meters, registry)
        runner = await web.serve(pages, chosen.web_host, chosen.web_port)
        stack.push_async_callback(runner.cleanup)
        log.info(
            "pd-operator starts",
            extra={
                "version": __version__,
                "api_server": client.configuration.host,
                "namespaces": ", ".join(chosen.watch_namespaces) or "all",
                "web": ", ".join(f"{address[0]}:{address[1]}" for address in runner.addresses),
            },
        )
        await parts.run(client, stack, take_signals)


class Parts:
    """Everything that lives as long as the process."""

    def __init__(self, chosen: Settings, meters: Instruments) -> None:
        self.chosen = chosen
        self.meters = meters
        self.clock = SystemClock()
        self.store = Store()
        self.queue = WorkQueue(self.clock)
        self.health = web.Health(self.queue, self.store)
        self.scopes: tuple[str | None, ...] = chosen.watch_namespaces or (None,)

    async def run(self, client: ApiClient, stack: contextlib.AsyncExitStack, take_signals: Callable[[], None]) -> None:
        """Check, watch, list, then work."""
        cluster = KubernetesCluster(client, self.clock, self.meters)
        await wait_until_usable(cluster, self.scopes, self.clock, self.health)
        pulse = Pulse((kind.path(scope) for kind in WATCHED_KINDS for scope in self.scopes), self.clock)
        self.health.pulse = pulse
        intake = Intake(self.store, self.queue, self.clock, self.meters)
        registry = handlers.registry(intake, login=lambda: watch_session(client, pulse))
        sync = Sync(cluster, self.store, self.queue, self.clock, self.meters, self.scopes)
        recorder = EventRecorder(cluster.create_event, self.clock)
        poller = self._poller(stack)
        reconciler = Reconciler(
            plan,
            cluster=cluster,
            engines=HttpEngines(await stack.enter_async_context(aiohttp.ClientSession()), self.meters),
            recorder=recorder,
            windows=poller or NoWindows(),
            clock=self.clock,
            store=self.store,
            queue=self.queue,
            meters=self.meters,
        )
        async with asyncio.TaskGroup() as group:
            watches = handlers.watch(registry, self.chosen.watch_namespaces, on_started=take_signals)
            group.create_task(_endless("the watches", watches))
            # Lists come after the beginning of the watches: what is deleted in between is in neither.
            self.health.waiting_for = "watches"
            await pulse.all_begun()
            await sync.first()
            self.health.waiting_for = ""
            log.info("ready", extra={"objects": self.store.counts()})
            group.create_task(_endless("the workers", run_workers(reconciler, self.chosen.workers)))
            group.create_task(_endless("the resync", sync.forever()))
            group.create_task(_endless("the event recorder", recorder.forever()))
            if poller is not None:
                group.create_task(_endless("the metrics poller", poller.forever()))

    def _poller(self, stack: contextlib.AsyncExitStack) -> Poller | None:
        """The metrics poller, if the operator knows a Prometheus."""
        if self.chosen.prometheus_url is None:
            return None
        endpoint = Endpoint(
            self.chosen.prometheus_url, self.chosen.prometheus_token_file, self.chosen.prometheus_ca_file
        )
        source = PrometheusSource(endpoint, self.clock)
        stack.push_async_callback(source.close)
        return Poller(
            source,
            targets=lambda: targets_in(self.store),
            polled=self.queue.add,
            clock=self.clock,
            every_seconds=self.chosen.poll_seconds,
            window_seconds=self.chosen.window_seconds,
            result=lambda result: self.meters.metrics_polls.labels(result=result).inc(),
        )


async def _endless(what: str, task: Awaitable[None]) -> None:
    await task
    raise RuntimeError(f"{what} ended although nothing asked for it")
