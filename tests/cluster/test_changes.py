"""A service that is edited: counts, modes, templates."""

from __future__ import annotations

from e2e.kubectl import Kubectl
from pd_operator.api import conditions, labels
from tests.cluster.support import World, eventually, holds

SLO = {"ttftMilliseconds": 2000, "itlMilliseconds": 50}
RATIO = {"mode": "FixedRatio", "fixedRatio": {"prefill": 1, "decode": 3}}


def _counts(world: World) -> tuple[int, int]:
    """Pods of prefill and decode that are not on their way out."""
    return len(world.pods("demo", labels.PREFILL)), len(world.pods("demo", labels.DECODE))


def _wait_counts(world: World, prefill: int, decode: int) -> None:
    def there() -> None:
        assert _counts(world) == (prefill, decode)

    eventually(f"{prefill} prefill and {decode} decode pods", there, within=60)


def test_counts_by_hand_follow(world: World) -> None:
    world.apply("demo", {"prefill.replicas": 1, "decode.replicas": 1})
    world.wait_ready("demo")
    for prefill, decode in ((3, 2), (1, 4)):
        world.edit("demo", {"prefill": {"replicas": prefill}, "decode": {"replicas": decode}})
        _wait_counts(world, prefill, decode)
    assert world.wait_ready("demo")["status"]["ratio"] == "1:4"


def test_a_fixed_ratio_scales_in_units(world: World, kubectl: Kubectl) -> None:
    world.apply("demo", {"scaling": RATIO})
    world.wait_ready("demo")
    _wait_counts(world, 1, 3)
    kubectl.run("scale", "pdinf/demo", "--replicas=3")
    _wait_counts(world, 3, 9)
    status = world.wait_ready("demo")["status"]
    assert (status["ratio"], status["units"]) == ("3:9", 3)
    scale = kubectl.run("get", "--raw", f"{_path(world)}/demo/scale")
    assert f"{labels.SERVICE}=demo" in scale  # what an HPA selects pods with
    kubectl.run("scale", "pdinf/demo", "--replicas=0")
    _wait_counts(world, 0, 0)


def _path(world: World) -> str:
    return f"/apis/{labels.API_VERSION}/namespaces/{world.namespace}/{labels.PLURAL}"


def test_suspend_and_resume(world: World) -> None:
    world.apply("demo", {"decode.replicas": 2})
    world.wait_ready("demo")
    world.edit("demo", {"suspend": True})
    _wait_counts(world, 0, 0)
    world.wait_condition("demo", conditions.READY, "False", conditions.SUSPENDED)
    assert ("Service", "demo") in world.children("demo")  # its address stays
    world.edit("demo", {"suspend": False})
    _wait_counts(world, 1, 2)
    world.wait_ready("demo")


def test_a_new_template_is_a_new_generation_and_the_old_one_retires(world: World) -> None:
    world.apply("demo")
    world.wait_ready("demo")
    old = {role: world.stateful_set("demo", role)["metadata"]["name"] for role in (labels.PREFILL, labels.DECODE)}
    world.edit("demo", {"engine": {"env": [{"name": "NEW", "value": "1"}]}})

    def replaced() -> None:
        for role, name in old.items():
            assert world.stateful_set("demo", role)["metadata"]["name"] != name

    eventually("both roles have one StatefulSet, a new one", replaced, within=60)
    status = world.wait_ready("demo")["status"]
    assert [generation["state"] for generation in status["generations"]] == ["Current"]
    assert _counts(world) == (1, 1)


def test_a_change_of_the_kv_layout_brings_its_own_router(world: World) -> None:
    world.apply("demo")
    world.wait_ready("demo")

    def router() -> str:
        found = world.rest.list("Deployment", world.namespace, f"{labels.SERVICE}=demo")
        assert len(found) == 1
        return str(found[0]["metadata"]["name"])

    before = router()
    world.edit("demo", {"engine": {"pageSize": 32}})

    def exchanged() -> None:
        assert router() != before

    eventually("one router, a new one", exchanged, within=60)
    world.wait_ready("demo")


def test_an_edit_of_counts_keeps_the_generation(world: World) -> None:
    world.apply("demo")
    world.wait_ready("demo")
    before = world.stateful_set("demo", labels.DECODE)["metadata"]["name"]
    world.edit("demo", {"decode": {"replicas": 2}, "scaling": {"behavior": {"maxStepReplicas": 2}}})
    _wait_counts(world, 1, 2)
    world.wait_ready("demo")
    assert world.stateful_set("demo", labels.DECODE)["metadata"]["name"] == before


def test_slo_mode_without_metrics_holds(world: World) -> None:
    scaling = {"mode": "SLO", "budget": {"accelerators": 16}}
    world.apply("demo", {"slo": SLO, "scaling": scaling, "prefill.replicas": 2, "decode.replicas": 3})
    condition = world.wait_condition("demo", conditions.METRICS_AVAILABLE, "False", conditions.NOT_CONFIGURED)
    assert "prometheus" in condition["message"].lower()
    world.wait_ready("demo")

    def held() -> None:
        assert _counts(world) == (2, 3)

    holds("the counts stay where they began", held, during=3)


def test_multi_node_replicas_are_whole(world: World) -> None:
    two_nodes = {"tensor": 16, "nodes": 2}
    world.apply("demo", {"decode.parallelism": two_nodes, "decode.replicas": 2})
    status = world.wait_ready("demo")["status"]
    assert _counts(world) == (1, 4)
    assert (status["decode"]["summary"], status["accelerators"]["inUse"]) == ("2/2", 33)
    leaders = [pod for pod in world.pods("demo", labels.DECODE) if pod["metadata"]["labels"][labels.RANK] == "0"]
    assert len(leaders) == 2


def test_only_ready_leaders_get_traffic(world: World) -> None:
    world.apply("demo", {"decode.replicas": 2})
    world.wait_ready("demo")
    for pod in world.pods("demo", labels.DECODE) + world.pods("demo", labels.PREFILL):
        assert pod["metadata"]["labels"][labels.TRAFFIC] == labels.SERVING


def test_without_a_router_there_is_none(world: World) -> None:
    world.apply("demo", {"router.type": "None"})
    world.wait_ready("demo")
    kinds = {kind for kind, _ in world.children("demo")}
    assert "Deployment" not in kinds
    assert world.condition("demo", conditions.ROUTER_AVAILABLE)["reason"] == conditions.NO_ROUTER
