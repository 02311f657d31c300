"""Carries out a plan: in order, idempotently, with the answers of the API server put back into the store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pd_operator.api import labels
from pd_operator.api.v1alpha1 import PDInferenceService, PDInferenceServiceStatus
from pd_operator.plan.actions import Action, Apply, Delete, MarkPod, Plan
from pd_operator.plan.observed import ChildKey
from pd_operator.reconcile.errors import AbsentError, ConflictError, TerminalError
from pd_operator.reconcile.failures import FailureBook, subject_of
from pd_operator.reconcile.kinds import BY_NAME, POD, SERVICE_KIND, Kind
from pd_operator.reconcile.ports import Cluster, Raw, Recorder
from pd_operator.reconcile.status_pace import StatusPace
from pd_operator.reconcile.store import Store

log = logging.getLogger(__name__)

#: What must exist before its dependents are created. Everything else is created at the same time: a Role must be
#: there when a RoleBinding names it, and a ServiceAccount when pods that use it are created.
_CREATED_FIRST: Final = frozenset({"ServiceAccount", "Role", "Service", "PodDisruptionBudget", "StatefulSet"})


@dataclass(frozen=True, slots=True)
class Outcome:
    """What carrying out a plan has led to.

    Attributes:
        writes: Requests that changed something.
        replan_after: Seconds until the service should be planned again because of what happened here.
        refused: Some write is refused at present.
    """

    writes: int = 0
    replan_after: float | None = None
    refused: bool = False


class Executor:
    """Executes plans of all services."""

    def __init__(
        self, cluster: Cluster, store: Store, failures: FailureBook, pace: StatusPace, recorder: Recorder
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._failures = failures
        self._pace = pace
        self._recorder = recorder

    async def execute(self, service: PDInferenceService, raw: Raw, plan: Plan) -> Outcome:
        """Carry out `plan`.

        A status that must come first and cannot be written stops everything after it. A refused action stops what
        comes after it, except creations, which harm nothing; the refusal is part of the next observation, so that
        the status then tells it.

        Raises:
            TransientError: Something may work later; what was not done yet is planned again.
        """
        key = service.key
        news = self._failures.keep_only(key, plan.actions)
        writes = await self._write_status(service, plan.status) if plan.status_first else 0
        done = await self._carry_out(service, plan.actions)
        writes += done.wrote
        if news or done.news:
            # What the status would say now is outdated: plan once more with the news.
            return Outcome(writes, replan_after=0.0, refused=done.wait is not None)
        postponed = None
        if not plan.status_first:
            postponed = self._pace.postpone(key, service.status, plan.status)
            if postponed is None:
                writes += await self._write_status(service, plan.status)
        for announcement in plan.events if postponed is None else ():
            await self._recorder.announce(raw, announcement)
        delays = [seconds for seconds in (done.wait, postponed) if seconds is not None]
        return Outcome(writes, replan_after=min(delays, default=None), refused=done.wait is not None)

    async def _carry_out(self, service: PDInferenceService, actions: tuple[Action, ...]) -> _Done:
        total = _Done()
        for batch in _batches(actions, self._store.children(service.key)):
            if total.wait is not None and not batch.creates:
                continue
            results = await asyncio.gather(
                *(self._act(service, action) for action in batch.actions), return_exceptions=True
            )
            for result in results:
                if isinstance(result, BaseException):
                    raise result
                total += result
        return total

    async def _write_status(self, service: PDInferenceService, status: PDInferenceServiceStatus) -> int:
        """Write the status if it says anything else than the present one."""
        if status == service.status:
            return 0
        body = status.model_dump(mode="json", by_alias=True, exclude_none=True)
        answer = await self._cluster.apply_status(service.metadata.namespace, service.metadata.name, body)
        self._store.put(SERVICE_KIND, answer)
        self._pace.wrote(service.key)
        return 1

    async def _act(self, service: PDInferenceService, action: Action) -> _Done:
        key = service.key
        wait = self._failures.must_wait(key, action)
        if wait is not None:
            return _Done(wait=wait)
        try:
            await self._perform(service, action)
        except TerminalError as error:
            news = self._failures.record(key, action, error)
            log.warning(
                "a write was refused",
                extra={"service": "/".join(key), "object": subject_of(action), "error": error.message},
            )
            return _Done(news=news, wait=self._failures.must_wait(key, action))
        return _Done(wrote=1, news=self._failures.succeed(key, action))

    async def _perform(self, service: PDInferenceService, action: Action) -> None:
        namespace = service.metadata.namespace
        if isinstance(action, Apply):
            await self._apply(service, action)
        elif isinstance(action, Delete):
            await self._delete(namespace, action)
        else:
            await self._mark(namespace, action)

    async def _apply(self, service: PDInferenceService, action: Apply) -> None:
        kind = BY_NAME[action.body["kind"]]
        namespace, name = service.metadata.namespace, action.body["metadata"]["name"]
        ours = (kind.name, name) in self._store.children(service.key)
        if not ours and self._store.uid(kind, namespace, name) is not None:
            # A child of another service. It has the same field manager, so the API server would see no conflict.
            raise _taken(kind, name)
        try:
            answer = await self._cluster.apply(action.body, force=ours)
        except ConflictError:
            if ours:
                raise
            # Someone else's object, or our own one that lost its labels. Only the latter is taken (back) by force.
            found = await self._cluster.get(kind, namespace, name)
            if not _controlled_by(found, service.metadata.uid):
                raise _taken(kind, name) from None
            answer = await self._cluster.apply(action.body, force=True)
        self._store.put(kind, answer)

    async def _delete(self, namespace: str, action: Delete) -> None:
        kind = BY_NAME[action.kind]
        uid = self._store.uid(kind, namespace, action.name)
        try:
            await self._cluster.delete(kind, namespace, action.name, uid)
        except AbsentError:
            log.debug("it was gone already", extra={"object": f"{action.kind} {namespace}/{action.name}"})
        # A pod ends in its own time, and its last event tells when; the rest is gone with the answer.
        if kind is not POD:
            self._store.remove_named(kind, namespace, action.name, uid)

    async def _mark(self, namespace: str, action: MarkPod) -> None:
        try:
            answer = await self._cluster.patch_metadata(POD, namespace, action.name, action.labels, action.annotations)
        except AbsentError:
            self._store.remove_named(POD, namespace, action.name, None)
            return
        self._store.put(POD, answer)


@dataclass(frozen=True, slots=True)
class _Done:
    """What came of some actions: how many wrote, whether a refusal began or ended, and when to try a refused one."""

    wrote: int = 0
    news: bool = False
    wait: float | None = None

    def __add__(self, other: _Done) -> _Done:
        waits = [wait for wait in (self.wait, other.wait) if wait is not None]
        return _Done(self.wrote + other.wrote, self.news or other.news, min(waits, default=None))


@dataclass(frozen=True, slots=True)
class _Batch:
    """Actions that may be under way together."""

    actions: list[Action]
    creates: bool = False


def _batches(actions: tuple[Action, ...], existing: frozenset[ChildKey]) -> Iterator[_Batch]:
    """Actions in batches.

    Neighbouring creations go in two waves, since creating an object harms no other. All else is done one by one: its
    order is the plan's promise (grow one set before another one shrinks, drain before removal).
    """
    creations: list[Apply] = []
    for action in actions:
        if isinstance(action, Apply) and (action.body["kind"], action.body["metadata"]["name"]) not in existing:
            creations.append(action)
            continue
        yield from _waves(creations)
        creations = []
        yield _Batch([action])
    yield from _waves(creations)


def _waves(creations: list[Apply]) -> Iterator[_Batch]:
    first: list[Action] = [action for action in creations if action.body["kind"] in _CREATED_FIRST]
    second: list[Action] = [action for action in creations if action.body["kind"] not in _CREATED_FIRST]
    yield from (_Batch(wave, creates=True) for wave in (first, second) if wave)


def _taken(kind: Kind, name: str) -> TerminalError:
    return TerminalError(
        f"{kind.name} {name} exists already and does not belong to this {labels.KIND}: "
        "delete it, or give the service another name"
    )


def _controlled_by(raw: Raw, uid: str) -> bool:
    return any(ref.get("uid") == uid and ref.get("controller") for ref in raw["metadata"].get("ownerReferences") or ())
