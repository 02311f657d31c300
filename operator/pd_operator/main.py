"""The operator's process: settings, logs, client, self-check, web pages, then watches and workers until a signal.

Every task runs for ever; whichever ends first ends the process, so that nothing lives on half dead.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Final

import aiohttp
from kubernetes.aio.client.api_client import ApiClient
from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)

from pd_operator import __version__, handlers, logs, settings, web
from pd_operator.adapters.clock import SystemClock
from pd_operator.adapters.cluster import KubernetesCluster
from pd_operator.adapters.connection import ConnectionProblem, connect
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

log = logging.getLogger(__name__)

#: A clean stop takes less; what still runs after this is left behind.
_STOP_SECONDS: Final = 9.0
#: Objects created before Python looks for garbage cycles. Its default of 700 is made for small programs: parsing one
#: list of pods would cost dozens of needless searches.
_GC_THRESHOLD: Final = 50_000


def main() -> None:
    """Entry point; exits with 0 after a signal, 1 after a failure, 2 when a setting is wrong."""
    try:
        chosen = settings.load(sys.argv[1:], os.environ)
    except settings.SettingsError as error:
        sys.stderr.write(f"pd-operator: these settings cannot be used:\n{error}\n")
        sys.exit(2)
    logs.set_up(chosen.log_level, chosen.log_format)
    disable_created_metrics()  # type: ignore[no-untyped-call]
    gc.set_threshold(_GC_THRESHOLD, 20, 50)
    sys.exit(asyncio.run(run(chosen)))


async def run(chosen: settings.Settings) -> int:
    """Operate until a signal or a failure; returns the exit status."""
    stop = asyncio.Event()
    _on_signals(stop)
    work = asyncio.create_task(_operate(chosen, stop), name="operator")
    signalled = asyncio.create_task(stop.wait(), name="signals")
    await asyncio.wait({work, signalled}, return_when=asyncio.FIRST_COMPLETED)
    if not work.done():
        log.info("stopping")
        work.cancel()
        await asyncio.wait({work}, timeout=_STOP_SECONDS)
        return 0
    signalled.cancel()
    failure = work.exception() if not work.cancelled() else None
    if isinstance(failure, ConnectionProblem):
        log.critical(str(failure))
    else:
        log.critical("the operator has failed and ends", exc_info=failure)
    return 1


def _on_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)


async def _operate(chosen: settings.Settings, stop: asyncio.Event) -> None:
    clock = SystemClock()
    registry = CollectorRegistry()
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    meters = Instruments(registry)
    store, queue = Store(), WorkQueue(clock)
    health = web.Health(queue, store)
    async with contextlib.AsyncExitStack() as stack:
        client = await connect(chosen.kubeconfig)
        stack.push_async_callback(client.close)
        runner = await web.serve(web.application(health, meters, registry), chosen.web_host, chosen.web_port)
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
        cluster = KubernetesCluster(client, clock, meters)
        await wait_until_usable(cluster, chosen.watch_namespaces or (None,), clock, health)
        session = await stack.enter_async_context(aiohttp.ClientSession())
        recorder = EventRecorder(cluster.create_event, clock)
        poller = _poller(chosen, stack, clock, store, queue, meters)
        reconciler = Reconciler(
            plan,
            cluster=cluster,
            engines=HttpEngines(session, meters),
            recorder=recorder,
            windows=poller or NoWindows(),
            clock=clock,
            store=store,
            queue=queue,
            meters=meters,
        )
        machine = _Machine(chosen, client, cluster, clock, meters, store, queue, health, reconciler, recorder, poller)
        await machine.forever(stop)


def _poller(
    chosen: settings.Settings,
    stack: contextlib.AsyncExitStack,
    clock: SystemClock,
    store: Store,
    queue: WorkQueue,
    meters: Instruments,
) -> Poller | None:
    """What reads the metrics of services in SLO mode; None without a Prometheus to read them from."""
    if chosen.prometheus_url is None:
        return None
    source = PrometheusSource(
        Endpoint(chosen.prometheus_url, chosen.prometheus_token_file, chosen.prometheus_ca_file), clock
    )
    stack.push_async_callback(source.close)
    return Poller(
        source,
        lambda: targets_in(store),
        queue.add,
        clock,
        every_seconds=chosen.poll_seconds,
        window_seconds=chosen.window_seconds,
        result=lambda result: meters.metrics_polls.labels(result=result).inc(),
    )


@dataclass(slots=True)
class _Machine:
    """All parts, put together."""

    chosen: settings.Settings
    client: ApiClient
    cluster: KubernetesCluster
    clock: SystemClock
    meters: Instruments
    store: Store
    queue: WorkQueue
    health: web.Health
    reconciler: Reconciler
    recorder: EventRecorder
    poller: Poller | None

    async def forever(self, stop: asyncio.Event) -> None:
        """Run every task until one ends."""
        scopes: tuple[str | None, ...] = self.chosen.watch_namespaces or (None,)
        pulse = Pulse((kind.path(scope) for kind in WATCHED_KINDS for scope in scopes), self.clock)
        self.health.pulse = pulse
        intake = Intake(self.store, self.queue, self.clock, self.meters)
        registry = handlers.registry(intake, login=lambda: watch_session(self.client, pulse))
        # kopf takes the signals when it starts; they are the process's, not kopf's.
        watches = handlers.watch(registry, self.chosen.watch_namespaces, on_started=lambda: _on_signals(stop))
        sync = Sync(self.cluster, self.store, self.queue, self.clock, self.meters, scopes)
        async with asyncio.TaskGroup() as group:
            group.create_task(_endless("the watches", watches))
            group.create_task(_endless("the event recorder", self.recorder.forever()))
            self.health.waiting_for = "watches"
            await pulse.all_begun()
            await sync.first()
            self.health.waiting_for = ""
            log.info("ready", extra={"objects": self.store.counts()})
            group.create_task(_endless("the workers", run_workers(self.reconciler, self.chosen.workers)))
            group.create_task(_endless("the resync", sync.forever()))
            if self.poller is not None:
                group.create_task(_endless("the metrics poller", self.poller.forever()))


async def _endless(what: str, task: Awaitable[None]) -> None:
    await task
    raise RuntimeError(f"{what} ended although nothing asked for it")


if __name__ == "__main__":
    main()
