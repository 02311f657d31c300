"""kopf is wired as an event source and cannot write."""

from __future__ import annotations

from typing import Any

import kopf
import pytest

from pd_operator import handlers
from pd_operator.adapters.kopf_memory import NoDiffBase, NoProgress
from pd_operator.api import labels
from pd_operator.reconcile.kinds import POD, SERVICE_KIND, WATCHED_KINDS
from tests.unit.reconcile.fakes import service
from tests.unit.reconcile.world import KEY, World


@pytest.fixture
def settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    handlers.configure(settings)
    return settings


def resource(group: str, version: str, plural: str) -> Any:
    from kopf._cogs.structs.references import Resource

    return Resource(group=group, version=version, plural=plural)


def test_only_children_are_selected_by_label(settings: kopf.OperatorSettings) -> None:
    for kind in WATCHED_KINDS:
        selectors = settings.watching.label_selectors.collect(resource(kind.group, kind.version, kind.plural))
        assert selectors == ([] if kind is SERVICE_KIND else [labels.SELECTOR_OF_CHILDREN])


def test_nothing_of_kopf_writes(settings: kopf.OperatorSettings) -> None:
    assert not settings.posting.enabled
    assert settings.peering.standalone
    assert settings.scanning.disabled
    assert settings.admission.managed is None
    for storage in (settings.persistence.diffbase_storage, settings.persistence.progress_storage):
        with pytest.raises(AssertionError, match="must not write"):
            storage.store()  # type: ignore[call-arg]
    assert NoDiffBase().build(body={"spec": 1}) == {}
    assert NoProgress().clear(essence={"spec": 1}) == {"spec": 1}


def test_no_handler_asks_for_a_finalizer_or_for_changes() -> None:
    world = World()

    async def login() -> kopf.AiohttpSession:
        raise NotImplementedError

    registry = handlers.registry(world.intake, login)
    assert len(registry._watching.get_all_handlers()) == len(WATCHED_KINDS)
    for others in (registry._changing, registry._spawning, registry._indexing, registry._webhooks):
        assert others.get_all_handlers() == []


async def test_events_reach_the_intake() -> None:
    world = await World().start()

    async def login() -> kopf.AiohttpSession:
        raise NotImplementedError

    registry = handlers.registry(world.intake, login)
    by_id: dict[str, Any] = {str(handler.id): handler.fn for handler in registry._watching.get_all_handlers()}
    body = world.cluster.create(service())
    await by_id["saw-pdinferenceservices"](event={"type": None, "object": body})
    assert world.queue.depth == 1
    await by_id["saw-pdinferenceservices"](event={"type": "DELETED", "object": body})
    assert list(world.store.services()) == []
    assert (body["metadata"]["namespace"], body["metadata"]["name"]) == KEY
    assert world.store.counts()[POD.name] == 0
