"""How many replicas each role needs for what one poll shows, before any bound, cool-down or budget.

Two kinds of evidence are kept apart:

* *Load* over capacity: a number of replicas that is right whatever runs now. Capacity comes from the profile, or, as
  in a horizontal autoscaler, from how full the ready replicas are.
* *Symptoms*: a queue that waits for the role, or a latency above the SLO. They say "too few" and not how many, so they
  ask for a bounded factor more than what is *ready*. Replicas that are still starting answer the same symptom, so the
  request does not grow while they start.

Which role a symptom belongs to follows SGLang's life cycle of a request (facts of its scheduler, 0.5.x): a prefill
worker keeps a request in its *bootstrap* queue until a decode worker has reserved KV space, so that queue, and the
time to first token that comes with it, belong to decode.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from pd_operator.scaling.profile import SLO, Bounds, Profile
from pd_operator.scaling.window import RoleWindow, Window

#: Prefill is short when requests wait for it longer than this part of the TTFT promise (wait = queue ÷ rate, Little).
PREFILL_WAIT_SHARE: Final = 0.3
#: Decode is short when requests wait for KV space longer than this part of the TTFT promise …
DECODE_WAIT_SHARE: Final = 0.1
#: … and more than this many wait for each ready replica: a few are always on their way through the queue.
DECODE_WAIT_PER_REPLICA: Final = 1.0
#: A symptom asks for between this much more …
LEAST_SYMPTOM_FACTOR: Final = 1.1
#: … and this much more than the ready replicas (published guards step by 10–20 %; small pools need whole replicas).
MOST_SYMPTOM_FACTOR: Final = 1.5
#: Load beyond this multiple of what ready replicas can do is not extrapolated without a profile.
MOST_LOAD_FACTOR: Final = 2.0
#: A percentile of fewer requests than this is not acted upon.
LEAST_TTFT_SAMPLES: Final = 10.0
#: A latency above the promise is not blamed on prefill engines that compute less than this part of the time.
IDLE_PREFILL: Final = 0.3
#: No metric of one service is beyond these: larger values are nonsense, smaller ones are zero.
LARGEST: Final = 1e12
SMALLEST: Final = 1e-9
#: A waiting backlog is to be worked off within this time.
BACKLOG_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Need:
    """What one role needs.

    Attributes:
        replicas: At the target utilisation, not rounded; None when the poll does not tell.
        cause: The load in words: what comes, and what one replica can do.
        demand, capacity, unit: The load in numbers, `capacity` of one replica at 100 %.
        symptom: What shows that the ready replicas are too few although their load does not; empty if nothing does.
    """

    replicas: float | None = None
    cause: str = ""
    demand: float | None = None
    capacity: float | None = None
    unit: str = ""
    symptom: str = ""


@dataclass(frozen=True, slots=True)
class Needs:
    """Both roles, and what else the poll shows."""

    prefill: Need
    decode: Need
    notes: tuple[str, ...] = ()


def needs(profile: Profile, slo: SLO, bounds: Bounds, window: Window) -> Needs:
    """What both roles need. Expects a window whose numbers are finite and not negative, or absent."""
    if is_idle(window):
        return Needs(Need(0.0, "no traffic"), Need(0.0, "no traffic"))
    decode_symptom = _decode_symptom(slo, window)
    prefill_symptom, notes = _prefill_symptom(slo, window, decode_short=bool(decode_symptom.text))
    both_short = bool(decode_symptom.text and prefill_symptom.text)
    if both_short:  # overload: one factor for both keeps their ratio
        factor = max(decode_symptom.factor, prefill_symptom.factor)
        decode_symptom = _Symptom(decode_symptom.text, factor)
        prefill_symptom = _Symptom(prefill_symptom.text, factor)
    prefill = _with_symptom(prefill_load(profile, bounds, window), prefill_symptom, window.prefill.ready)
    decode = _with_symptom(decode_load(profile, bounds, window), decode_symptom, window.decode.ready)
    return Needs(prefill, decode, notes)


def is_idle(window: Window) -> bool:
    """Whether the poll positively shows that there is no traffic. Missing values are not zeros."""
    known = (window.arrival_rate, window.completion_rate, window.decode.running)
    if window.arrival_rate is None and window.decode.running is None:
        return False
    rest = (window.in_flight, window.prefill.running, window.prefill.waiting, window.decode.waiting)
    return not any((*known, *rest))


def load_of(window: Window) -> float | None:
    """One number for how much traffic there is, to compare two polls with."""
    return window.arrival_rate if window.arrival_rate is not None else window.completion_rate


# ---- load -----------------------------------------------------------------------------------------------------------


def prefill_load(profile: Profile, bounds: Bounds, window: Window) -> Need:
    """Prompt tokens that must be computed, over what one replica computes; else how busy the engines are."""
    capacity = profile.prefill_tokens_per_second
    tokens = _prompt_tokens(window)
    if capacity and tokens is not None:
        return _load(
            tokens,
            capacity,
            bounds,
            "prompt tokens/s",
            f"{tokens:,.0f} prompt tokens/s arrive where one replica computes {capacity:,.0f}",
        )
    role = window.prefill
    if role.busy is None or not role.ready:
        return Need()
    busy = min(role.busy, 1.0)
    cause = f"prefill engines compute {percent(busy)} of the time"
    return _load(busy * role.ready, 1.0, bounds, "busy replicas", cause)


def _prompt_tokens(window: Window) -> float | None:
    """Prompt tokens per second to compute: the larger of what finishes and what arrives, plus the backlog.

    Under overload completions show the capacity and not the demand, so the arrival rate is multiplied with the mean
    length of finished requests. Prefix cache hits cost nothing.
    """
    finished, rate = window.prompt_tokens_per_second, window.completion_rate
    if finished is None:
        return None
    mean_length = finished / rate if rate else 0.0
    waiting = window.prefill.waiting or 0.0
    tokens = max(finished, (window.arrival_rate or 0.0) * mean_length) + waiting * mean_length / BACKLOG_SECONDS
    if tokens == 0.0 and (window.arrival_rate or waiting):
        return None  # requests come and none has finished yet: their lengths are not known
    return tokens * (1.0 - min(window.cached_share or 0.0, 1.0))


def decode_load(profile: Profile, bounds: Bounds, window: Window) -> Need:
    """The larger need of streams and of tokens over what one replica does; else how full the KV caches are."""
    candidates = [
        need
        for need in (_decode_streams(profile, bounds, window), _decode_tokens(profile, bounds, window))
        if need.replicas is not None
    ]
    if candidates:
        return max(candidates, key=lambda need: need.replicas or 0.0)
    return _decode_fill(bounds, window)


def _decode_streams(profile: Profile, bounds: Bounds, window: Window) -> Need:
    capacity, running = profile.decode_concurrent_requests, window.decode.running
    if not capacity or running is None:
        return Need()
    streams = running + (window.decode.waiting or 0.0)
    cause = f"{streams:,.0f} requests stream or wait where {capacity:,.0f} fit in one replica"
    return _load(streams, capacity, bounds, "requests", cause)


def _decode_tokens(profile: Profile, bounds: Bounds, window: Window) -> Need:
    capacity, generated = profile.decode_tokens_per_second, window.generation_tokens_per_second
    if not capacity or generated is None:
        return Need()
    mean_length = generated / window.completion_rate if window.completion_rate else 0.0
    tokens = max(generated, (window.arrival_rate or 0.0) * mean_length)
    cause = f"{tokens:,.0f} tokens/s are asked for where one replica generates {capacity:,.0f}"
    return _load(tokens, capacity, bounds, "tokens/s", cause)


def _decode_fill(bounds: Bounds, window: Window) -> Need:
    """KV use is the decode signal without a profile: at usual ITL promises decode is bound by memory, not by time."""
    role = window.decode
    if role.kv_usage is None or not role.ready:
        return Need()
    waiting, running = role.waiting or 0.0, role.running or 0.0
    crowd = min(1.0 + waiting / running, MOST_LOAD_FACTOR) if running else 1.0
    fill = min(role.kv_usage, 1.0) * crowd
    cause = f"decode KV caches are {percent(min(role.kv_usage, 1.0))} full"
    if waiting >= 1.0:
        cause += f" and {waiting:,.0f} requests wait for space"
    return _load(fill * role.ready, 1.0, bounds, "full replicas", cause)


def _load(demand: float, capacity: float, bounds: Bounds, unit: str, cause: str) -> Need:
    replicas = demand / (capacity * bounds.target)
    return Need(replicas, f"{cause} (target {percent(bounds.target)})", demand, capacity, unit)


# ---- symptoms -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Symptom:
    text: str = ""
    factor: float = 1.0


def _decode_symptom(slo: SLO, window: Window) -> _Symptom:
    role = window.decode
    waiting = role.waiting or 0.0
    if waiting > DECODE_WAIT_PER_REPLICA * max(role.ready, 1):
        wait = _wait_seconds(waiting, window)
        if wait is None or wait > DECODE_WAIT_SHARE * slo.ttft_seconds:
            part = 1.0 if wait is None else wait / slo.ttft_seconds
            return _Symptom(f"{waiting:,.0f} requests wait for KV space on decode workers", _factor(1.0 + part))
    if window.itl_seconds is not None and window.itl_seconds > slo.itl_seconds:
        over = window.itl_seconds / slo.itl_seconds
        text = f"inter-token latency is {_duration(window.itl_seconds)} where {_duration(slo.itl_seconds)} is promised"
        return _Symptom(text, _factor(over))
    return _Symptom()


def _prefill_symptom(slo: SLO, window: Window, *, decode_short: bool) -> tuple[_Symptom, tuple[str, ...]]:
    role = window.prefill
    waiting = role.waiting or 0.0
    if waiting >= 1.0:
        wait = _wait_seconds(waiting, window)
        if wait is None or wait > PREFILL_WAIT_SHARE * slo.ttft_seconds:
            part = 1.0 if wait is None else wait / slo.ttft_seconds
            return _Symptom(f"{waiting:,.0f} requests wait for prefill", _factor(1.0 + part)), ()
    ttft = window.ttft_seconds
    if ttft is None or ttft <= slo.ttft_seconds or (window.ttft_samples or 0.0) < LEAST_TTFT_SAMPLES:
        return _Symptom(), ()
    late = f"time to first token is {_duration(ttft)} where {_duration(slo.ttft_seconds)} is promised"
    if decode_short:
        return _Symptom(), (f"{late}: requests wait for decode, so prefill is not blamed",)
    if role.busy is not None and role.busy < IDLE_PREFILL:
        return _Symptom(), (
            f"{late}, yet prefill engines compute only {percent(role.busy)} of the time and decode is not short: "
            "look at the KV transfer and the router",
        )
    return _Symptom(late, _factor(ttft / slo.ttft_seconds)), ()


def _wait_seconds(waiting: float, window: Window) -> float | None:
    """How long the last of `waiting` requests will wait, by Little's law at the present throughput."""
    return waiting / window.completion_rate if window.completion_rate else None


def _factor(over: float) -> float:
    return min(max(over, LEAST_SYMPTOM_FACTOR), MOST_SYMPTOM_FACTOR)


def _with_symptom(load: Need, symptom: _Symptom, ready: int) -> Need:
    """A symptom asks for at least one replica more than are ready; where none is, starting ones are the answer."""
    if not symptom.text or not ready:
        return load
    asked = math.ceil(ready * symptom.factor)
    if load.replicas is not None and load.replicas >= asked:
        return load
    return Need(float(asked), symptom.text, load.demand, load.capacity, load.unit, symptom.text)


def percent(part: float) -> str:
    """`0.7` as `70 %`."""
    return f"{part * 100:.0f} %"


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def sanitised(window: Window) -> Window:
    """The window without numbers that cannot be: NaN, infinite or negative ones are absent."""
    return Window(
        prefill=_sane_role(window.prefill),
        decode=_sane_role(window.decode),
        arrival_rate=_sane(window.arrival_rate),
        completion_rate=_sane(window.completion_rate),
        in_flight=_sane(window.in_flight),
        prompt_tokens_per_second=_sane(window.prompt_tokens_per_second),
        generation_tokens_per_second=_sane(window.generation_tokens_per_second),
        cached_share=_sane(window.cached_share),
        ttft_seconds=_sane(window.ttft_seconds),
        itl_seconds=_sane(window.itl_seconds),
        ttft_samples=_sane(window.ttft_samples),
        sample_age_seconds=window.sample_age_seconds,
        fault=window.fault,
        message=window.message,
    )


def _sane_role(role: RoleWindow) -> RoleWindow:
    return RoleWindow(
        ready=max(role.ready, 0),
        starting=max(role.starting, 0),
        draining=max(role.draining, 0),
        reporting=role.reporting,
        running=_sane(role.running),
        waiting=_sane(role.waiting),
        kv_usage=_sane(role.kv_usage),
        busy=_sane(role.busy),
    )


def _sane(value: float | None) -> float | None:
    if value is None or not 0.0 <= value <= LARGEST:  # false for NaN
        return None
    return value if value >= SMALLEST else 0.0
