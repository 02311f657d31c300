"""What the operator says to an API server on the wire, and how it takes the answers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer
from prometheus_client import CollectorRegistry

from pd_operator.adapters.cluster import KubernetesCluster
from pd_operator.adapters.connection import ConnectionProblem, connect
from pd_operator.adapters.watch_session import watch_session
from pd_operator.api import labels
from pd_operator.reconcile.errors import AbsentError, TerminalError, TransientError
from pd_operator.reconcile.instruments import Instruments
from pd_operator.reconcile.kinds import POD, SERVICE_KIND, STATEFUL_SET
from pd_operator.reconcile.pulse import Pulse
from tests.unit.reconcile.fakes import FakeClock

SET = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web", "namespace": "ns"}, "spec": {}}
SET_PATH = "/apis/apps/v1/namespaces/ns/statefulsets/web"


@dataclass
class Request:
    method: str
    path: str
    query: dict[str, str]
    content_type: str
    token: str
    body: Any


@dataclass
class ApiServer:
    """Remembers requests; answers from a queue, else with an empty object."""

    requests: list[Request] = field(default_factory=list)
    answers: list[web.Response] = field(default_factory=list)
    url: str = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        text = await request.text()
        self.requests.append(
            Request(
                request.method,
                request.path,
                dict(request.query),
                request.headers.get("Content-Type", ""),
                request.headers.get("Authorization", ""),
                json.loads(text) if text else None,
            )
        )
        return self.answers.pop(0) if self.answers else web.json_response({"kind": "x", "metadata": {}})


Connect = Callable[[], Any]


@asynccontextmanager
async def running(server: ApiServer) -> AsyncIterator[None]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.handle)
    async with TestServer(app, host="127.0.0.1") as real:
        server.url = str(real.make_url("")).rstrip("/")
        yield


def kubeconfig(folder: Path, url: str) -> str:
    path = folder / "kubeconfig"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "s3cret"}}],
    }
    path.write_text(yaml.safe_dump(content))
    return str(path)


@dataclass
class Fixture:
    server: ApiServer
    cluster: KubernetesCluster
    clock: FakeClock
    registry: CollectorRegistry

    @property
    def last(self) -> Request:
        return self.server.requests[-1]


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Fixture]:
    server, clock, registry = ApiServer(), FakeClock(), CollectorRegistry()
    async with running(server):
        client = await connect(kubeconfig(tmp_path, server.url))
        yield Fixture(server, KubernetesCluster(client, clock, Instruments(registry)), clock, registry)
        await client.close()  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("force", [True, False])
async def test_apply_is_server_side_with_the_one_field_manager(api: Fixture, force: bool) -> None:
    api.server.answers = [web.json_response({**SET, "spec": {"replicas": 1}}, status=201)]
    answer = await api.cluster.apply(SET, force=force)
    assert answer["spec"] == {"replicas": 1}
    assert (api.last.method, api.last.path) == ("PATCH", SET_PATH)
    assert api.last.query == {"fieldManager": "pd-operator", "force": str(force).lower()}
    assert api.last.content_type == "application/apply-patch+yaml"
    assert api.last.token == "Bearer s3cret"
    assert api.last.body == SET


async def test_status_is_applied_to_its_subresource(api: Fixture) -> None:
    await api.cluster.apply_status("ns", "demo", {"units": 1})
    assert api.last.path == "/apis/pdinference.dev/v1alpha1/namespaces/ns/pdinferenceservices/demo/status"
    assert api.last.query == {"fieldManager": "pd-operator", "force": "true"}
    assert api.last.content_type == "application/apply-patch+yaml"
    assert api.last.body == {
        "apiVersion": labels.API_VERSION,
        "kind": labels.KIND,
        "metadata": {"name": "demo", "namespace": "ns"},
        "status": {"units": 1},
    }


async def test_delete_is_bound_to_the_object_that_was_seen(api: Fixture) -> None:
    await api.cluster.delete(STATEFUL_SET, "ns", "web", "u-1")
    assert (api.last.method, api.last.path) == ("DELETE", SET_PATH)
    assert api.last.body["preconditions"] == {"uid": "u-1"}
    assert api.last.body["propagationPolicy"] == "Background"


async def test_labels_and_annotations_are_merged_and_none_removes(api: Fixture) -> None:
    await api.cluster.patch_metadata(POD, "ns", "p", {"a": "b", "gone": None}, {"note": "x"})
    assert (api.last.method, api.last.path) == ("PATCH", "/api/v1/namespaces/ns/pods/p")
    assert api.last.content_type == "application/merge-patch+json"
    assert api.last.body == {"metadata": {"labels": {"a": "b", "gone": None}, "annotations": {"note": "x"}}}


async def test_children_are_listed_by_label_and_in_pages(api: Fixture) -> None:
    api.server.answers = [
        web.json_response({"metadata": {"resourceVersion": "9", "continue": "more"}, "items": [{"a": 1}]}),
        web.json_response({"metadata": {"resourceVersion": "9"}, "items": [{"a": 2}]}),
    ]
    pages = [page async for page in api.cluster.pages(POD, None)]
    assert [(list(page.items), page.version) for page in pages] == [([{"a": 1}], 9), ([{"a": 2}], 9)]
    first, second = api.server.requests
    assert first.path == "/api/v1/pods"
    assert first.query == {"limit": "200", "labelSelector": "app.kubernetes.io/managed-by=pd-operator"}
    assert second.query["continue"] == "more"


async def test_services_are_listed_without_a_selector(api: Fixture) -> None:
    _ = [page async for page in api.cluster.pages(SERVICE_KIND, "ns")]
    assert api.last.path == "/apis/pdinference.dev/v1alpha1/namespaces/ns/pdinferenceservices"
    assert api.last.query == {"limit": "200"}


async def test_a_busy_server_is_asked_again_after_the_wait_that_it_asks_for(api: Fixture) -> None:
    api.server.answers = [web.Response(status=429, headers={"Retry-After": "2"}), web.Response(status=503)]
    await api.cluster.get(STATEFUL_SET, "ns", "web")
    assert len(api.server.requests) == 3
    assert api.clock.slept[0] == 2.0
    assert 0.2 < api.clock.slept[1] < 1.0
    for code in ("429", "503", "200"):
        sample = {"verb": "get", "kind": "StatefulSet", "code": code}
        assert api.registry.get_sample_value("pd_operator_api_requests_total", sample) == 1


async def test_a_long_wait_is_left_to_the_queue(api: Fixture) -> None:
    api.server.answers = [web.Response(status=429, headers={"Retry-After": "60"})]
    with pytest.raises(TransientError) as caught:
        await api.cluster.get(STATEFUL_SET, "ns", "web")
    assert caught.value.retry_after == 60
    assert len(api.server.requests) == 1


async def test_a_server_that_stays_busy_ends_the_try(api: Fixture) -> None:
    api.server.answers = [web.Response(status=500) for _ in range(9)]
    with pytest.raises(TransientError):
        await api.cluster.apply(SET, force=True)
    assert len(api.server.requests) == 3


async def test_refusals_are_not_repeated(api: Fixture) -> None:
    api.server.answers = [web.json_response({"message": "spec.replicas: no"}, status=422)]
    with pytest.raises(TerminalError, match=r"spec\.replicas: no"):
        await api.cluster.apply(SET, force=True)
    api.server.answers = [web.json_response({"message": "not found"}, status=404)]
    with pytest.raises(AbsentError):
        await api.cluster.delete(STATEFUL_SET, "ns", "web", None)
    assert len(api.server.requests) == 2


async def test_permissions_are_asked_for_the_operator_itself(api: Fixture) -> None:
    api.server.answers = [web.json_response({"status": {"allowed": True}}, status=201)]
    assert await api.cluster.may({"verb": "list", "resource": "pods"})
    assert api.last.path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    assert api.last.body["spec"] == {"resourceAttributes": {"verb": "list", "resource": "pods"}}


async def test_events_of_an_object_are_selected_by_the_server(api: Fixture) -> None:
    api.server.answers = [web.json_response({"items": [{"reason": "FailedCreate"}]})]
    assert await api.cluster.events_about(STATEFUL_SET, "ns", "web") == [{"reason": "FailedCreate"}]
    assert api.last.query["fieldSelector"] == "involvedObject.kind=StatefulSet,involvedObject.name=web"


async def test_a_kind_is_served_once_its_definition_is_established(api: Fixture) -> None:
    api.server.answers = [
        web.json_response({"resources": [{"name": "others"}]}),
        web.json_response({"resources": [{"name": "pdinferenceservices"}]}),
    ]
    assert not await api.cluster.serves(SERVICE_KIND)
    assert await api.cluster.serves(SERVICE_KIND)
    assert api.last.path == "/apis/pdinference.dev/v1alpha1"


async def test_an_unreachable_server_is_transient_and_named(tmp_path: Path) -> None:
    client = await connect(kubeconfig(tmp_path, "http://127.0.0.1:1"))
    clock = FakeClock()
    cluster = KubernetesCluster(client, clock, Instruments(CollectorRegistry()))
    with pytest.raises(TransientError, match="GET /api/v1/namespaces/ns/pods/p"):
        await cluster.get(POD, "ns", "p")
    assert len(clock.slept) == 2
    await client.close()  # type: ignore[no-untyped-call]


async def test_a_missing_kubeconfig_is_told_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(ConnectionProblem, match="nowhere does not exist"):
        await connect(str(tmp_path / "nowhere"))
    broken = tmp_path / "broken"
    broken.write_text("apiVersion: v1\nkind: Config\n")
    with pytest.raises(ConnectionProblem, match="broken cannot be used"):
        await connect(str(broken))


async def test_watches_use_the_same_credentials_and_show_signs_of_life(tmp_path: Path) -> None:
    server = ApiServer()
    async with running(server):
        client = await connect(kubeconfig(tmp_path, server.url))
        clock = FakeClock()
        pulse = Pulse(["/api/v1/pods"], clock)
        info = await watch_session(client, pulse)
        assert info.server == server.url
        server.answers = [web.Response(status=500)]
        async with info.aiohttp_session.get(f"{server.url}/api/v1/pods", params={"watch": "true"}):
            assert pulse._waiting
        async with info.aiohttp_session.get(f"{server.url}/api/v1/pods"):
            assert pulse._waiting
        async with info.aiohttp_session.get(f"{server.url}/api/v1/pods", params={"watch": "true"}):
            assert not pulse._waiting
        assert server.requests[-1].token == "Bearer s3cret"
        await info.aiohttp_session.close()
        await client.close()  # type: ignore[no-untyped-call]
