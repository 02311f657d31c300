"""The operator waits, and says what for, until the CRD is there and its permissions are complete."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from pd_operator.adapters import permissions
from pd_operator.adapters.self_check import wait_until_usable
from pd_operator.reconcile.errors import AbsentError, TransientError
from pd_operator.reconcile.kinds import Kind
from tests.unit.reconcile.fakes import FakeClock


@dataclass
class Probe:
    waiting_for: str = ""
    seen: list[str] = field(default_factory=list)

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if name == "waiting_for" and hasattr(self, "seen"):
            self.seen.append(str(value))


@dataclass
class Server:
    """Refuses according to a script, one entry per look; then everything is well."""

    script: list[object]

    async def serves(self, kind: Kind) -> bool:
        step = self.script[0] if self.script else None
        if isinstance(step, Exception):
            self.script.pop(0)
            raise step
        if step == "no CRD":
            self.script.pop(0)
            return False
        return True

    async def may(self, attributes: Mapping[str, str]) -> bool:
        denied = self.script[0] if self.script else {}
        assert isinstance(denied, dict)
        if (attributes["resource"], attributes["verb"], attributes["namespace"]) == ("events", "create", "team-b"):
            self.script[:1] = []  # the last question of a look
        return not all(attributes.get(name) == value for name, value in denied.items()) if denied else True


async def test_it_waits_for_each_thing_that_is_missing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    probe, clock = Probe(), FakeClock()
    server = Server(
        [
            TransientError("connection refused"),
            AbsentError("the group is not served"),
            "no CRD",
            {"resource": "pods", "namespace": "team-a", "verb": "patch"},
            {"resource": "statefulsets"},
        ]
    )
    await wait_until_usable(server, ("team-a", "team-b"), clock, probe)
    assert len(clock.slept) == 5
    assert "connection refused" in probe.seen[0]
    assert "install the chart with crds.enabled" in probe.seen[1]
    assert probe.seen[1] == probe.seen[2]
    assert probe.seen[3] == "permissions on pods in team-a (patch)"
    assert "statefulsets.apps in team-b (get, list, watch, create, patch, delete)" in probe.seen[4]
    assert len(caplog.records) == 4  # a complaint is not repeated at every look


def test_every_permission_is_explicit() -> None:
    for permission in permissions.NEEDED:
        assert "*" not in (permission.group, permission.resource, permission.verb)
    assert not any(permission.resource == "secrets" for permission in permissions.NEEDED)
