"""How requests pass through the two roles, and which of the two holds them up.

In SGLang (0.5.x) a request first waits until a decode worker has reserved KV space (prefill's *bootstrap* queue and
decode's *prealloc* queue: the same requests seen from both sides), then for prefill, then its KV is transferred and it
runs; its space on the decode worker is held from the reservation to the end. So each shortage shows at the other role:

* too little decode: space is full of running requests, and the queue in front of it stands on prefill workers;
* too little prefill: space is full of requests that wait for prefill, and the same queue grows.

What tells them apart is who holds the space. A policy that takes the queue for the one or the other without looking
locks in at an extreme ratio.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from pd_operator.scaling.window import Window

#: Prefill holds requests up when less than this part of those with space on decode workers runs.
RUNNING_SHARE: Final = 0.5
#: Demand is taken for at most this multiple of what passes, and at least its inverse.
MOST_PRESSURE: Final = 2.0
#: A queue that will be gone within this time at the present speed needs no more replicas: they would come too late.
BACKLOG_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class Flow:
    """The state of both queues.

    Attributes:
        prefill_queue, decode_queue: Requests that wait for the one and the other role.
        running_share: Part of the requests with space on decode workers that run there; the others wait for prefill.
        pressure: Requests that arrive over requests that pass, while there is a queue; else 1. Load measured under a
            queue shows capacity: this turns it into demand, also when a queue is being worked off.
        passing: Requests per second that pass; None if unknown.
        worked_off_seconds: Time until the queues are gone at the present speed; infinite if they do not shrink.
    """

    prefill_queue: float
    decode_queue: float
    running_share: float
    pressure: float
    passing: float | None
    worked_off_seconds: float

    @property
    def prefill_bound(self) -> bool:
        """Whether the space on decode workers is full of requests that wait for prefill."""
        return self.running_share < RUNNING_SHARE

    @property
    def recovering(self) -> bool:
        """Whether the queues will be gone soon without more replicas."""
        return self.worked_off_seconds <= BACKLOG_SECONDS


def flow_of(window: Window) -> Flow:
    """The flow that a poll shows; numbers that it lacks count as no queue."""
    in_prefill, in_front = window.prefill.waiting or 0.0, window.decode.waiting or 0.0
    running = window.decode.running or 0.0
    held = window.decode.held
    if held is None:
        held = in_prefill + (window.prefill.running or 0.0)
    share = running / (running + held) if in_prefill >= 1.0 and running + held > 0.0 else 1.0
    bound = share < RUNNING_SHARE
    queue = in_prefill + in_front
    passing = window.prefill.finished if window.prefill.finished is not None else window.completion_rate
    return Flow(
        prefill_queue=queue if bound else in_prefill,
        decode_queue=0.0 if bound else in_front,
        running_share=share,
        pressure=_pressure(queue, window.arrival_rate, passing),
        passing=passing,
        worked_off_seconds=_worked_off(queue, window.arrival_rate, passing),
    )


def _pressure(queue: float, arriving: float | None, passing: float | None) -> float:
    if queue < 1.0 or not arriving or not passing:
        return 1.0
    return min(max(arriving / passing, 1.0 / MOST_PRESSURE), MOST_PRESSURE)


def _worked_off(queue: float, arriving: float | None, passing: float | None) -> float:
    if queue < 1.0:
        return 0.0
    if arriving is None or passing is None or passing <= arriving:
        return math.inf
    return queue / (passing - arriving)
