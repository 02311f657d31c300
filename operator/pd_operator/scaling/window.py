"""What one poll of the metrics says about one service. Every field may be absent; absence is not zero."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum


class MetricsFault(StrEnum):
    """Why a poll cannot be used."""

    UNAVAILABLE = "Unavailable"  # Prometheus did not answer
    STALE = "Stale"  # its newest sample is too old
    PARTIAL = "Partial"  # too few pods report, or Prometheus says that the answer is incomplete
    EMPTY = "Empty"  # it answered and has no series of this service
    INVALID = "Invalid"  # NaN, infinities, or an answer that cannot be read
    NOT_CONFIGURED = "NotConfigured"  # the operator has no Prometheus address


@dataclass(frozen=True, slots=True)
class RoleWindow:
    """One role in one poll.

    Attributes:
        ready: Replicas that can serve, as the cluster says.
        starting: Replicas that exist and have not been ready yet.
        draining: Replicas that finish their requests before they go.
        reporting: Pods whose metrics arrived.
        running: Requests in the engines' batches, summed over replicas.
        waiting: Requests waiting for this role's own capacity, summed over replicas.
        held: Requests that hold this role's KV space while the other role works on them, summed over replicas.
        finished: Requests per second that this role is done with.
        kv_usage: Part of the KV cache in use, 0 to 1, mean over replicas.
        busy: Part of the time in which the engines computed, 0 to 1, mean over replicas. For prefill it is a true
            utilisation; decode engines compute whenever one request runs, so it says little about them.
    """

    ready: int = 0
    starting: int = 0
    draining: int = 0
    reporting: int | None = None
    running: float | None = None
    waiting: float | None = None
    held: float | None = None
    finished: float | None = None
    kv_usage: float | None = None
    busy: float | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """One poll for one service.

    Attributes:
        prefill, decode: Per role. A waiting prefill *bootstrap* queue counts in `decode.waiting`: those requests
            wait for KV space on a decode worker.
        arrival_rate: Requests per second entering the router.
        completion_rate: Requests per second that finished, from decode workers.
        in_flight: Requests inside the router.
        prompt_tokens_per_second, generation_tokens_per_second: From decode workers (prefill workers would count
            the same requests a second time).
        cached_share: Part of the prompt tokens that prefill workers found in their prefix cache, 0 to 1.
        ttft_seconds, itl_seconds: At the SLO's percentile.
        ttft_samples: Requests that `ttft_seconds` was computed from; a percentile of a few is noise.
        sample_age_seconds: Age of the oldest newest sample used.
        fault: Why this poll cannot be used; other fields are then not to be trusted.
        message: One sentence about the fault.
    """

    prefill: RoleWindow = field(default_factory=RoleWindow)
    decode: RoleWindow = field(default_factory=RoleWindow)
    arrival_rate: float | None = None
    completion_rate: float | None = None
    in_flight: float | None = None
    prompt_tokens_per_second: float | None = None
    generation_tokens_per_second: float | None = None
    cached_share: float | None = None
    ttft_seconds: float | None = None
    itl_seconds: float | None = None
    ttft_samples: float | None = None
    sample_age_seconds: float | None = None
    fault: MetricsFault | None = None
    message: str = ""

    def counting(self, prefill: tuple[int, int, int], decode: tuple[int, int, int]) -> Window:
        """The same poll with the cluster's present counts (ready, starting, draining) of each role.

        Pods come and go between two polls, and the budget must count those that exist now.
        """
        return replace(self, prefill=_counted(self.prefill, prefill), decode=_counted(self.decode, decode))


def _counted(role: RoleWindow, counts: tuple[int, int, int]) -> RoleWindow:
    ready, starting, draining = counts
    return replace(role, ready=ready, starting=starting, draining=draining)
