"""What a plan asks for. The executor carries these out in order; each is idempotent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pd_operator.api.v1alpha1 import PDInferenceServiceStatus
from pd_operator.plan.observed import ChildKey


@dataclass(frozen=True, slots=True)
class Apply:
    """Server-side apply of a child object (whole desired body, only fields that the operator owns)."""

    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a child object; it is no error when it is gone already."""

    kind: str
    name: str

    @property
    def key(self) -> ChildKey:
        """Kind and name."""
        return self.kind, self.name


@dataclass(frozen=True, slots=True)
class MarkPod:
    """Set labels and annotations of a pod (`None` removes one): the traffic switch and the drain's clock."""

    name: str
    labels: Mapping[str, str | None] = field(default_factory=dict)
    annotations: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Announce:
    """Post an Event about the service; only on a transition."""

    warning: bool
    reason: str
    message: str


Action = Apply | Delete | MarkPod


@dataclass(frozen=True, slots=True)
class Plan:
    """The outcome of planning.

    Attributes:
        actions: In the order in which they must happen.
        status: The status to write when it differs from the present one. It is written *before* `actions` when
            `status_first` is set (a scaling decision lands in status before it is acted upon), else after them.
        events: Transitions to announce.
        ask_idle: Pods whose engine must be asked whether it is idle before the next plan.
        requeue_after: Seconds until the service must be planned again even if nothing happens, or None.
    """

    status: PDInferenceServiceStatus
    actions: tuple[Action, ...] = ()
    events: tuple[Announce, ...] = ()
    status_first: bool = False
    ask_idle: tuple[str, ...] = ()
    requeue_after: float | None = None
