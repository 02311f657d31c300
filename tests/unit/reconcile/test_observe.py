"""From stored objects to facts."""

from __future__ import annotations

from typing import Any

from pd_operator.api import conditions, labels
from pd_operator.plan.observed import Problem
from pd_operator.reconcile.observe import creation_problem, missing_pods, observe, pods_in_use
from pd_operator.reconcile.store import View
from pd_operator.scaling.window import Window
from tests.unit.reconcile.fakes import UID, service

SLO: dict[str, Any] = {
    "slo": {"ttftMilliseconds": 1000, "itlMilliseconds": 50},
    "scaling": {"mode": "SLO", "budget": {"accelerators": 8}},
}


def view(**spec: Any) -> View:
    body = service(**spec)
    body["metadata"]["uid"] = UID
    return View(service=body)


def child(kind: str, name: str, role: str, spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    tags = {labels.ROLE: role, labels.GENERATION: "1a2b3c4d", labels.COMPAT: "99887766"}
    metadata = {"name": name, "labels": tags, "annotations": more.pop("annotations", {})}
    return {"kind": kind, "metadata": metadata, "spec": spec, **more}


def pod(name: str, role: str = "decode", ip: str | None = "10.0.0.1") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {labels.ROLE: role}},
        "spec": {"nodeName": "n", "containers": []},
        "status": {"podIP": ip} if ip else {},
    }


def test_sets_count_pods_and_know_how_many_make_a_replica() -> None:
    seen = view(decode={"parallelism": {"tensor": 16, "nodes": 2}})
    seen.children = {
        ("StatefulSet", "new"): child("StatefulSet", "new", "decode", {"replicas": 4}),
        ("StatefulSet", "old"): child("StatefulSet", "old", "decode", {"replicas": 3}, annotations={labels.NODES: "3"}),
    }
    problem = Problem(conditions.QUOTA_EXCEEDED, "StatefulSet new", "no")
    new, old = observe(seen, now=1.0, set_problems={"new": problem}).sets
    assert (new.name, new.role, new.generation, new.compat) == ("new", "decode", "1a2b3c4d", "99887766")
    assert (new.replicas, new.nodes, new.problem) == (4, 2, problem)
    assert (old.replicas, old.nodes, old.problem) == (3, 3, None)


def test_routers_tell_readiness_and_what_keeps_their_pods_from_being_created() -> None:
    seen = view()
    message = 'pods "demo-router-x7x9z" is forbidden: exceeded quota: pods, requested: pods=1'
    status = {
        "readyReplicas": 1,
        "conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message}],
    }
    seen.children = {
        ("Deployment", "demo-router-1"): child(
            "Deployment",
            "demo-router-1",
            "router",
            {"replicas": 2},
            status=status,
        ),
        ("Deployment", "other"): child("Deployment", "other", "something", {"replicas": 1}),
    }
    (router,) = observe(seen, now=1.0).routers
    assert (router.replicas, router.ready) == (2, 1)
    assert router.problem == Problem(
        conditions.QUOTA_EXCEEDED,
        "Deployment demo-router-1",
        "forbidden: exceeded quota: pods, requested: pods=1",
    )


def test_refusals_of_admission_are_no_quota() -> None:
    problem = creation_problem("StatefulSet x", 'admission webhook "policy.example" denied the request')
    assert problem.reason == conditions.POD_CREATION_FAILED


def test_accelerators_are_those_that_the_spec_names() -> None:
    seen = view(decode={"accelerator": {"resourceName": "amd.com/gpu"}})
    body = pod("p")
    body["spec"]["containers"] = [{"resources": {"limits": {"amd.com/gpu": "8", "rdma/hca": "2", "cpu": "4"}}}]
    seen.pods = [body]
    assert observe(seen, now=1.0).pods[0].accelerators == 8


def test_pods_come_in_a_stable_order() -> None:
    seen = view()
    seen.pods = [pod("b"), pod("a"), pod("z", "prefill")]
    assert [p.name for p in observe(seen, now=1.0).pods] == ["a", "b", "z"]


def test_metrics_count_in_slo_mode_only() -> None:
    window = Window(arrival_rate=1.0)
    assert observe(view(), now=1.0, window=window).window is None
    assert observe(view(**SLO), now=1.0, window=window).window is window


def test_missing_pods() -> None:
    seen = view()
    done = {"observedGeneration": 2}

    def workers(name: str, replicas: int, status: dict[str, Any]) -> dict[str, Any]:
        body = child("StatefulSet", name, "decode", {"replicas": replicas}, status=status)
        body["metadata"]["generation"] = 2
        return body

    seen.children = {
        ("StatefulSet", "full"): workers("full", 1, done),
        ("StatefulSet", "short"): workers("short", 3, done),
        ("StatefulSet", "none"): workers("none", 0, done),
        ("StatefulSet", "resized"): workers("resized", 3, {"observedGeneration": 1}),
        ("StatefulSet", "new"): workers("new", 3, {}),
    }
    seen.pods = [pod("full-0"), pod("short-0"), pod("other-0")]
    assert missing_pods(seen) == {"short": 2}


def test_only_pods_with_an_address_are_asked() -> None:
    seen = view()
    seen.pods = [pod("a"), pod("b", ip=None), pod("c")]
    assert pods_in_use(observe(seen, now=1.0).pods, ("a", "b")) == {"a": "10.0.0.1"}
