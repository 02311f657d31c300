"""What people see of a service through kubectl."""

from __future__ import annotations

import re

import pytest

from e2e.kubectl import Kubectl
from e2e.operator_process import OperatorProcess
from e2e.rest import Rest
from tests.cluster.support import eventually, service

STATUS = {
    "observedGeneration": 1,
    "conditions": [
        {
            "type": "Ready",
            "status": "True",
            "reason": "AsDesired",
            "message": "Everything runs as asked.",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "observedGeneration": 1,
        }
    ],
    "prefill": {"summary": "2/2"},
    "decode": {"summary": "5/6"},
    "ratio": "1:3",
    "accelerators": {"inUse": 8},
    "slo": {"ttftMilliseconds": 850, "itlMilliseconds": 31},
}


@pytest.fixture
def written(rest: Rest, namespace: str, _operator: OperatorProcess) -> Rest:
    """A service `demo` with a status by hand; no operator is there to correct it."""
    _operator.stop()
    rest.apply(service("demo", namespace))
    rest.patch("PDInferenceService", "demo", namespace, {"status": STATUS}, subresource="status")
    return rest


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("pdinf.spec", ["prefill", "decode", "Desired state: one model, served by prefill and decode workers"]),
        ("pdinf.spec.prefill", ["replicas", "parallelism", "drainTimeoutSeconds", "How long a worker that is to go"]),
        ("pdinf.spec.scaling.mode", ["ENUM: Manual FixedRatio SLO", "units × ratio"]),
        ("pdinf.spec.transfer.rdma.requirement", ["Required", "a worker without usable RDMA fails loudly"]),
        ("pdinf.status.conditions", ["lastTransitionTime", "kstatus"]),
    ],
)
def test_explain_reads_well(kubectl: Kubectl, path: str, words: list[str]) -> None:
    # a new CRD is served a moment before it can be explained
    text = " ".join(eventually(f"explain {path}", lambda: kubectl.run("explain", path), within=20).split())
    assert [word for word in words if word not in text] == [], text
    assert "<no description>" not in text


def test_no_field_is_left_unexplained(kubectl: Kubectl) -> None:
    listed = kubectl.run("explain", "pdinf", "--recursive")
    assert "<empty>" not in kubectl.run("explain", "pdinf.spec.decode.parallelism")
    assert {"prefill", "decode", "router", "budget"} <= set(re.findall(r"^\s+(\w+)\t", listed, re.MULTILINE))


def test_the_table_tells_the_state(written: Rest, kubectl: Kubectl) -> None:
    header, row = kubectl.run("get", "pdinf").splitlines()
    assert header.split() == ["NAME", "READY", "PREFILL", "DECODE", "RATIO", "GPUS", "MODEL", "AGE"]
    assert row.split()[:7] == ["demo", "True", "2/2", "5/6", "1:3", "8", "meta-llama/Llama-3.1-8B-Instruct"]
    wide_header, wide_row = kubectl.run("get", "pdinf", "-o", "wide").splitlines()
    assert wide_header.split()[-4:-1] == ["TTFT", "ITL", "REASON"]
    assert "850" in wide_row
    assert "Everything runs as asked." in wide_row


def test_kubectl_wait_and_the_category_work(written: Rest, kubectl: Kubectl) -> None:
    kubectl.run("wait", "pdinf/demo", "--for=condition=Ready", "--timeout=5s")
    assert "demo" in kubectl.run("get", "ai")


def test_scale_sets_the_units(rest: Rest, kubectl: Kubectl, namespace: str) -> None:
    rest.apply(
        service("demo", namespace, {"scaling": {"mode": "FixedRatio", "fixedRatio": {"prefill": 1, "decode": 3}}})
    )
    kubectl.run("scale", "pdinf/demo", "--replicas=3")
    assert rest.get("PDInferenceService", "demo", namespace)["spec"]["scaling"]["units"] == 3


def test_status_is_a_subresource(written: Rest, namespace: str) -> None:
    """A user's apply cannot set status, and the operator's status does not count as a change of the spec."""
    written.apply({**service("demo", namespace), "status": {"ratio": "9:9"}})
    found = written.get("PDInferenceService", "demo", namespace)
    assert found["status"]["ratio"] == STATUS["ratio"]
    assert found["metadata"]["generation"] == 1
