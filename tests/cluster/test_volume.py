"""Many services at once. The last of the modules: what it leaves would slow the others down."""

from __future__ import annotations

import time

from pd_operator.api import labels
from tests.cluster.support import World, eventually, service

MANY = 50


def test_fifty_services_at_once(world: World) -> None:
    names = [f"demo-{index:02d}" for index in range(MANY)]
    begun = time.monotonic()
    for name in names:
        world.rest.create(service(name, world.namespace))

    def all_ready() -> None:
        found = world.rest.list(labels.KIND, world.namespace)
        ready = [
            item["metadata"]["name"]
            for item in found
            for condition in item.get("status", {}).get("conditions", [])
            if condition["type"] == "Ready" and condition["status"] == "True"
        ]
        assert sorted(ready) == names, f"{len(ready)} of {MANY} are Ready"

    eventually(f"{MANY} services are Ready", all_ready, within=180)
    print(f"{MANY} services were Ready after {time.monotonic() - begun:.1f} s")
