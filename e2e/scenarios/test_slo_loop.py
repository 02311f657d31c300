"""The SLO loop on real pods: load moves the replicas through Prometheus, within the budget, and never blindly.

The tests share one service and run in this order.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.kubectl import Kubectl, Object, wait_until
from e2e.scenarios.conftest import READY_WITHIN, Client
from e2e.stack import Stack

pytestmark = pytest.mark.timeout(2400)

NAME = "slo"
BUDGET = 3


@pytest.fixture(scope="module")
def kubectl(stack: Stack) -> Iterator[Kubectl]:
    namespace = stack.namespace("slo")
    yield namespace
    namespace.run("delete", "namespace", "slo", "--ignore-not-found", within=180)


@pytest.fixture(scope="module")
def client(stack: Stack, kubectl: Kubectl) -> Client:
    """1P1D that only recommends, with a budget of one more worker, Ready."""
    quick = {
        "scaleUpCooldownSeconds": 10,
        "scaleDownCooldownSeconds": 20,
        "scaleDownStabilizationSeconds": 20,
    }
    scaling = {"mode": "SLO", "apply": "Recommend", "budget": {"accelerators": BUDGET}, "behavior": quick}
    kubectl.apply(stack.service(NAME, scaling=scaling))
    kubectl.wait_ready(NAME, within=READY_WITHIN)
    return Client(stack, kubectl, NAME)


def status(kubectl: Kubectl) -> Object:
    found: Object = kubectl.get("pdinf", NAME)["status"]
    assert found["accelerators"]["inUse"] <= BUDGET, found["accelerators"]
    return found


def workers(found: Object) -> int:
    return int(found["prefill"]["desiredReplicas"]) + int(found["decode"]["desiredReplicas"])


def recommended(found: Object) -> int:
    answer = found.get("recommended", {"prefill": 0, "decode": 0})
    return int(answer["prefill"]) + int(answer["decode"])


def test_recommend_tells_and_changes_nothing(client: Client, kubectl: Kubectl) -> None:
    with client.load(concurrency=12, max_tokens=160) as counts:
        wait_until("three workers are recommended", lambda: recommended(status(kubectl)) == BUDGET, within=180)
        assert workers(status(kubectl)) == 2
    assert counts["failed"] == 0, counts


def test_load_grows_a_role_within_the_budget(client: Client, kubectl: Kubectl) -> None:
    kubectl.patch("pdinf", NAME, {"spec": {"scaling": {"apply": "Auto"}}})
    with client.load(concurrency=12, max_tokens=160) as counts:
        wait_until("a third worker is wanted", lambda: workers(status(kubectl)) == BUDGET, within=180)
        found = status(kubectl)
        newest = found["scaling"]["history"][0]
        assert newest["toPrefill"] + newest["toDecode"] == BUDGET
        assert newest["reason"], "a decision says why"
        wait_until(
            "three workers serve",
            lambda: sum(status(kubectl)[role]["readyReplicas"] for role in ("prefill", "decode")) == BUDGET,
            within=READY_WITHIN,
        )
    assert (counts["failed"], counts["truncated"]) == (0, 0), counts


def test_without_metrics_it_holds(stack: Stack, client: Client, kubectl: Kubectl) -> None:
    stack.lab.stop("prometheus")
    try:
        condition = wait_until(
            "MetricsAvailable is False",
            lambda: (c := kubectl.condition(NAME, "MetricsAvailable")).get("status") == "False" and c,
            within=60,
        )
        assert condition["message"], condition
        held = workers(status(kubectl))
        assert client.burst(requests=4, concurrency=2)["ok"] == 4
        assert workers(status(kubectl)) == held
    finally:
        stack.lab.start("prometheus")
    wait_until(
        "MetricsAvailable is True", lambda: kubectl.condition(NAME, "MetricsAvailable")["status"] == "True", within=120
    )


def test_it_shrinks_after_the_load(client: Client, kubectl: Kubectl) -> None:
    wait_until("two workers are enough", lambda: workers(status(kubectl)) == 2, within=240)
    wait_until("the third worker is gone", lambda: status(kubectl)["accelerators"]["inUse"] == 2, within=240)
    assert client.burst(requests=4, concurrency=2)["ok"] == 4
