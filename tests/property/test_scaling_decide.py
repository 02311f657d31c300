"""Rules that hold for any window, any memory and any bounds."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import random
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pd_operator.scaling.budget import Room, fit
from pd_operator.scaling.decide import decide
from pd_operator.scaling.profile import SLO, Bounds, Profile, RoleBounds
from pd_operator.scaling.state import MAX_NEEDS, Lesson, RoleMemory, ScalingState
from pd_operator.scaling.window import MetricsFault, RoleWindow, Window

NOW = 1_750_000_000.0

settings.register_profile("scaling", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("scaling")

numbers = st.none() | st.floats(allow_nan=True, allow_infinity=True) | st.floats(0, 1e4) | st.sampled_from([0.0, 1.0])
counts = st.integers(0, 40)


@st.composite
def role_windows(draw: st.DrawFn) -> RoleWindow:
    return RoleWindow(
        ready=draw(counts),
        starting=draw(counts),
        draining=draw(counts),
        reporting=draw(st.none() | st.integers(-1, 50)),
        running=draw(numbers),
        waiting=draw(numbers),
        kv_usage=draw(numbers),
        busy=draw(numbers),
    )


@st.composite
def windows(draw: st.DrawFn) -> Window:
    names = [f.name for f in dataclasses.fields(Window) if f.type == "float | None"]
    values: dict[str, Any] = {name: draw(numbers) for name in names}
    return Window(
        prefill=draw(role_windows()),
        decode=draw(role_windows()),
        fault=draw(st.none() | st.none() | st.none() | st.sampled_from(MetricsFault)),
        **values,
    )


@st.composite
def role_bounds(draw: st.DrawFn) -> RoleBounds:
    minimum = draw(st.integers(1, 6))
    maximum = draw(st.none() | st.integers(minimum, 20))
    return RoleBounds(
        minimum=minimum,
        maximum=maximum,
        start=draw(st.integers(minimum, maximum or 20)),
        accelerators=draw(st.sampled_from([1, 2, 4, 8, 16])),
    )


@st.composite
def bounds(draw: st.DrawFn) -> Bounds:
    prefill, decode = draw(role_bounds()), draw(role_bounds())
    least = prefill.minimum * prefill.accelerators + decode.minimum * decode.accelerators
    return Bounds(
        prefill=prefill,
        decode=decode,
        budget=draw(st.none() | st.integers(least, least + 300)),
        ratio_minimum=draw(st.sampled_from([(1, 64), (1, 8), (1, 2), (1, 1)])),
        ratio_maximum=draw(st.sampled_from([(64, 1), (8, 1), (2, 1), (1, 1)])),
        target=draw(st.sampled_from([0.01, 0.5, 0.7, 1.0])),
        scale_up_cooldown_seconds=draw(st.sampled_from([0, 30])),
        scale_down_cooldown_seconds=draw(st.sampled_from([0, 300])),
        scale_down_stabilization_seconds=draw(st.sampled_from([0, 300])),
        max_step=draw(st.integers(1, 10)),
        floor_when_missing=draw(st.booleans()),
    )


@st.composite
def memories(draw: st.DrawFn) -> RoleMemory:
    times = st.none() | st.floats(NOW - 4000, NOW + 4000)
    lesson = draw(st.none() | st.builds(Lesson, replicas=counts, load=st.floats(0, 100), at=st.floats(0, NOW)))
    return RoleMemory(
        replicas=draw(st.none() | counts),
        grown_at=draw(times),
        changed_at=draw(times),
        seen_at=draw(times),
        needs=tuple(draw(st.lists(st.tuples(st.floats(NOW - 1000, NOW + 1000), counts), max_size=6))),
        pending_since=draw(times),
        ready_seen=draw(counts),
        lesson=lesson,
    )


@st.composite
def states(draw: st.DrawFn) -> ScalingState:
    return ScalingState(draw(memories()), draw(memories()), draw(st.none() | st.just(NOW - 100)))


profiles = st.builds(
    Profile,
    prefill_tokens_per_second=st.none() | st.floats(1, 1e6),
    decode_tokens_per_second=st.none() | st.floats(1, 1e6),
    decode_concurrent_requests=st.none() | st.floats(1, 1e4),
)
slos = st.builds(SLO, ttft_seconds=st.floats(0.001, 60), itl_seconds=st.floats(0.001, 1))


def cost(allowed: Bounds, prefill: int, decode: int) -> int:
    return prefill * allowed.prefill.accelerators + decode * allowed.decode.accelerators


def before(allowed: Bounds, state: ScalingState) -> tuple[int, int]:
    return (
        allowed.prefill.start if state.prefill.replicas is None else state.prefill.replicas,
        allowed.decode.start if state.decode.replicas is None else state.decode.replicas,
    )


@settings(max_examples=120)
@given(profiles, slos, bounds(), windows(), states())
def test_any_window_gives_a_decision_within_all_limits(
    profile: Profile, slo: SLO, allowed: Bounds, window: Window, state: ScalingState
) -> None:
    decision = decide(profile, slo, allowed, window, NOW, state)
    for role, count in ((allowed.prefill, decision.prefill), (allowed.decode, decision.decode)):
        assert max(role.minimum, 1) <= count <= (role.maximum or 1000)
    if allowed.budget is not None:
        assert cost(allowed, decision.prefill, decision.decode) <= allowed.budget
    assert decision.reason
    assert len(decision.reason) <= 1024
    assert len(decision.explain.inputs_json()) <= 2048
    assert (decision.state.prefill.replicas, decision.state.decode.replicas) == (decision.prefill, decision.decode)


@settings(max_examples=80)
@given(profiles, slos, bounds(), windows(), states())
def test_growth_fits_the_budget_beside_pending_and_draining_replicas(
    profile: Profile, slo: SLO, allowed: Bounds, window: Window, state: ScalingState
) -> None:
    assume(allowed.budget is not None)
    was = before(allowed, state)
    assume(was[0] >= allowed.prefill.minimum and was[1] >= allowed.decode.minimum)
    decision = decide(profile, slo, allowed, window, NOW, state)
    if decision.prefill > was[0] or decision.decode > was[1]:
        present = cost(
            allowed,
            max(decision.prefill, window.prefill.ready + window.prefill.starting) + window.prefill.draining,
            max(decision.decode, window.decode.ready + window.decode.starting) + window.decode.draining,
        )
        assert present <= (allowed.budget or math.inf)


def settled(allowed: Bounds, window: Window, state: ScalingState) -> bool:
    """Whether the present counts are within all limits, so that nothing but metrics may move them."""
    pair = before(allowed, state)
    room = Room.of(allowed, pair, window.prefill, window.decode)
    return fit(pair, room).pair == pair


@settings(max_examples=80)
@given(profiles, slos, bounds(), windows(), states(), st.sampled_from(MetricsFault))
def test_a_poll_that_failed_changes_nothing(
    profile: Profile, slo: SLO, allowed: Bounds, window: Window, state: ScalingState, fault: MetricsFault
) -> None:
    allowed = dataclasses.replace(allowed, floor_when_missing=False)
    window = dataclasses.replace(window, fault=fault)
    assume(settled(allowed, window, state))
    decision = decide(profile, slo, allowed, window, NOW, state)
    assert (decision.prefill, decision.decode) == before(allowed, state)
    assert decision.actions == ()
    assert decision.reason.startswith("hold: no metrics")


@settings(max_examples=60)
@given(profiles, slos, bounds(), states(), st.floats() | st.none())
def test_an_empty_window_changes_nothing(
    profile: Profile, slo: SLO, allowed: Bounds, state: ScalingState, age: float | None
) -> None:
    window = Window(RoleWindow(ready=1), RoleWindow(ready=1), sample_age_seconds=age)
    allowed = dataclasses.replace(allowed, floor_when_missing=False)
    assume(settled(allowed, window, state))
    decision = decide(profile, slo, allowed, window, NOW, state)
    assert (decision.prefill, decision.decode) == before(allowed, state)


@settings(max_examples=80)
@given(profiles, slos, bounds(), windows(), states())
def test_a_fresh_memory_never_shrinks_at_once(
    profile: Profile, slo: SLO, allowed: Bounds, window: Window, state: ScalingState
) -> None:
    allowed = dataclasses.replace(
        allowed, scale_down_stabilization_seconds=300, ratio_minimum=(1, 64), ratio_maximum=(64, 1)
    )
    state = ScalingState(RoleMemory(replicas=state.prefill.replicas), RoleMemory(replicas=state.decode.replicas))
    assume(settled(allowed, window, state))
    decision = decide(profile, slo, allowed, window, NOW, state)
    was = before(allowed, state)
    assert decision.prefill >= was[0]
    assert decision.decode >= was[1]


@settings(max_examples=80)
@given(profiles, slos, bounds(), windows(), states())
def test_the_memory_survives_a_restart(
    profile: Profile, slo: SLO, allowed: Bounds, window: Window, state: ScalingState
) -> None:
    first = decide(profile, slo, allowed, window, NOW, state)
    text = first.state.to_json()
    assert len(text) <= 16_384
    restored = ScalingState.from_json(text)
    assert restored.to_json() == text
    again = decide(profile, slo, allowed, window, NOW + 1, restored)
    kept = decide(profile, slo, allowed, window, NOW + 1, first.state)
    assert (again.prefill, again.decode) == (kept.prefill, kept.decode)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["v", "n", "prefill", "decode"]), inner)
    ),
    max_leaves=8,
)


@settings(max_examples=80)
@given(st.text(max_size=60) | json_values.map(repr), json_values, json_values)
def test_garbage_is_a_fresh_memory(text: str, prefill: object, decode: object) -> None:
    assert ScalingState.from_json(text) == ScalingState()
    state = ScalingState.from_json(json.dumps({"v": 1, "prefill": prefill, "decode": decode}))
    assert isinstance(state, ScalingState)


@settings(max_examples=15)
@given(st.lists(st.tuples(st.integers(1, 400), st.floats(0, 900)), min_size=60, max_size=100))
def test_the_memory_stays_small_whatever_the_load_does(polls: list[tuple[int, float]]) -> None:
    allowed = Bounds(scale_down_stabilization_seconds=86_400, max_step=1000)
    state, now = ScalingState(), NOW
    for pause, streams in polls:
        now += pause
        window = Window(
            RoleWindow(ready=1, busy=0.5, waiting=0, running=0),
            RoleWindow(ready=1, running=streams, waiting=0, kv_usage=0.1),
            arrival_rate=1,
            completion_rate=1,
        )
        state = decide(Profile(decode_concurrent_requests=1), SLO(2, 0.05), allowed, window, now, state).state
        assert len(state.decode.needs) <= MAX_NEEDS
        assert len(state.to_json()) <= 4096


@settings(max_examples=80)
@given(bounds(), windows(), counts, counts, counts, counts)
def test_fitting_prefers_what_is_wanted(allowed: Bounds, window: Window, p: int, d: int, cp: int, cd: int) -> None:
    room = Room.of(allowed, (cp, cd), window.prefill, window.decode)
    fitted = fit((p, d), room)
    assert room.settled_cost(fitted.pair) <= (allowed.budget or math.inf)
    inside = p >= allowed.prefill.minimum and d >= allowed.decode.minimum
    inside = inside and p <= (allowed.prefill.maximum or 1000) and d <= (allowed.decode.maximum or 1000)
    if inside and room.affords((p, d)) and room.balanced((p, d)):
        assert fitted.pair == (p, d)
        assert fitted.limits == (frozenset(), frozenset())
    elif fitted.pair != (p, d):
        assert fitted.limits[0] | fitted.limits[1]


@settings(max_examples=25)
@given(st.floats(0.1, 40), st.floats(0.05, 6), st.integers(0, 2**32), st.integers(1, 12), st.booleans())
def test_constant_load_with_noise_never_reverses(
    streams: float, busy: float, seed: int, start: int, known: bool
) -> None:
    """Fifty minutes of ±15 % noise around one load, replicas ready two polls after they are asked for."""
    dice = random.Random(seed)
    noise = [dice.uniform(0.85, 1.15) for _ in range(200)]
    allowed = Bounds(prefill=RoleBounds(maximum=20, start=start), decode=RoleBounds(maximum=20, start=start))
    profile = Profile(decode_concurrent_requests=8) if known else Profile()
    state, now = ScalingState(), NOW
    asked = [(start, start)] * 3
    for factor in noise:
        now += 15
        p, d = asked[-3]
        p, d = min(p, asked[-1][0]), min(d, asked[-1][1])
        window = Window(
            RoleWindow(ready=p, starting=asked[-1][0] - p, busy=min(busy * factor / p, 1), waiting=0, running=0),
            RoleWindow(
                ready=d,
                starting=asked[-1][1] - d,
                running=streams * factor,
                waiting=0,
                kv_usage=min(streams * factor / 10 / d, 1),
            ),
            arrival_rate=2 * factor,
            completion_rate=2 * factor,
        )
        decision = decide(profile, SLO(2, 0.05), allowed, window, now, state)
        state = decision.state
        asked.append((decision.prefill, decision.decode))
    for role in (0, 1):
        moves = [b[role] - a[role] for a, b in itertools.pairwise(asked) if a[role] != b[role]]
        assert all(m > 0 for m in moves) or all(m < 0 for m in moves), moves
