"""A pair of real engines behind the real router: right answers, many at once, scaled, hurt, and removed.

The tests share one service and run in this order; each leaves it Ready.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.kubectl import Kubectl, names, wait_until
from e2e.scenarios.conftest import READY_WITHIN, Client
from e2e.sglang_cpu.reference import reference
from e2e.stack import Stack

pytestmark = pytest.mark.timeout(2400)

NAME = "pair"
WORKERS = f"pdinference.dev/service={NAME},pdinference.dev/role in (prefill, decode)"
PROMPTS = (
    "the capital city of France is",
    "hello world, how are you today?",
    "hello hello hello",
    "Paris",
    "how are you",
    "what is the city of today",
    "the the the capital",
    "France is Paris is France",
    "you are hello",
    "a b c d e f g",
    "1 2 3 4 5 6",
    "the world today, and the world of tomorrow: how is it?",
)


@pytest.fixture(scope="module")
def kubectl(stack: Stack) -> Iterator[Kubectl]:
    namespace = stack.namespace("pair")
    yield namespace
    namespace.run("delete", "namespace", "pair", "--ignore-not-found", within=180)


@pytest.fixture(scope="module")
def client(stack: Stack, kubectl: Kubectl) -> Client:
    """One unit of a fixed 1:1 ratio, Ready."""
    fixed = {"mode": "FixedRatio", "fixedRatio": {"prefill": 1, "decode": 1}, "units": 1, "budget": None}
    kubectl.apply(stack.service(NAME, scaling=fixed))
    kubectl.wait_ready(NAME, within=READY_WITHIN)
    return Client(stack, kubectl, NAME)


def summaries(kubectl: Kubectl) -> tuple[str, str]:
    status = kubectl.get("pdinf", NAME)["status"]
    return status["prefill"]["summary"], status["decode"]["summary"]


def children(kubectl: Kubectl) -> dict[str, str]:
    """Every object of the service but pods, with its resource version."""
    kinds = "statefulset,deployment,service,serviceaccount,role,rolebinding,poddisruptionbudget"
    found = kubectl.list(kinds, f"pdinference.dev/service={NAME}")
    return {
        f"{item['kind']}/{item['metadata']['name']}": item["metadata"][
            "generation" if "generation" in item["metadata"] else "uid"
        ]
        for item in found
    }


def test_the_pair_answers_with_the_tokens_of_one_server(client: Client, stack: Stack, kubectl: Kubectl) -> None:
    """Greedy tokens are equal only if every byte of the KV cache arrived where it belongs."""
    with reference(stack, kubectl) as alone:
        expected = [alone.ask(prompt, max_tokens=24)["text"] for prompt in PROMPTS]
    answers = [client.ask(prompt, max_tokens=24)["text"] for prompt in PROMPTS]
    assert answers == expected
    assert len(set(expected)) > len(PROMPTS) // 2, "answers that are all alike prove nothing"


def test_twenty_parallel_streams_all_end_whole(client: Client) -> None:
    counts = client.burst(requests=60, concurrency=20)
    assert (counts["ok"], counts["failed"], counts["truncated"]) == (60, 0, 0), counts


def test_a_fixed_ratio_scales_by_units_and_loses_nothing(client: Client, kubectl: Kubectl) -> None:
    with client.load(concurrency=2) as counts:
        kubectl.run("scale", f"pdinf/{NAME}", "--replicas=2")
        wait_until("2P2D", lambda: summaries(kubectl) == ("2/2", "2/2"), within=READY_WITHIN)
        kubectl.run("scale", f"pdinf/{NAME}", "--replicas=1")
        wait_until("1P1D", lambda: summaries(kubectl) == ("1/1", "1/1"), within=READY_WITHIN)
        wait_until("two workers left", lambda: len(kubectl.list("pod", WORKERS)) == 2, within=READY_WITHIN)
    assert counts["ok"] > 0
    assert (counts["failed"], counts["truncated"]) == (0, 0), counts


def test_a_revision_that_cannot_start_takes_nothing_away(client: Client, kubectl: Kubectl) -> None:
    workers = names(kubectl.list("pod", WORKERS))
    good = kubectl.get("pdinf", NAME)["spec"]["engine"]["image"]
    kubectl.patch("pdinf", NAME, {"spec": {"engine": {"image": "localhost/no-such-image:1"}}})

    def told() -> bool:
        rollout = kubectl.condition(NAME, "RolloutProgressing")
        assert "no-such-image" in rollout["message"], rollout
        return bool(rollout["reason"] == "ImagePullFailed")

    wait_until("the condition names pod and image", told, within=120)
    assert kubectl.condition(NAME, "Ready")["status"] == "True", "what served goes on serving"
    assert client.burst(requests=4, concurrency=2)["ok"] == 4
    kubectl.patch("pdinf", NAME, {"spec": {"engine": {"image": good}}})
    kubectl.wait_ready(NAME, within=READY_WITHIN)
    wait_until("the same workers", lambda: names(kubectl.list("pod", WORKERS)) == workers, within=120)


def test_a_killed_prefill_pod_comes_back_by_itself(client: Client, kubectl: Kubectl) -> None:
    victim = kubectl.list("pod", f"pdinference.dev/service={NAME},pdinference.dev/role=prefill")[0]
    kubectl.delete("pod", victim["metadata"]["name"], "--grace-period=0", "--force")
    wait_until("not Ready", lambda: kubectl.condition(NAME, "Ready")["status"] == "False", within=60)
    kubectl.wait_ready(NAME, within=READY_WITHIN)
    wait_until("answers again", lambda: client.burst(requests=2, concurrency=1)["ok"] == 2, within=120)


def test_a_killed_operator_touches_nothing_when_it_is_back(client: Client, kubectl: Kubectl) -> None:
    before = children(kubectl)
    system = kubectl.in_namespace("pd-system")
    operator = "app.kubernetes.io/name=pd-operator"
    (pod,) = names(system.list("pod", operator))
    system.delete("pod", pod, "--grace-period=0", "--force")

    def another() -> bool:
        (found,) = system.list("pod", operator)
        conditions = found["status"].get("conditions", [])
        return found["metadata"]["name"] != pod and any(
            c["type"] == "Ready" and c["status"] == "True" for c in conditions
        )

    wait_until("a new operator pod is Ready", another, within=120)
    assert client.burst(requests=2, concurrency=1)["ok"] == 2
    assert children(kubectl) == before


@pytest.mark.usefixtures("client")
def test_deleting_the_service_leaves_nothing(kubectl: Kubectl) -> None:
    kubectl.delete("pdinf", NAME)
    wait_until("no child left", lambda: not children(kubectl), within=120)
    wait_until("no pod left", lambda: not kubectl.list("pod"), within=180)
