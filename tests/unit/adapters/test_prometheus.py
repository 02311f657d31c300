"""Failures of Prometheus: each has its kind and a sentence, none delays the loop."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pd_operator.adapters import prometheus
from pd_operator.adapters.prometheus import BREAK_AFTER, BREAK_SECONDS, Endpoint, MetricsError, PrometheusSource
from pd_operator.adapters.queries import Metric
from pd_operator.reconcile.ports import Timer
from pd_operator.scaling.window import MetricsFault

ASKED = {Metric.RUNNING: "up"}
GOOD = {"status": "success", "data": {"resultType": "vector", "result": [{"metric": {"pod": "a"}, "value": [1, "2"]}]}}


@dataclass
class Clock:
    """Time that moves when told."""

    at: float = 1000.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        raise AssertionError("nothing here sets timers")

    async def sleep(self, seconds: float) -> None:
        self.at += seconds


@dataclass
class Server:
    """A stand-in for Prometheus on a port of its own."""

    status: int = 200
    body: str = json.dumps(GOOD)
    headers: list[dict[str, str]] = field(default_factory=list)
    wait: threading.Event | None = None
    url: str = ""


@contextmanager
def listening(server: Server) -> Iterator[None]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.headers.append(dict(self.headers))
            if server.wait is not None:
                server.wait.wait(20)
            with contextlib.suppress(BrokenPipeError):  # the client has given up
                self.send_response(server.status)
                self.end_headers()
                self.wfile.write(server.body.encode())

        def log_request(self, *_: object) -> None:
            """Not news."""

    listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener.daemon_threads = True
    thread = threading.Thread(target=listener.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    server.url = f"http://127.0.0.1:{listener.server_port}"
    try:
        yield
    finally:
        if server.wait is not None:
            server.wait.set()
        listener.shutdown()
        listener.server_close()
        thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    with listening(found):
        yield found


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def source(server: Server, clock: Clock) -> AsyncIterator[PrometheusSource]:
    opened = PrometheusSource(Endpoint(server.url), clock)
    yield opened
    await opened.close()


async def fault_of(source: PrometheusSource) -> MetricsError:
    with pytest.raises(MetricsError) as caught:
        await source.ask(ASKED)
    return caught.value


async def test_an_answer(source: PrometheusSource) -> None:
    answers = await source.ask(ASKED)
    assert [(s.labels, s.value) for s in answers[Metric.RUNNING]] == [({"pod": "a"}, 2.0)]


@pytest.mark.parametrize(
    ("status", "body", "fault", "words"),
    [
        (503, "shutting down", MetricsFault.UNAVAILABLE, "refuses: HTTP Status Code 503"),
        (422, '{"status":"error"}', MetricsFault.UNAVAILABLE, "refuses"),
        (200, "<html>log in</html>", MetricsFault.INVALID, "does not answer like Prometheus"),
        (200, "[]", MetricsFault.INVALID, "does not answer like Prometheus"),
        (200, '{"data":{"result":[{"metric":{}}]}}', MetricsFault.INVALID, "something else than samples"),
        (200, '{"data":{"result":[{"metric":{},"value":[1,"x"]}]}}', MetricsFault.INVALID, "else than samples"),
        (200, json.dumps(GOOD | {"warnings": ["store down"]}), MetricsFault.PARTIAL, "incomplete: store down"),
    ],
)
async def test_answers_that_cannot_be_used(
    server: Server, source: PrometheusSource, status: int, body: str, fault: MetricsFault, words: str
) -> None:
    server.status, server.body = status, body
    error = await fault_of(source)
    assert error.fault is fault
    assert words in error.message
    assert server.url in error.message


async def test_nobody_listens(clock: Clock) -> None:
    closed = Server()
    with listening(closed):
        pass
    source = PrometheusSource(Endpoint(closed.url), clock)
    error = await fault_of(source)
    await source.close()
    assert error.fault is MetricsFault.UNAVAILABLE
    assert error.message == f"Prometheus at {closed.url} is unavailable: [Errno 111] Connection refused"


async def test_failures_are_not_retried_and_then_left_alone(
    server: Server, source: PrometheusSource, clock: Clock
) -> None:
    server.status = 503
    for _ in range(BREAK_AFTER):
        last = await fault_of(source)
    assert len(server.headers) == BREAK_AFTER
    assert (await fault_of(source)).message == last.message
    assert len(server.headers) == BREAK_AFTER
    clock.at += BREAK_SECONDS
    server.status = 200
    assert await source.ask(ASKED)
    server.status = 503
    await fault_of(source)
    assert len(server.headers) == BREAK_AFTER + 2


async def test_a_slow_prometheus_gets_no_second_question(
    server: Server, source: PrometheusSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.wait = threading.Event()
    monkeypatch.setattr(prometheus, "POLL_SECONDS", 0.3)
    error = await fault_of(source)
    assert "took longer" in error.message
    assert "has not answered yet" in (await fault_of(source)).message
    assert len(server.headers) == 1


async def test_a_silent_server_is_given_up(server: Server, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    server.wait = threading.Event()
    monkeypatch.setattr(prometheus, "READ_SECONDS", 0.2)
    source = PrometheusSource(Endpoint(server.url), clock)
    error = await fault_of(source)
    await source.close()
    assert error.fault is MetricsFault.UNAVAILABLE
    assert "no answer within" in error.message


async def test_the_token_is_read_for_every_poll(server: Server, clock: Clock, tmp_path: Path) -> None:
    token = tmp_path / "token"
    source = PrometheusSource(Endpoint(server.url, token_file=str(token)), clock)
    missing = await fault_of(source)
    for text in ("first\n", "second"):
        token.write_text(text, encoding="utf-8")
        await source.ask(ASKED)
    await source.close()
    assert str(token) in missing.message
    assert [headers["Authorization"] for headers in server.headers] == ["Bearer first", "Bearer second"]
