"""Signs that the replicas of a role are too few although its load does not say so: queues and broken latencies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pd_operator.scaling.flow import Flow
from pd_operator.scaling.profile import SLO, Bounds
from pd_operator.scaling.window import Window

#: Prefill is short when requests wait for it longer than this part of the TTFT promise (wait = queue ÷ rate, Little).
PREFILL_WAIT_SHARE: Final = 0.3
#: Decode is short when requests wait for KV space longer than this part of the TTFT promise …
DECODE_WAIT_SHARE: Final = 0.1
#: … and more than this many wait for each ready replica: a few are always on their way through the queue.
DECODE_WAIT_PER_REPLICA: Final = 1.0
#: A symptom asks for between this much more …
LEAST_FACTOR: Final = 1.1
#: … and this much more than the ready replicas (published guards step by 10–20 %; small pools need whole replicas).
MOST_FACTOR: Final = 1.5
#: A percentile of fewer requests than this is not acted upon.
LEAST_TTFT_SAMPLES: Final = 10.0


@dataclass(frozen=True, slots=True)
class Symptom:
    """One sign.

    Attributes:
        text: In words; empty if there is none.
        factor: How many times the ready replicas are asked for; 1 keeps them.
    """

    text: str = ""
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class Symptoms:
    """Both roles' signs, what else is to be told, and whether both are short at once."""

    prefill: Symptom = Symptom()
    decode: Symptom = Symptom()
    notes: tuple[str, ...] = ()
    overload: bool = False


def symptoms(slo: SLO, bounds: Bounds, window: Window, flow: Flow) -> Symptoms:
    """What a poll shows. With both roles short it is overload: one factor for both keeps their ratio."""
    decode = _waiting_for_decode(slo, window, flow) or _slow_tokens(slo, window) or Symptom()
    leisure = _leisure(bounds, window, flow)
    prefill = None if leisure else _waiting_for_prefill(slo, flow)
    notes: tuple[str, ...] = ()
    if prefill is None:
        prefill, notes = _late_first_token(slo, window, leisure, decode_short=bool(decode.text))
    if prefill.text and decode.text:
        factor = max(prefill.factor, decode.factor)
        prefill, decode = Symptom(prefill.text, factor), Symptom(decode.text, factor)
    return Symptoms(prefill, decode, notes, overload=bool(prefill.text and decode.text))


def _leisure(bounds: Bounds, window: Window, flow: Flow) -> bool:
    """Whether prefill engines are known to have time to spare, so that neither a queue nor a late token is theirs.

    A queue in front of them is then a burst: what decode let through when it got more space.
    """
    busy = window.prefill.busy
    return busy is not None and min(busy, 1.0) * flow.pressure < bounds.target


def _waiting_for_decode(slo: SLO, window: Window, flow: Flow) -> Symptom | None:
    queue = flow.decode_queue
    if queue <= DECODE_WAIT_PER_REPLICA * max(window.decode.ready, 1):
        return None
    return _queue(queue, flow, DECODE_WAIT_SHARE, slo, f"{queue:,.0f} requests wait for KV space on decode workers")


def _waiting_for_prefill(slo: SLO, flow: Flow) -> Symptom | None:
    queue = flow.prefill_queue
    if queue < 1.0:
        return None
    return _queue(queue, flow, PREFILL_WAIT_SHARE, slo, f"{queue:,.0f} requests wait for prefill")


def _queue(queue: float, flow: Flow, share: float, slo: SLO, text: str) -> Symptom | None:
    wait = queue / flow.passing if flow.passing else None
    if wait is not None and wait <= share * slo.ttft_seconds:
        return None
    if flow.recovering:
        return Symptom(f"{text}, fewer and fewer")
    return Symptom(text, _factor(2.0 if wait is None else 1.0 + wait / slo.ttft_seconds))


def _slow_tokens(slo: SLO, window: Window) -> Symptom | None:
    gap = window.itl_seconds
    if gap is None or gap <= slo.itl_seconds:
        return None
    text = f"inter-token latency is {duration(gap)} where {duration(slo.itl_seconds)} is promised"
    return Symptom(text, _factor(gap / slo.itl_seconds))


def _late_first_token(
    slo: SLO, window: Window, leisure: bool, *, decode_short: bool
) -> tuple[Symptom, tuple[str, ...]]:
    """Blames prefill for a late first token only if neither decode nor prefill's own leisure explains it.

    Engines may report no queue although there is one, so the latency alone has to count where nothing else is known.
    """
    ttft = window.ttft_seconds
    if ttft is None or ttft <= slo.ttft_seconds or (window.ttft_samples or 0.0) < LEAST_TTFT_SAMPLES:
        return Symptom(), ()
    late = f"time to first token is {duration(ttft)} where {duration(slo.ttft_seconds)} is promised"
    if decode_short:
        return Symptom(), (f"{late}: requests wait for decode, so prefill is not blamed",)
    if leisure:
        return Symptom(), (
            f"{late}, yet prefill engines have time to spare and decode is not short: "
            "if it stays so, look at the KV transfer and the router",
        )
    return Symptom(late, _factor(ttft / slo.ttft_seconds)), ()


def _factor(over: float) -> float:
    return min(max(over, LEAST_FACTOR), MOST_FACTOR)


def percent(part: float) -> str:
    """`0.7` as `70 %`."""
    return f"{part * 100:.0f} %"


def duration(seconds: float) -> str:
    """`1.5 s` or `80 ms`."""
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"
