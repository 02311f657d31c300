"""A service from its creation to its end: what is made, who owns it, and that nothing stays behind."""

from __future__ import annotations

from collections import Counter

import pytest

from e2e.rest import Object
from pd_operator.api import labels
from tests.cluster.support import CHILD_KINDS, World, eventually, holds

EXPECTED = {
    "StatefulSet": 2,
    "Deployment": 1,
    "Service": 3,
    "ServiceAccount": 1,
    "Role": 1,
    "RoleBinding": 1,
    "PodDisruptionBudget": 2,
}


def test_create_makes_every_child_and_gets_ready(world: World) -> None:
    world.apply("demo", {"prefill.replicas": 2, "decode.replicas": 3})
    status = world.wait_ready("demo")["status"]
    assert Counter(kind for kind, _ in world.children("demo")) == EXPECTED
    assert len(world.pods("demo", labels.PREFILL)) == 2
    assert len(world.pods("demo", labels.DECODE)) == 3
    assert (status["prefill"]["summary"], status["decode"]["summary"], status["ratio"]) == ("2/2", "3/3", "2:3")
    assert status["accelerators"]["inUse"] == 5
    assert status["endpoint"].startswith(f"http://demo.{world.namespace}.svc")


def test_every_child_is_labelled_and_owned_by_the_service_alone(world: World) -> None:
    owner = world.apply("demo")["metadata"]["uid"]
    world.wait_ready("demo")
    for key, child in world.children("demo").items():
        metadata = child["metadata"]
        assert [(ref["uid"], ref["controller"]) for ref in metadata["ownerReferences"]] == [(owner, True)], key
        assert metadata["labels"][labels.MANAGED_BY] == labels.MANAGER, key
        assert metadata["labels"][labels.INSTANCE] == "demo", key


def test_applying_the_same_again_changes_nothing(world: World) -> None:
    world.apply("demo")
    world.wait_ready("demo")
    before = world.settled_versions("demo")
    world.apply("demo")

    def unchanged() -> None:
        assert world.versions("demo") == before

    holds("nothing is written", unchanged, during=2)


def _managers(item: Object) -> list[tuple[str, str, str]]:
    return [
        (entry["manager"], entry["operation"], entry.get("subresource", ""))
        for entry in item["metadata"]["managedFields"]
    ]


def test_one_field_manager_owns_what_the_operator_sets(world: World) -> None:
    world.apply("demo")
    world.wait_ready("demo")
    for key, child in world.children("demo").items():
        ours = [entry for entry in _managers(child) if entry[0] == labels.MANAGER]
        assert ours == [(labels.MANAGER, "Apply", "")], key
        strangers = {entry[0] for entry in _managers(child)} - {labels.MANAGER, "kube-controller-manager"}
        assert strangers == set(), key
    assert sorted(_managers(world.get("demo"))) == [(labels.MANAGER, "Apply", "status"), ("pd-test", "Apply", "")]


def test_what_others_add_survives(world: World) -> None:
    world.apply("demo")
    world.wait_ready("demo")
    foreign = {"metadata": {"annotations": {"example.com/note": "mine"}, "labels": {"example.com/team": "search"}}}
    for kind, name in world.children("demo"):
        world.rest.patch(kind, name, world.namespace, foreign)
    world.edit("demo", {"decode": {"replicas": 2}})
    eventually("decode has two pods", lambda: _expect(len(world.pods("demo", labels.DECODE)), 2), within=60)
    world.wait_ready("demo")
    for key, child in world.children("demo").items():
        assert child["metadata"]["annotations"]["example.com/note"] == "mine", key
        assert child["metadata"]["labels"]["example.com/team"] == "search", key


def _expect(seen: object, wanted: object) -> None:
    assert seen == wanted


def test_nothing_carries_a_finalizer_or_a_framework_s_notes(world: World) -> None:
    world.apply("demo")
    world.wait_ready("demo")
    everything = [world.get("demo"), *world.children("demo").values(), *world.pods("demo")]
    for item in everything:
        metadata = item["metadata"]
        assert metadata.get("finalizers", []) == [], metadata["name"]
        notes = [*metadata.get("annotations", {}), *metadata.get("labels", {})]
        assert [note for note in notes if "kopf" in note or "zalando" in note] == [], metadata["name"]


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
def test_delete_leaves_nothing(world: World, propagation: str) -> None:
    world.apply("demo")
    world.apply("other")
    world.wait_ready("demo")
    world.wait_ready("other")
    kept = world.settled_versions("other")
    world.rest.delete(labels.KIND, "demo", world.namespace, propagation=propagation)

    def gone() -> None:
        left = [
            (kind, item["metadata"]["name"])
            for kind in (labels.KIND, *CHILD_KINDS, "Pod", "ReplicaSet", "ControllerRevision")
            for item in world.rest.list(kind, world.namespace)
            if item["metadata"]["name"].startswith("demo") or labels.SERVICE in item["metadata"].get("labels", {})
            if item["metadata"].get("labels", {}).get(labels.SERVICE) != "other"
            if not item["metadata"]["name"].startswith("other")
        ]
        assert left == []

    eventually("everything of the service is gone", gone, within=60)
    assert world.versions("other") == kept
