"""The memory in status: compact, tolerant of garbage, and of other versions."""

from __future__ import annotations

from typing import Any

import pytest

from pd_operator.api.v1alpha1 import PDInferenceService
from pd_operator.scaling.profile import SLO, Bounds, Profile, RoleBounds, bounds_of, profile_of, slo_of
from pd_operator.scaling.state import Lesson, RoleMemory, ScalingState, state_of

FULL = ScalingState(
    prefill=RoleMemory(replicas=2, ready_seen=2),
    decode=RoleMemory(
        replicas=3,
        grown_at=100.0,
        changed_at=200.0,
        seen_at=300.0,
        needs=((250.0, 4), (300.0, 3)),
        pending_since=290.0,
        ready_seen=3,
        lesson=Lesson(2, 1.25, 100.0),
    ),
    missing_since=310.0,
)


def service(status: dict[str, Any] | None = None, **spec: Any) -> PDInferenceService:
    body = {
        "metadata": {"name": "demo", "namespace": "ns", "uid": "1"},
        "spec": {
            "model": {"name": "org/model", "source": {"type": "HuggingFace"}},
            "prefill": {"replicas": 2, "parallelism": {"tensor": 4}},
            "decode": {"replicas": 3, "minReplicas": 2, "maxReplicas": 9, "startupTimeoutSeconds": 120},
            "slo": {"ttftMilliseconds": 2000, "itlMilliseconds": 50},
            "scaling": {"mode": "SLO", "budget": {"accelerators": 40}},
        }
        | spec,
        "status": status or {},
    }
    return PDInferenceService.model_validate(body)


def test_what_is_written_is_read() -> None:
    assert ScalingState.from_json(FULL.to_json()) == FULL


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{}",
        "not json",
        '{"v":1}',
        '{"v":2,"prefill":{"n":1},"decode":{"n":1}}',
        '{"v":1,"prefill":{"n":1},"decode":{"n":-1}}',
        '{"v":1,"prefill":{"n":1},"decode":{"n":1,"at":1e999}}',
        '{"v":1,"prefill":{"n":1},"decode":{"n":1,"needs":[[1]]}}',
        '{"v":1,"prefill":{"n":true},"decode":{"n":1}}',
        '{"v":1,"prefill":{"n":1},"decode":{"n":1,"lesson":"abc"}}',
        '{"v":1,"prefill":{"n":1},"decode":{"n":1,"up":' + "9" * 400 + "}}",
        "[" * 100_000,
    ],
)
def test_garbage_is_a_fresh_memory(text: str) -> None:
    assert ScalingState.from_json(text) == ScalingState()


def test_an_unreadable_memory_keeps_the_decided_counts() -> None:
    found = state_of(service({"scaling": {"prefill": 4, "decode": 7, "state": "garbage"}}))
    assert (found.prefill.replicas, found.decode.replicas) == (4, 7)


def test_a_service_without_a_memory_starts_at_its_declared_counts() -> None:
    found = state_of(service())
    assert (found.prefill.replicas, found.decode.replicas) == (2, 3)


def test_bounds_profile_and_promise_of_a_service() -> None:
    found = service(
        scaling={
            "mode": "SLO",
            "budget": {"accelerators": 40},
            "ratio": {"min": "1:8", "max": "3:2"},
            "behavior": {"targetUtilizationPercent": 80, "maxStepReplicas": 2},
            "metrics": {"maxAgeSeconds": 20, "onMissing": "Floor"},
            "profile": {"decodeConcurrentRequests": 64},
        }
    )
    assert bounds_of(found) == Bounds(
        prefill=RoleBounds(minimum=1, maximum=None, start=2, accelerators=4, start_patience_seconds=600),
        decode=RoleBounds(minimum=2, maximum=9, start=3, accelerators=1, start_patience_seconds=120),
        budget=40,
        ratio_minimum=(1, 8),
        ratio_maximum=(3, 2),
        target=0.8,
        max_step=2,
        max_age_seconds=20,
        floor_when_missing=True,
    )
    assert profile_of(found) == Profile(decode_concurrent_requests=64)
    assert slo_of(found) == SLO(ttft_seconds=2.0, itl_seconds=0.05)


def test_a_promise_that_is_missing_is_named() -> None:
    with pytest.raises(ValueError, match=r"ns/demo has no slo: set slo\.ttftMilliseconds"):
        slo_of(service(slo=None))
