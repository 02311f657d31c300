"""The store keeps the latest of everything, in whatever order it arrives."""

from __future__ import annotations

from typing import Any

from pd_operator.api import labels
from pd_operator.reconcile.kinds import BY_NAME, DEPLOYMENT, POD, SERVICE_KIND, STATEFUL_SET, WATCHED_KINDS
from pd_operator.reconcile.store import Store

KEY = ("default", "demo")


def child(
    kind: str, name: str, version: int, uid: str | None = None, service: str | None = "demo", **content: Any
) -> dict[str, Any]:
    return {
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(version),
            "labels": {labels.SERVICE: service} if service else {},
            "managedFields": [{"manager": "someone", "fieldsV1": {"f:spec": {}}}],
        },
        **content,
    }


def replicas(store: Store, name: str = "web") -> int:
    return int(store.view(KEY).children["StatefulSet", name]["spec"]["replicas"])


def test_an_object_is_news_once() -> None:
    store = Store()
    body = child("StatefulSet", "web", 5, spec={"replicas": 1})
    assert store.put(STATEFUL_SET, body) == KEY
    assert store.put(STATEFUL_SET, body) is None
    assert replicas(store) == 1


def test_an_older_version_does_not_replace_a_newer_one() -> None:
    store = Store()
    store.put(STATEFUL_SET, child("StatefulSet", "web", 10, spec={"replicas": 2}))
    assert store.put(STATEFUL_SET, child("StatefulSet", "web", 9, spec={"replicas": 1})) is None
    assert replicas(store) == 2


def test_versions_are_compared_as_numbers() -> None:
    store = Store()
    store.put(STATEFUL_SET, child("StatefulSet", "web", 99, spec={"replicas": 1}))
    assert store.put(STATEFUL_SET, child("StatefulSet", "web", 100, spec={"replicas": 2})) == KEY


def test_a_change_that_planning_does_not_read_is_no_news() -> None:
    store = Store()
    store.put(STATEFUL_SET, child("StatefulSet", "web", 1, spec={"replicas": 1}, status={"readyReplicas": 0}))
    changed = child("StatefulSet", "web", 2, spec={"replicas": 1}, status={"readyReplicas": 1})
    assert store.put(STATEFUL_SET, changed) is None
    assert store.put(STATEFUL_SET, child("StatefulSet", "web", 1, spec={"replicas": 9})) is None
    assert replicas(store) == 1


def test_readiness_of_a_router_is_news() -> None:
    store = Store()
    store.put(DEPLOYMENT, child("Deployment", "router", 1, spec={}, status={"readyReplicas": 0}))
    assert store.put(DEPLOYMENT, child("Deployment", "router", 2, spec={}, status={"readyReplicas": 1})) == KEY


def test_a_deleted_object_does_not_come_back_by_a_late_event() -> None:
    store = Store()
    store.put(STATEFUL_SET, child("StatefulSet", "web", 5, spec={"replicas": 1}))
    assert store.remove(STATEFUL_SET, child("StatefulSet", "web", 8)) == KEY
    assert store.put(STATEFUL_SET, child("StatefulSet", "web", 7, spec={"replicas": 3})) is None
    assert store.view(KEY).children == {}


def test_the_late_deletion_of_a_predecessor_does_not_remove_its_successor() -> None:
    store = Store()
    store.put(STATEFUL_SET, child("StatefulSet", "web", 9, uid="new", spec={"replicas": 1}))
    assert store.remove(STATEFUL_SET, child("StatefulSet", "web", 8, uid="old")) is None
    assert replicas(store) == 1


def test_the_late_event_of_a_predecessor_does_not_replace_its_successor() -> None:
    store = Store()
    store.put(STATEFUL_SET, child("StatefulSet", "web", 9, uid="new", spec={"replicas": 1}))
    assert store.put(STATEFUL_SET, child("StatefulSet", "web", 7, uid="old", spec={"replicas": 5})) is None
    assert replicas(store) == 1


def test_a_list_removes_what_is_gone_and_leaves_what_came_after_it() -> None:
    store = Store()
    store.put(POD, child("Pod", "gone", 5, spec={}, status={}))
    store.put(POD, child("Pod", "here", 6, spec={}, status={}))
    store.put(POD, child("Pod", "newer", 25, spec={}, status={}))
    store.put(STATEFUL_SET, child("StatefulSet", "web", 3, spec={"replicas": 1}))
    assert store.sweep(POD, None, {("default", "here")}, version=20) == {KEY}
    assert [pod["metadata"]["name"] for pod in store.view(KEY).pods] == ["here", "newer"]
    assert replicas(store) == 1
    assert store.sweep(POD, None, {("default", "here")}, version=20) == set()


def test_a_list_of_one_namespace_leaves_others_alone() -> None:
    store = Store()
    store.put(POD, child("Pod", "here", 5, spec={}, status={}))
    assert store.sweep(POD, "elsewhere", set(), version=20) == set()
    assert len(store.view(KEY).pods) == 1


def test_an_object_without_the_label_belongs_to_its_owner() -> None:
    store = Store()
    body = child("StatefulSet", "web", 1, service=None, spec={"replicas": 1})
    body["metadata"]["ownerReferences"] = [{"kind": labels.KIND, "name": "demo", "uid": "x"}]
    assert store.put(STATEFUL_SET, body) == KEY


def test_an_object_of_nobody_is_ignored() -> None:
    store = Store()
    assert store.put(STATEFUL_SET, child("StatefulSet", "web", 1, service=None, spec={})) is None
    assert list(store.services()) == []


def test_an_object_that_changes_hands_leaves_its_former_service() -> None:
    store = Store()
    store.put(POD, child("Pod", "p", 1, spec={}, status={}))
    assert store.put(POD, child("Pod", "p", 2, service="other", spec={}, status={})) == ("default", "other")
    assert list(store.services()) == [("default", "other")]


def test_own_status_written_to_a_service_is_news_but_its_version_alone_is_not() -> None:
    store = Store()
    body: dict[str, Any] = {
        "metadata": {"name": "demo", "namespace": "default", "uid": "u", "resourceVersion": "1"},
        "spec": {"model": {"name": "m"}},
        "status": {"units": 1},
    }
    store.put(SERVICE_KIND, body)
    same = {**body, "metadata": {**body["metadata"], "resourceVersion": "2"}}
    assert store.put(SERVICE_KIND, same) is None
    other = {**body, "metadata": {**body["metadata"], "resourceVersion": "3"}, "status": {"units": 2}}
    assert store.put(SERVICE_KIND, other) == KEY
    service = store.view(KEY).service
    assert service is not None
    assert service["metadata"]["resourceVersion"] == "3"


def test_it_is_ready_after_the_first_complete_list_of_every_kind() -> None:
    store = Store()
    for kind in WATCHED_KINDS[:-1]:
        store.listed(kind)
    assert not store.ready
    store.listed(WATCHED_KINDS[-1])
    assert store.ready


def test_what_nobody_reads_is_not_kept() -> None:
    store = Store()
    body = child("Service", "demo", 1, spec={"ports": []}, status={"loadBalancer": {}})
    body["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": "x" * 1000, "mine": "1"}
    store.put(BY_NAME["Service"], body)
    kept = store.view(KEY).children["Service", "demo"]
    assert kept["apiVersion"] == "v1"
    assert kept["metadata"]["annotations"] == {"mine": "1"}
    assert "managedFields" not in kept["metadata"]
    assert "status" not in kept
    assert store.counts()["Service"] == 1
