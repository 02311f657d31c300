"""The lab's small API client, against a TLS server that records what it was asked."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from e2e.lab import pki
from e2e.lab.api import Api, ApiError
from e2e.lab.connection import Probe, answers, direct
from e2e.lab.kubeconfig import Access
from e2e.lab.spec import LabSpec, Profile


@dataclass
class Server:
    """A running server; `hang_up` makes it close the connection after its next answer, without saying so."""

    port: int
    authority: str
    requests: list[tuple[str, str, str, str]] = field(default_factory=list)
    status: int = 200
    hang_up: bool = False

    def client(self) -> Api:
        return Api(Access("127.0.0.1", self.port, self.authority, "secret"), direct)


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> LabSpec:
    spec = LabSpec(tmp_path_factory.mktemp("lab") / "lab", Profile.CONTROL_PLANE, 0)
    pki.ensure(spec)
    return spec


@pytest.fixture
def server(spec: LabSpec) -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            state.requests.append((self.command, self.path, self.headers["Content-Type"] or "", body))
            content = json.dumps({"message": "no such thing", "items": [{"a": 1}]}).encode()
            known = self.path == "/readyz" or self.headers["Authorization"] == "Bearer secret"
            self.send_response(state.status if known else 401)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            self.close_connection = state.hang_up

        do_GET = do_POST = do_PATCH = do_DELETE = answer  # noqa: N815 (what http.server calls)

        def log_message(self, *_: object) -> None:
            return

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(spec.pki / "apiserver.crt", spec.pki / "apiserver.key")
    listener.socket = context.wrap_socket(listener.socket, server_side=True)
    state = Server(listener.server_port, (spec.pki / "ca.crt").read_text())
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield state
    listener.shutdown()
    thread.join()
    listener.server_close()


def test_the_certificate_is_verified_and_the_token_shown(server: Server) -> None:
    with server.client() as api:
        assert api.items("/api/v1/nodes") == [{"a": 1}]


def test_a_server_of_another_lab_is_refused(server: Server, tmp_path: Path) -> None:
    other = LabSpec(tmp_path / "other", Profile.CONTROL_PLANE, 0)
    pki.ensure(other)
    access = Access("127.0.0.1", server.port, (other.pki / "ca.crt").read_text(), "secret")
    with Api(access, direct) as api, pytest.raises(ssl.SSLCertVerificationError):
        api.get("/version")


def test_apply_takes_the_fields_it_names_under_the_lab_s_own_name(server: Server) -> None:
    with server.client() as api:
        api.apply("/api/v1/namespaces/x", {"kind": "Namespace"})
    (request,) = server.requests
    assert request == (
        "PATCH",
        "/api/v1/namespaces/x?fieldManager=pd-lab&force=true",
        "application/apply-patch+yaml",
        '{"kind": "Namespace"}',
    )


def test_a_connection_that_the_server_closed_is_made_again(server: Server) -> None:
    with server.client() as api:
        server.hang_up = True
        api.get("/one")
        server.hang_up = False
        api.get("/two")
    assert [request[1] for request in server.requests] == ["/one", "/two"]


def test_an_error_says_what_was_asked_and_what_the_server_said(server: Server) -> None:
    server.status = 403
    with server.client() as api, pytest.raises(ApiError, match=r"GET /x: 403 no such thing"):
        api.get("/x")


def test_what_is_gone_does_not_exist_and_needs_no_deletion(server: Server) -> None:
    server.status = 404
    with server.client() as api:
        assert not api.exists("/x")
        api.delete("/x")


@pytest.mark.parametrize(("status", "ready"), [(200, True), (503, False)])
def test_a_probe_wants_200(server: Server, status: int, ready: bool) -> None:
    server.status = status
    assert answers(Probe("127.0.0.1", server.port, "/readyz", tls=True), direct) is ready


def test_a_probe_of_a_port_where_nothing_listens_is_not_ready() -> None:
    assert not answers(Probe("127.0.0.1", 1, "/readyz"), direct)
