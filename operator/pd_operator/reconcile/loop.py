"""The level-based loop: one run looks at everything known about a service and moves it one step further.

Nothing here depends on which event led to the run, or on what an earlier run did.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from prometheus_client import Counter
from pydantic import ValidationError

from pd_operator.plan.actions import Action, Apply, Delete, MarkPod, Plan
from pd_operator.plan.observed import Observed
from pd_operator.reconcile import instruments
from pd_operator.reconcile.errors import AbsentError, TerminalError, TransientError
from pd_operator.reconcile.execute import Executor, Outcome
from pd_operator.reconcile.failures import FailureBook, subject_of
from pd_operator.reconcile.instruments import Instruments
from pd_operator.reconcile.observe import missing_pods, observe, pods_in_use
from pd_operator.reconcile.ports import Clock, Cluster, Engines, Recorder, ServiceKey, Windows
from pd_operator.reconcile.queue import WorkQueue
from pd_operator.reconcile.shortfall import Shortfalls
from pd_operator.reconcile.status_pace import StatusPace
from pd_operator.reconcile.store import Store

log = logging.getLogger(__name__)

#: After a run that changed something, the service is looked at once more, when the consequences have arrived.
SETTLE_SECONDS: Final = 0.2

Planner = Callable[[Observed], Plan]


class Reconciler:
    """Runs services of a queue.

    Args:
        planner: The pure planner.
        cluster, engines, recorder, windows, clock: The outside world.
        store, queue: Shared with whatever feeds events in.
        meters: Metrics.
    """

    def __init__(
        self,
        planner: Planner,
        *,
        cluster: Cluster,
        engines: Engines,
        recorder: Recorder,
        windows: Windows,
        clock: Clock,
        store: Store,
        queue: WorkQueue,
        meters: Instruments,
    ) -> None:
        self._planner = planner
        self._engines = engines
        self._windows = windows
        self._clock = clock
        self._store = store
        self._queue = queue
        self._meters = meters
        self._failures = FailureBook(clock)
        self._pace = StatusPace(clock)
        self._shortfalls = Shortfalls(cluster, clock, found=queue.add)
        self._executor = Executor(cluster, store, self._failures, self._pace, recorder)

    async def work(self) -> None:
        """One worker: takes keys for ever."""
        while True:
            key = await self._queue.get()
            try:
                await self.run(key)
            finally:
                self._queue.done(key)

    async def read_events(self) -> None:
        """Finds out, aside from the workers, why pods are not created."""
        await self._shortfalls.forever()

    async def run(self, key: ServiceKey) -> None:
        """One run of one service. Failures end in the log, a metric and a later run, never in the worker."""
        started = self._clock.monotonic()
        service = "/".join(key)
        try:
            result = await self.reconcile(key)
        except AbsentError as error:
            # The service or its namespace is on its way out; if not, the next event or resync brings it back.
            log.info("an object is gone", extra={"service": service, "error": error.message})
            result = instruments.SUCCESS
        except TransientError as error:
            result = instruments.TRANSIENT
            wait = self._queue.retry(key, at_least=error.retry_after or 0.0)
            log.info("will try again", extra={"service": service, "error": error.message, "in_seconds": wait})
        except TerminalError as error:
            result = instruments.REFUSED
            self._queue.retry(key, at_least=SETTLE_SECONDS)
            log.warning("the API server refuses", extra={"service": service, "error": error.message})
        except ValidationError as error:
            result = instruments.REFUSED
            self._queue.retry(key, at_least=30.0)
            log.error(  # noqa: TRY400 (a bad object, not a bug: no trace)
                "the object cannot be read by this version of the operator: correct it or update the operator",
                extra={"service": service, "error": str(error)},
            )
        except Exception:
            # The last line of defence: a bug that shows in one service must not stop the others.
            result = instruments.BUG
            wait = self._queue.retry(key)
            log.exception("this is a bug in the operator", extra={"service": service, "in_seconds": wait})
        else:
            self._queue.forget_failures(key)
        _count(self._meters.reconciles, result)
        self._meters.reconcile_seconds.observe(self._clock.monotonic() - started)

    async def reconcile(self, key: ServiceKey) -> str:
        """Observe, plan, carry out; returns the result for the metrics.

        Raises:
            ClusterError: A request failed in a way that the plan cannot tell in a condition.
        """
        view = self._store.view(key)
        if view.service is None or view.service["metadata"].get("deletionTimestamp"):
            # Children go by garbage collection.
            self._forget(key)
            return instruments.SUCCESS
        problems, look_again = self._shortfalls.problems(key, missing_pods(view))
        observed = observe(
            view,
            now=self._clock.now(),
            failures=self._failures.of(key),
            set_problems=problems,
            window=self._windows.window(key),
        )
        plan = self._planner(observed)
        if plan.ask_idle:
            answers = await self._engines.idle(pods_in_use(observed.pods, plan.ask_idle))
            plan = self._planner(replace(observed, idle=answers))
        outcome = await self._executor.execute(observed.service, view.service, plan)
        if plan.actions and outcome.writes:
            log.info("changed", extra={"service": "/".join(key), "actions": summary(plan.actions)})
        self._schedule(key, plan, outcome, look_again)
        return instruments.REFUSED if outcome.refused else instruments.SUCCESS

    def _schedule(self, key: ServiceKey, plan: Plan, outcome: Outcome, look_again: float | None) -> None:
        delays = [seconds for seconds in (plan.requeue_after, outcome.replan_after, look_again) if seconds is not None]
        if plan.actions and outcome.writes:
            delays.append(SETTLE_SECONDS)
        if delays:
            self._queue.add(key, after=max(0.0, min(delays)))

    def _forget(self, key: ServiceKey) -> None:
        self._failures.drop(key)
        self._pace.drop(key)
        self._shortfalls.drop(key)
        self._queue.drop(key)


def summary(actions: Iterable[Action]) -> str:
    """What a plan does, for the log: `apply StatefulSet ×2, mark Pod demo-decode-1a2b3c4d-3`."""
    words = {Apply: "apply", Delete: "delete", MarkPod: "mark"}
    groups: dict[str, list[str]] = {}
    for action in actions:
        kind, _, name = subject_of(action).partition(" ")
        groups.setdefault(f"{words[type(action)]} {kind}", []).append(name)
    return ", ".join(
        f"{what} {names[0]}" if len(names) == 1 else f"{what} ×{len(names)}" for what, names in groups.items()
    )


def _count(counter: Counter, result: str) -> None:
    counter.labels(result=result).inc()


async def run_workers(reconciler: Reconciler, count: int) -> None:
    """`count` workers until one of them ends, which only a cancellation or a defect of the loop itself can cause."""
    async with asyncio.TaskGroup() as group:
        group.create_task(reconciler.read_events(), name="reader of events")
        for number in range(count):
            group.create_task(reconciler.work(), name=f"worker {number}")
