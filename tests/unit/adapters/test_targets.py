"""Whose metrics are asked for: ready leaders that take requests, of services in SLO mode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pd_operator.adapters.targets import targets_in
from pd_operator.adapters.windows import Target
from pd_operator.api import labels
from pd_operator.reconcile.kinds import POD, SERVICE_KIND
from pd_operator.reconcile.store import Store

SLO = {"ttftMilliseconds": 2000, "itlMilliseconds": 50, "percentile": 95}
SCALING = {"mode": "SLO", "budget": {"accelerators": 8}, "metrics": {"maxAgeSeconds": 30}}


def service(name: str, deleted: str | None = None, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1"}
    return {
        "metadata": metadata | ({"deletionTimestamp": deleted} if deleted else {}),
        "spec": {"model": {"name": "org/tiny"}} | spec,
    }


def pod(name: str, role: str, ready: str = "True", owner: str = "demo", **tags: str) -> dict[str, Any]:
    owned = {labels.SERVICE: owner, labels.ROLE: role} | {f"{labels.GROUP}/{tag}": value for tag, value in tags.items()}
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1", "labels": owned},
        "spec": {"nodeName": "node", "containers": []},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


def store(services: list[Mapping[str, Any]], pods: list[Mapping[str, Any]]) -> Store:
    filled = Store()
    for raw in services:
        filled.put(SERVICE_KIND, raw)
    for raw in pods:
        filled.put(POD, raw)
    return filled


def test_ready_leaders_that_take_requests() -> None:
    pods: list[Mapping[str, Any]] = [
        pod("p-0", "prefill", rank="0", traffic="serving"),
        pod("p-1", "prefill", rank="1"),  # a follower has no API of its own
        pod("d-0", "decode", rank="0", traffic="serving"),
        pod("d-1", "decode", rank="0", traffic="draining"),
        pod("d-2", "decode", "False", rank="0", traffic="serving"),
        pod("r-0", "router"),
        pod("r-1", "router", "False"),
    ]
    assert targets_in(store([service("demo", slo=SLO, scaling=SCALING)], pods)) == [
        Target(
            key=("ns", "demo"),
            prefill=frozenset({"p-0"}),
            decode=frozenset({"d-0"}),
            router=frozenset({"r-0"}),
            percentile=95,
            max_age_seconds=30,
        )
    ]


def test_only_services_that_scale_by_metrics() -> None:
    services: list[Mapping[str, Any]] = [
        service("manual"),
        service("fixed", scaling={"mode": "FixedRatio", "fixedRatio": {"prefill": 1, "decode": 2}}),
        service("suspended", slo=SLO, scaling=SCALING, suspend=True),
        service("leaving", deleted="2026-11-30T10:00:00Z", slo=SLO, scaling=SCALING),
        service("unreadable", slo=SLO, scaling=SCALING | {"budget": "many"}),
        service("wanted", slo=SLO, scaling=SCALING),
    ]
    orphan = pod("x-0", "decode", owner="gone")
    assert [target.key for target in targets_in(store(services, [orphan]))] == [("ns", "wanted")]
