"""Whatever is done to the children by hand is put right."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from e2e.rest import Object
from pd_operator.api import labels
from tests.cluster.support import World, eventually

Look = Callable[[World], None]


def _child(world: World, kind: str, role: str = "") -> Object:
    """A child of a kind; of several, that of the role."""
    wanted = f"{labels.SERVICE}=demo" + (f",{labels.ROLE}={role}" if role else "")
    found = world.rest.list(kind, world.namespace, wanted)
    assert found, f"no {kind} {role}"
    return found[0]


def _patch(kind: str, role: str, patch: Object) -> Look:
    def act(world: World) -> None:
        world.rest.patch(kind, _child(world, kind, role)["metadata"]["name"], world.namespace, patch)

    return act


def _delete(kind: str, role: str) -> Look:
    def act(world: World) -> None:
        world.rest.delete(kind, _child(world, kind, role)["metadata"]["name"], world.namespace)

    return act


DEEDS: dict[str, Look] = {
    "replicas of a StatefulSet": _patch("StatefulSet", labels.DECODE, {"spec": {"replicas": 5}}),
    "StatefulSet at zero": _patch("StatefulSet", labels.PREFILL, {"spec": {"replicas": 0}}),
    "image of the router": _patch(
        "Deployment", "", {"spec": {"template": {"spec": {"containers": [{"name": "router", "image": "other:1"}]}}}}
    ),
    "label of a StatefulSet": _patch("StatefulSet", labels.PREFILL, {"metadata": {"labels": {labels.ROLE: "decode"}}}),
    "selector of a Service": _patch("Service", labels.DECODE, {"spec": {"selector": {labels.ROLE: "prefill"}}}),
    "rules of the Role": _patch("Role", "", {"rules": []}),
    "budget of disruptions": _patch("PodDisruptionBudget", labels.DECODE, {"spec": {"maxUnavailable": 9}}),
    "owner taken away": _patch("Service", labels.DECODE, {"metadata": {"ownerReferences": []}}),
    "Service deleted": _delete("Service", labels.PREFILL),
    "router deleted": _delete("Deployment", ""),
    "StatefulSet deleted": _delete("StatefulSet", labels.DECODE),
    "ServiceAccount deleted": _delete("ServiceAccount", ""),
}


def _essence(world: World) -> dict[tuple[str, str], object]:
    """What the operator set in each child, without what the API server and controllers add."""
    out: dict[tuple[str, str], object] = {}
    for key, item in world.children("demo").items():
        metadata = item["metadata"]
        owned = {"labels": metadata["labels"], "owners": [ref["uid"] for ref in metadata.get("ownerReferences", [])]}
        spec = {k: v for k, v in item.get("spec", {}).items() if k not in ("clusterIP", "clusterIPs")}
        out[key] = {**owned, "spec": spec, "rules": item.get("rules"), "roleRef": item.get("roleRef")}
    return out


@pytest.mark.parametrize("deed", [pytest.param(deed, id=name.replace(" ", "-")) for name, deed in DEEDS.items()])
def test_it_is_put_right(world: World, deed: Look) -> None:
    world.apply("demo", {"decode.replicas": 2})
    world.wait_ready("demo")
    before, versions = _essence(world), world.versions("demo")
    deed(world)

    def right() -> None:
        assert _essence(world) == before

    eventually("the children are as before", right, within=60)
    assert world.versions("demo") != versions  # something was done
    world.wait_ready("demo")
