"""Writes that the API server refused: what the next observation tells about them, and when they are tried again.

An invalid object stays invalid: trying it at every event would only load the API server. A refused write is
therefore tried again when its content changed, or after a wait that grows (a quota may have been raised meanwhile).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pd_operator.plan.actions import Action, Apply, Delete
from pd_operator.plan.observed import Failure
from pd_operator.reconcile.errors import ClusterError, ForbiddenError
from pd_operator.reconcile.ports import Clock, ServiceKey

FIRST_WAIT_SECONDS: Final = 15.0
LONGEST_WAIT_SECONDS: Final = 300.0


def subject_of(action: Action) -> str:
    """`StatefulSet demo-prefill-1a2b3c4d`."""
    if isinstance(action, Apply):
        return f"{action.body['kind']} {action.body['metadata']['name']}"
    if isinstance(action, Delete):
        return f"{action.kind} {action.name}"
    return f"Pod {action.name}"


def _content_of(action: Action) -> str:
    return json.dumps(action.body, sort_keys=True, default=str) if isinstance(action, Apply) else repr(action)


@dataclass(frozen=True, slots=True)
class _Refusal:
    failure: Failure
    content: int
    wait: float
    until: float


class FailureBook:
    """Refused writes of all services."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._refusals: dict[ServiceKey, dict[str, _Refusal]] = {}

    def of(self, key: ServiceKey) -> tuple[Failure, ...]:
        """What is refused at present, in a stable order."""
        return tuple(refusal.failure for _, refusal in sorted(self._refusals.get(key, {}).items()))

    def must_wait(self, key: ServiceKey, action: Action) -> float | None:
        """Seconds until the same write may be tried again; None when it may be tried now."""
        refusal = self._refusals.get(key, {}).get(subject_of(action))
        if refusal is None or refusal.content != hash(_content_of(action)):
            return None
        left = refusal.until - self._clock.monotonic()
        return left if left > 0 else None

    def record(self, key: ServiceKey, action: Action, error: ClusterError) -> bool:
        """Remember a refusal; returns whether it tells anything new."""
        subject = subject_of(action)
        known = self._refusals.setdefault(key, {}).get(subject)
        content = hash(_content_of(action))
        again = known is not None and known.content == content
        wait = min(LONGEST_WAIT_SECONDS, known.wait * 2) if known is not None and again else FIRST_WAIT_SECONDS
        failure = Failure(subject, error.message, forbidden=isinstance(error, ForbiddenError))
        self._refusals[key][subject] = _Refusal(failure, content, wait, self._clock.monotonic() + wait)
        return known is None or known.failure != failure

    def succeed(self, key: ServiceKey, action: Action) -> bool:
        """A write went through; returns whether it had been refused before."""
        return self._refusals.get(key, {}).pop(subject_of(action), None) is not None

    def keep_only(self, key: ServiceKey, actions: Iterable[Action]) -> bool:
        """Forget refusals of writes that are no longer wanted; returns whether there were any."""
        refusals = self._refusals.get(key)
        if not refusals:
            self._refusals.pop(key, None)
            return False
        wanted = {subject_of(action) for action in actions}
        gone = [subject for subject in refusals if subject not in wanted]
        for subject in gone:
            del refusals[subject]
        return bool(gone)

    def drop(self, key: ServiceKey) -> None:
        """The service is gone."""
        self._refusals.pop(key, None)
