"""Complete lists: the first one makes the store ready, later ones repair what watches may have missed."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from typing import Final

from pd_operator.reconcile.errors import ClusterError, TransientError
from pd_operator.reconcile.instruments import Instruments
from pd_operator.reconcile.kinds import WATCHED_KINDS, Kind
from pd_operator.reconcile.ports import Clock, Cluster, Raw, ServiceKey
from pd_operator.reconcile.queue import WorkQueue
from pd_operator.reconcile.store import Store

log = logging.getLogger(__name__)

#: Time between two resyncs, drawn anew each time so that several operators do not meet.
RESYNC_SECONDS: Final = (300.0, 600.0)
#: Over how long the services of a resync are spread, so that it shows as no spike.
SPREAD_SECONDS: Final = 60.0
#: Wait before the first list is tried again.
FIRST_LIST_AGAIN_SECONDS: Final = 2.0
#: How long an event of a child may wait for more events of the same service. A change of the service itself waits
#: for nothing.
SETTLE_SECONDS: Final = 0.2


class Intake:
    """Takes objects into the store and asks for runs of the services concerned."""

    def __init__(self, store: Store, queue: WorkQueue, clock: Clock, meters: Instruments) -> None:
        self._store = store
        self._queue = queue
        self._clock = clock
        self._meters = meters

    def saw(self, kind: Kind, raw: Raw, *, deleted: bool) -> None:
        """A watch told of an object. An event is a hint: the run looks at everything anew."""
        self._meters.watch_events.labels(kind=kind.name).inc()
        self._meters.watch_last_event.labels(kind=kind.name).set(self._clock.now())
        key = self._store.remove(kind, raw) if deleted else self._store.put(kind, raw)
        if key is not None and self._store.ready:
            self._queue.add(key, after=SETTLE_SECONDS if kind.labelled else 0.0)


class Sync:
    """Lists every kind in every watched namespace (`None`: all)."""

    def __init__(
        self,
        cluster: Cluster,
        store: Store,
        queue: WorkQueue,
        clock: Clock,
        meters: Instruments,
        namespaces: Sequence[str | None],
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._queue = queue
        self._clock = clock
        self._meters = meters
        self._namespaces = namespaces

    async def once(self) -> set[ServiceKey]:
        """One complete list of every kind; returns the services for which it held news.

        One kind after the other, and page by page: lists of whole objects are the largest thing in this process.

        Raises:
            ClusterError: A list failed; what was listed before it is taken over.
        """
        news: set[ServiceKey] = set()
        for kind in WATCHED_KINDS:
            for namespace in self._namespaces:
                news |= await self._list(kind, namespace)
            self._store.listed(kind)
        self._meters.resyncs.inc()
        return news

    async def first(self) -> None:
        """Make the store complete and ask for a run of every service.

        Raises:
            ClusterError: A list failed in a way that waiting does not cure.
        """
        while True:
            try:
                await self.once()
                break
            except TransientError as error:
                log.warning("the first list failed; trying again", extra={"error": error.message})
                await self._clock.sleep(max(error.retry_after or 0.0, FIRST_LIST_AGAIN_SECONDS))
        for key in self._store.services():
            self._queue.add(key)

    async def forever(self) -> None:
        """Resync from time to time."""
        while True:
            await self._clock.sleep(random.uniform(*RESYNC_SECONDS))  # noqa: S311 (jitter)
            try:
                news = await self.once()
            except ClusterError as error:
                log.warning("a resync failed; watches go on", extra={"error": error.message})
                continue
            self._meters.resync_repairs.inc(len(news))
            for key in self._store.services():
                self._queue.add(key, after=0.0 if key in news else random.uniform(0, SPREAD_SECONDS))  # noqa: S311

    async def _list(self, kind: Kind, namespace: str | None) -> set[ServiceKey]:
        news: set[ServiceKey | None] = set()
        present: set[tuple[str, str]] = set()
        version = 0
        async for page in self._cluster.pages(kind, namespace):
            version = page.version
            for raw in page.items:
                present.add((raw["metadata"]["namespace"], raw["metadata"]["name"]))
                news.add(self._store.put(kind, raw))
        news |= self._store.sweep(kind, namespace, present, version)
        return {key for key in news if key is not None}
