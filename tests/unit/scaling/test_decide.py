"""The policy by example: what each kind of evidence leads to, and in which words."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from pd_operator.scaling.budget import Limit
from pd_operator.scaling.decide import Decision, Step, decide
from pd_operator.scaling.profile import SLO, Bounds, Profile, RoleBounds
from pd_operator.scaling.state import RoleMemory, ScalingState
from pd_operator.scaling.window import MetricsFault, RoleWindow, Window

START = 1_750_000_000.0
PROMISE = SLO(ttft_seconds=2.0, itl_seconds=0.05)
EIGHT_STREAMS = Profile(decode_concurrent_requests=8)


def window(prefill: dict[str, Any] | None = None, decode: dict[str, Any] | None = None, **values: Any) -> Window:
    """A quiet poll of one ready replica of each role, with changes."""
    return Window(
        prefill=RoleWindow(**({"ready": 1, "running": 0, "waiting": 0, "busy": 0.4} | (prefill or {}))),
        decode=RoleWindow(**({"ready": 1, "running": 4, "waiting": 0, "kv_usage": 0.4} | (decode or {}))),
        **({"arrival_rate": 2.0, "completion_rate": 2.0, "sample_age_seconds": 3.0} | values),
    )


IDLE = window({"busy": 0.0}, {"running": 0, "kv_usage": 0.0}, arrival_rate=0.0, completion_rate=0.0, in_flight=0.0)


@dataclass
class Service:
    """A service that follows its decisions: replicas are ready at once."""

    profile: Profile = field(default_factory=Profile)
    bounds: Bounds = field(default_factory=lambda: Bounds(budget=8))
    state: ScalingState = field(default_factory=ScalingState)
    now: float = START

    def poll(self, seen: Window, seconds: float = 15.0) -> Decision:
        self.now += seconds
        decision = decide(self.profile, PROMISE, self.bounds, seen, self.now, self.state)
        self.state = ScalingState.from_json(decision.state.to_json())  # as over a restart
        return decision

    def poll_for(self, seconds: float, seen: Window) -> list[Decision]:
        return [self.poll(seen) for _ in range(int(seconds // 15))]


def at(prefill: int, decode: int, **kwargs: Any) -> Service:
    return Service(state=ScalingState(RoleMemory(replicas=prefill), RoleMemory(replicas=decode)), **kwargs)


def counts(decision: Decision) -> tuple[int, int]:
    return decision.prefill, decision.decode


# ---- load -----------------------------------------------------------------------------------------------------------


def test_streams_over_what_a_replica_fits() -> None:
    decision = Service(EIGHT_STREAMS).poll(window(decode={"running": 14}))
    assert counts(decision) == (1, 3)
    assert decision.reason == "decode 1 → 3: 14 requests stream where 8 fit in one replica (target 70 %)"
    assert decision.actions == (Step("decode", 1, 3, accelerators=2, load_before=14 / 8, load_after=14 / 24),)


def test_tokens_that_arrive_count_and_not_only_those_that_leave() -> None:
    """Under overload completions show the capacity: 10 requests/s arrive, 4 finish, 200 tokens each."""
    profile = Profile(decode_tokens_per_second=1000, prefill_tokens_per_second=10_000)
    seen = window(
        arrival_rate=10.0, completion_rate=4.0, generation_tokens_per_second=800.0, prompt_tokens_per_second=8000.0
    )
    decision = Service(profile).poll(seen)
    assert counts(decision) == (3, 3)  # 20,000 ÷ 7,000 prompt tokens and 2,000 ÷ 700 generated ones
    assert "20,000 prompt tokens/s arrive where one replica computes 10,000" in decision.reason


def test_prompt_tokens_in_the_prefix_cache_cost_nothing() -> None:
    profile = Profile(prefill_tokens_per_second=10_000)
    seen = window(arrival_rate=2.0, completion_rate=2.0, prompt_tokens_per_second=20_000.0, cached_share=0.7)
    assert Service(profile).poll(seen).prefill == 1
    assert Service(profile).poll(replace(seen, cached_share=None)).prefill == 3


def test_without_a_profile_full_replicas_count() -> None:
    decision = Service().poll(window({"busy": 0.95}, {"kv_usage": 0.9}))
    assert counts(decision) == (2, 2)
    assert "prefill engines compute 95 % of the time (target 70 %)" in decision.reason
    assert "decode KV caches are 90 % full (target 70 %)" in decision.reason


# ---- symptoms and whom they belong to --------------------------------------------------------------------------------


def test_requests_that_wait_for_kv_space_make_decode_grow_and_not_prefill() -> None:
    """The bootstrap queue is on prefill workers, and the late first token looks like prefill's fault."""
    seen = window({"busy": 0.5}, {"waiting": 12, "kv_usage": 0.55}, ttft_seconds=6.0, ttft_samples=100.0)
    decision = Service().poll(seen)
    assert counts(decision) == (1, 2)
    assert "decode 1 → 2" in decision.reason


def test_requests_that_wait_for_prefill_with_space_in_hand_make_prefill_grow_and_not_decode() -> None:
    """The same queue in front of decode, but its KV space is full of requests that wait for prefill."""
    seen = window(
        {"busy": 1.0, "waiting": 60}, {"waiting": 500, "running": 8, "held": 60, "kv_usage": 1.0}, arrival_rate=3.0
    )
    decision = Service().poll(seen)
    assert counts(decision) == (3, 1)
    assert decision.reason.startswith("prefill 1 → 3: prefill engines compute 100 % of the time")


def test_a_queue_that_is_being_worked_off_needs_no_more() -> None:
    seen = window({"busy": 1.0, "waiting": 100, "finished": 3.0}, {"running": 20, "held": 100, "kv_usage": 1.0})
    assert counts(Service().poll(replace(seen, arrival_rate=2.0))) == (1, 1)
    assert counts(Service().poll(replace(seen, arrival_rate=4.0))) == (2, 1)


def test_a_queue_of_its_own_makes_prefill_grow() -> None:
    decision = Service().poll(window({"waiting": 8, "busy": None}))
    assert counts(decision) == (2, 1)
    assert decision.reason == "prefill 1 → 2: 8 requests wait for prefill"


def test_a_late_first_token_is_prefills_when_decode_does_not_explain_it() -> None:
    late: dict[str, Any] = {"ttft_seconds": 3.0, "ttft_samples": 50.0}
    assert counts(Service().poll(window({"busy": None}, **late))) == (2, 1)
    decision = Service().poll(window({"busy": 0.1}, **late))
    assert counts(decision) == (1, 1)
    assert "look at the KV transfer and the router" in decision.reason


def test_a_percentile_of_a_few_requests_is_noise() -> None:
    assert counts(Service().poll(window({"busy": None}, ttft_seconds=9.0, ttft_samples=4.0))) == (1, 1)


def test_slow_tokens_make_decode_grow() -> None:
    decision = Service().poll(window(itl_seconds=0.08))
    assert counts(decision) == (1, 2)
    assert decision.reason == "decode 1 → 2: inter-token latency is 80 ms where 50 ms is promised"


def test_both_short_grow_in_their_ratio() -> None:
    seen = window({"ready": 2, "waiting": 20, "busy": 0.95}, {"ready": 4, "waiting": 30, "running": 90})
    decision = at(2, 4, bounds=Bounds(budget=20)).poll(seen)
    assert counts(decision) == (3, 6)


def test_both_short_at_the_budget_hold() -> None:
    seen = window({"ready": 2, "waiting": 20, "busy": 0.95}, {"ready": 4, "waiting": 30, "running": 90})
    service = at(2, 4, bounds=Bounds(budget=6))
    for decision in service.poll_for(1200, seen):
        assert counts(decision) == (2, 4)
    assert "decode needs 6 replicas but the budget of 6 accelerators leaves 4" in decision.reason


# ---- limits ---------------------------------------------------------------------------------------------------------


def test_the_budget_is_told_in_words() -> None:
    service = at(1, 3, profile=EIGHT_STREAMS, bounds=Bounds(budget=4))
    decision = service.poll(window(decode={"ready": 3, "running": 22}))
    assert counts(decision) == (1, 3)
    assert decision.reason == "decode needs 4 replicas but the budget of 4 accelerators leaves 3"
    assert Limit.BUDGET in decision.limits


def test_draining_replicas_hold_their_accelerators() -> None:
    service = Service(EIGHT_STREAMS, Bounds(budget=4))
    assert counts(service.poll(window({"draining": 2}, {"running": 14}))) == (1, 1)
    assert counts(service.poll(window({}, {"running": 14}))) == (1, 3)


def test_a_smaller_budget_is_obeyed_at_once_even_without_metrics() -> None:
    service = at(2, 6, bounds=Bounds(budget=4))
    decision = service.poll(Window(fault=MetricsFault.UNAVAILABLE))
    assert decision.prefill + decision.decode == 4
    assert counts(decision) == (1, 3)
    assert "the budget of 4 accelerators leaves 3" in decision.reason


def test_growth_is_stepped_and_cooled_down() -> None:
    service = Service(EIGHT_STREAMS, Bounds(budget=50, max_step=4, scale_up_cooldown_seconds=30))
    seen = window(decode={"running": 100})
    assert [service.poll(seen).decode for _ in range(6)] == [5, 5, 9, 9, 13, 13]


def test_ratio_bounds_bring_the_other_role_along() -> None:
    service = Service(EIGHT_STREAMS, Bounds(budget=20, ratio_minimum=(1, 2)))
    decision = service.poll(window(decode={"running": 24}))
    assert counts(decision) == (3, 5)
    assert "prefill 1 → 3" in decision.reason


# ---- shrinking ------------------------------------------------------------------------------------------------------


def test_no_traffic_shrinks_to_the_minimum_in_time() -> None:
    service = at(2, 4)
    service.poll_for(60, window({"ready": 2, "busy": 0.7}, {"ready": 4, "kv_usage": 0.7}))
    decisions = service.poll_for(900, IDLE)
    shrunk = [i for i, d in enumerate(decisions) if counts(d) == (1, 1)]
    assert 300 <= shrunk[0] * 15 <= 400
    assert counts(decisions[-1]) == (1, 1)
    assert decisions[shrunk[0]].reason == "prefill 2 → 1: no traffic; decode 4 → 1: no traffic"
    assert decisions[-1].reason == "steady: prefill 1 and decode 1 fit the load"


def test_missing_metrics_are_not_idleness() -> None:
    service = at(2, 4)
    service.poll(IDLE)
    for decision in service.poll_for(3600, Window(fault=MetricsFault.UNAVAILABLE, message="Prometheus is away")):
        assert counts(decision) == (2, 4)
    assert decision.reason == "hold: no metrics for over 30 min (Prometheus is away)"


def test_after_a_gap_shrinking_waits_anew() -> None:
    service = at(1, 4)
    service.poll_for(285, IDLE)
    service.poll_for(200, Window(fault=MetricsFault.STALE))
    assert {counts(d) for d in service.poll_for(270, IDLE)} == {(1, 4)}
    assert counts(service.poll_for(120, IDLE)[-1]) == (1, 1)


def test_every_tenth_poll_missing_does_not_stop_shrinking() -> None:
    service = at(1, 4)
    lost = Window(fault=MetricsFault.UNAVAILABLE)
    decisions = [service.poll(lost if i % 10 == 9 else IDLE) for i in range(40)]
    assert counts(decisions[-1]) == (1, 1)


def test_a_role_that_does_not_report_completely_may_grow_and_not_shrink() -> None:
    service = at(1, 4, profile=EIGHT_STREAMS)
    partial = window(decode={"ready": 4, "reporting": 3, "running": 2})
    assert {counts(d) for d in service.poll_for(1200, partial)} == {(1, 4)}
    assert service.poll(window(decode={"ready": 4, "reporting": 3, "running": 30})).decode == 6


def test_what_latency_taught_is_kept_while_the_load_stays() -> None:
    """Two replicas hold the promise that one broke; going back would break it again."""
    service = Service(bounds=Bounds(budget=8))
    slow, good = window(itl_seconds=0.08), window(decode={"ready": 2, "kv_usage": 0.2}, itl_seconds=0.02)
    assert service.poll(slow).decode == 2
    assert {d.decode for d in service.poll_for(4 * 3600, good)} == {2}
    calm = replace(good, arrival_rate=0.5, completion_rate=0.5)
    assert service.poll_for(600, calm)[-1].decode == 1


# ---- replicas that do not come ---------------------------------------------------------------------------------------


def test_starting_replicas_answer_the_symptom_that_asked_for_them() -> None:
    service = Service()
    slow = window(decode={"ready": 1, "starting": 1}, itl_seconds=0.3)
    service.poll(window(itl_seconds=0.3))
    assert {d.decode for d in service.poll_for(500, slow)} == {2}


def test_replicas_that_never_start_are_made_up_for_once() -> None:
    service = Service()
    service.poll(window(itl_seconds=0.3))
    stuck = window(decode={"ready": 1, "starting": 1}, itl_seconds=0.3)
    decisions = service.poll_for(3600, stuck)
    assert decisions[0].decode == 2
    assert decisions[-1].decode == 3
    more = window(decode={"ready": 1, "starting": 2}, itl_seconds=0.3)
    assert {d.decode for d in service.poll_for(7200, more)} == {3}


def test_a_load_with_a_profile_does_not_ask_again_for_what_is_starting() -> None:
    service = Service(EIGHT_STREAMS)
    assert service.poll(window(decode={"running": 8, "waiting": 6})).decode == 2
    busy = window(decode={"ready": 1, "starting": 1, "running": 8, "waiting": 6})
    assert {d.decode for d in service.poll_for(500, busy)} == {2}
    assert service.poll(window(decode={"ready": 2, "running": 14})).decode == 3


# ---- holding --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (Window(fault=MetricsFault.EMPTY), "hold: no metrics (Prometheus has no series of this service)"),
        (replace(IDLE, sample_age_seconds=61.0), "hold: no metrics (the newest samples are older than 60 s)"),
        (replace(IDLE, sample_age_seconds=float("nan")), "hold: no metrics (the newest samples are older than 60 s)"),
        (Window(), "prefill stays at 2: its metrics are missing; decode stays at 4: its metrics are missing"),
    ],
)
def test_what_cannot_be_used_holds_and_says_why(seen: Window, words: str) -> None:
    decision = at(2, 4).poll(seen)
    assert counts(decision) == (2, 4)
    assert decision.reason == words


def test_floor_mode_goes_back_to_the_declared_counts() -> None:
    declared = Bounds(prefill=RoleBounds(start=2), decode=RoleBounds(start=3), budget=8, floor_when_missing=True)
    decision = at(1, 6, bounds=declared).poll(Window(fault=MetricsFault.UNAVAILABLE))
    assert counts(decision) == (2, 6)


def test_a_clock_that_was_set_back_freezes_nothing() -> None:
    service = Service(EIGHT_STREAMS)
    service.now += 1e9
    service.poll(window(decode={"running": 14}))
    service.now = START
    service.poll_for(60, window(decode={"running": 40}))
    assert counts(service.poll(window(decode={"running": 40}))) == (1, 7)
