"""What makes a new generation, what makes old and new workers incompatible, and that hashes stay what they are."""

from __future__ import annotations

from typing import Any

import pytest

from pd_operator.plan.generations import generation_of
from tests.unit.plan.world import service

SLO = {"ttftMilliseconds": 90, "itlMilliseconds": 9}
PVC = {"type": "PersistentVolumeClaim", "persistentVolumeClaim": {"claimName": "weights"}}


def _generation(spec: dict[str, Any]) -> tuple[str, str]:
    made = generation_of(service(spec).spec)
    return made.hash, made.compat


def test_hashes_are_the_same_in_every_release() -> None:
    """If this fails, an upgrade of the operator replaces every worker of every fleet."""
    assert _generation({}) == ("e610645d", "a3a694d5")


@pytest.mark.parametrize(
    "spec",
    [
        {"prefill": {"replicas": 7}},
        {"decode": {"minReplicas": 0, "maxReplicas": 9}},
        {"router": {"replicas": 3, "policy": "Random"}},
        {"suspend": True},
        {
            "scaling": {"mode": "SLO", "budget": {"accelerators": 8}},
            "slo": {"ttftMilliseconds": 90, "itlMilliseconds": 9},
        },
        {"scaling": {"mode": "FixedRatio", "fixedRatio": {"prefill": 1, "decode": 3}, "units": 2}},
        {"disruption": {"enabled": False}},
        # The default, spelt out.
        {"engine": {"image": "lmsysorg/sglang:v0.5.23", "args": []}},
    ],
)
def test_counts_and_routing_need_no_new_workers(spec: dict[str, Any]) -> None:
    assert _generation(spec) == _generation({})


@pytest.mark.parametrize(
    "spec",
    [
        {"engine": {"image": "lmsysorg/sglang:v0.5.23-runtime"}},
        {"engine": {"args": ["--max-running-requests", "64"]}},
        {"engine": {"args": ["--log-level=debug"]}},
        {"engine": {"env": [{"name": "OMP_NUM_THREADS", "value": "4"}]}},
        {"engine": {"memFractionStatic": "0.8"}},
        {"model": {"name": "org/tiny", "source": {"huggingFace": {"endpoint": "http://mirror.example"}}}},
        {"prefill": {"resources": {"requests": {"cpu": "8"}}}},
        {"prefill": {"pod": {"nodeSelector": {"pool": "new"}}}},
        {"decode": {"parallelism": {"data": 2}}},
        {"decode": {"drainTimeoutSeconds": 600}},
    ],
)
def test_compatible_changes(spec: dict[str, Any]) -> None:
    changed, before = _generation(spec), _generation({})
    assert changed[0] != before[0]
    assert changed[1] == before[1]


@pytest.mark.parametrize(
    "spec",
    [
        {"model": {"name": "org/other"}},
        {"model": {"name": "org/tiny", "source": {"huggingFace": {"revision": "v2"}}}},
        {"model": {"name": "org/tiny", "source": PVC}},
        {"engine": {"image": "lmsysorg/sglang:v0.5.24"}},
        {"engine": {"image": "registry.example/own-build:7"}},
        {"engine": {"pageSize": 16}},
        {"engine": {"kvCacheDtype": "fp8_e4m3"}},
        {"engine": {"quantization": "fp8"}},
        {"engine": {"args": ["--speculative-algorithm", "EAGLE"]}},
        {"engine": {"args": ["--a-flag-that-is-new"]}},
        {"prefill": {"args": ["--dtype", "float16"]}},
        {"engine": {"env": [{"name": "SGLANG_DISAGG_STAGING_BUFFER", "value": "1"}]}},
        {"decode": {"parallelism": {"tensor": 2}}},
        {"transfer": {"backend": "NIXL"}},
        {"transfer": {"backend": "MooncakeTCP"}},
        {"transfer": {"rdma": {"requirement": "Disabled"}}},
        {"transfer": {"bootstrapPort": 9000}},
    ],
)
def test_changes_that_pair_no_more(spec: dict[str, Any]) -> None:
    assert _generation(spec)[1] != _generation({})[1]
