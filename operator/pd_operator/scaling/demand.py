"""How many replicas each role needs for what one poll shows, before any bound, cool-down or budget.

Two kinds of evidence are kept apart:

* *Load* over capacity: a number of replicas that is right whatever runs now. Capacity comes from the profile, or, as
  in a horizontal autoscaler, from how full the ready replicas are.
* *Symptoms*: a queue that waits for the role, or a latency above the SLO. They say "too few" and not how many, so they
  ask for a bounded factor more than what is *ready*. Replicas that are still starting answer the same symptom, so the
  request does not grow while they start.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from pd_operator.scaling.flow import BACKLOG_SECONDS, Flow, flow_of
from pd_operator.scaling.profile import SLO, Bounds, Profile
from pd_operator.scaling.symptoms import Symptom, percent, symptoms
from pd_operator.scaling.window import Window

#: Part of the promised token gap that is planned for when replicas are removed: what remains is noise.
ITL_SHARE: Final = 0.85
#: With this many requests per replica or fewer, the token gap is what one request gets, whatever the count.
FEW_REQUESTS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Need:
    """What one role needs.

    Attributes:
        replicas: At the target utilisation, not rounded; None when the poll does not tell.
        cause: The load in words: what comes, and what one replica can do.
        demand, capacity, unit: The load in numbers, `capacity` of one replica at 100 %.
        keep: Fewer than this many replicas would break a latency, as far as can be told.
        symptom: What shows that the ready replicas are too few although their load does not; empty if nothing does.
    """

    replicas: float | None = None
    cause: str = ""
    demand: float | None = None
    capacity: float | None = None
    unit: str = ""
    keep: int = 0
    symptom: str = ""


@dataclass(frozen=True, slots=True)
class Needs:
    """Both roles, what else the poll shows, and whether both are short at once (what is enough for one is not seen)."""

    prefill: Need
    decode: Need
    notes: tuple[str, ...] = ()
    overload: bool = False


def needs(profile: Profile, slo: SLO, bounds: Bounds, window: Window) -> Needs:
    """What both roles need. Expects a window whose numbers are finite and not negative, or absent."""
    if is_idle(window):
        return Needs(Need(0.0, "no traffic"), Need(0.0, "no traffic"))
    flow = flow_of(window)
    signs = symptoms(slo, bounds, window, flow)
    prefill = _with_symptom(prefill_load(profile, bounds, window, flow), signs.prefill, window.prefill.ready)
    decode = _with_symptom(
        decode_load(profile, bounds, window, flow), signs.decode, window.decode.ready, keep=_fast_enough(slo, window)
    )
    return Needs(prefill, decode, signs.notes, signs.overload)


def is_idle(window: Window) -> bool:
    """Whether the poll positively shows that there is no traffic. Missing values are not zeros."""
    if window.arrival_rate is None and window.decode.running is None:
        return False
    known = (window.arrival_rate, window.completion_rate, window.in_flight, window.decode.running)
    return not any((*known, window.prefill.running, window.prefill.waiting, window.decode.waiting, window.decode.held))


def load_of(window: Window) -> float | None:
    """One number for how much traffic there is, to compare two polls with."""
    return window.arrival_rate if window.arrival_rate is not None else window.completion_rate


def prefill_load(profile: Profile, bounds: Bounds, window: Window, flow: Flow) -> Need:
    """Prompt tokens that must be computed, over what one replica computes; else how busy the engines are."""
    capacity, tokens = profile.prefill_tokens_per_second, _prompt_tokens(window, flow)
    if capacity and tokens is not None:
        cause = f"{tokens:,.0f} prompt tokens/s arrive where one replica computes {capacity:,.0f}"
        return _load(tokens, capacity, bounds, "prompt tokens/s", cause)
    role = window.prefill
    if role.busy is None or not role.ready:
        return Need()
    busy = min(role.busy, 1.0)
    cause = f"prefill engines compute {percent(busy)} of the time"
    return _load(busy * role.ready * flow.pressure, 1.0, bounds, "busy replicas", cause)


def _prompt_tokens(window: Window, flow: Flow) -> float | None:
    """Prompt tokens per second to compute: the larger of what finishes and what arrives, plus the backlog.

    Under overload completions show the capacity and not the demand, so the arrival rate is multiplied with the mean
    length of finished requests. Prefix cache hits cost nothing.
    """
    finished, rate = window.prompt_tokens_per_second, window.completion_rate
    if finished is None:
        return None
    arriving = window.arrival_rate or 0.0
    if not rate:
        return None if arriving or flow.prefill_queue else 0.0  # lengths are known once something has finished
    mean_length = finished / rate
    tokens = max(finished, arriving * mean_length) + flow.prefill_queue * mean_length / BACKLOG_SECONDS
    return tokens * (1.0 - min(window.cached_share or 0.0, 1.0))


def decode_load(profile: Profile, bounds: Bounds, window: Window, flow: Flow) -> Need:
    """The larger need of streams and of tokens over what one replica does; else how full the KV caches are."""
    candidates = [_decode_streams(profile, bounds, window, flow), _decode_tokens(profile, bounds, window)]
    known = [need for need in candidates if need.replicas is not None]
    if known:
        return max(known, key=lambda need: need.replicas or 0.0)
    return _decode_fill(bounds, window, flow)


def _decode_streams(profile: Profile, bounds: Bounds, window: Window, flow: Flow) -> Need:
    capacity, running = profile.decode_concurrent_requests, window.decode.running
    if not capacity or running is None:
        return Need()
    streams = running * flow.pressure
    cause = f"{running:,.0f} requests stream where {capacity:,.0f} fit in one replica"
    if flow.decode_queue >= 1.0:
        cause += f" and {flow.decode_queue:,.0f} wait"
        if not running:
            streams = flow.decode_queue
    return _load(streams, capacity, bounds, "requests", cause)


def _decode_tokens(profile: Profile, bounds: Bounds, window: Window) -> Need:
    capacity, generated = profile.decode_tokens_per_second, window.generation_tokens_per_second
    if not capacity or generated is None:
        return Need()
    mean_length = generated / window.completion_rate if window.completion_rate else 0.0
    tokens = max(generated, (window.arrival_rate or 0.0) * mean_length)
    cause = f"{tokens:,.0f} tokens/s are asked for where one replica generates {capacity:,.0f}"
    return _load(tokens, capacity, bounds, "tokens/s", cause)


def _decode_fill(bounds: Bounds, window: Window, flow: Flow) -> Need:
    """KV use is the decode signal without a profile: at usual ITL promises decode is bound by memory, not by time.

    Space that requests hold only because prefill is short is no need of decode.
    """
    role = window.decode
    if role.kv_usage is None or not role.ready:
        return Need()
    usage = min(role.kv_usage, 1.0)
    cause = f"decode KV caches are {percent(usage)} full"
    if flow.prefill_bound:
        usage *= flow.running_share
        cause += f", {percent(1 - flow.running_share)} of that with requests that wait for prefill"
    elif flow.decode_queue >= 1.0:
        cause += f" and {flow.decode_queue:,.0f} requests wait for space"
    return _load(usage * role.ready * flow.pressure, 1.0, bounds, "full replicas", cause)


def _load(demand: float, capacity: float, bounds: Bounds, unit: str, cause: str) -> Need:
    replicas = demand / (capacity * bounds.target)
    return Need(replicas, f"{cause} (target {percent(bounds.target)})", demand, capacity, unit)


def _fast_enough(slo: SLO, window: Window) -> int:
    """Decode replicas with which tokens stay fast enough, on the safe side: the gap as if it were all due to load."""
    role = window.decode
    if window.itl_seconds is None or (role.running or 0.0) <= FEW_REQUESTS * role.ready:
        return 0
    return math.ceil(min(role.ready * window.itl_seconds / (slo.itl_seconds * ITL_SHARE), 2.0 * role.ready))


def _with_symptom(load: Need, symptom: Symptom, ready: int, keep: int = 0) -> Need:
    """Load that asks for more decides how many; only if it does not, a symptom asks for at least one more than ready.

    Where none is ready, those that start are the answer to the symptom.
    """
    if not symptom.text or not ready:
        return replace(load, keep=keep)
    keep = max(keep, ready)
    if load.replicas is not None and (load.replicas > ready or symptom.factor <= 1.0):
        return replace(load, keep=keep)
    if symptom.factor <= 1.0:
        return Need(float(ready), symptom.text, keep=keep)
    asked = math.ceil(ready * symptom.factor)
    return replace(load, replicas=float(asked), cause=symptom.text, keep=asked, symptom=symptom.text)
