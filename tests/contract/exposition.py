"""Pods that serve saved metrics pages, with chosen series moving at a chosen speed, and a Prometheus over them."""

from __future__ import annotations

import http.server
import json
import re
import socket
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

DATA = Path(__file__).parent / "data"
SCRAPE_SECONDS = 1


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of all series whose text before the value matches a pattern.

    Attributes:
        series: Regular expression.
        value: What it is at the start; None leaves the page's value.
        per_second: How fast it grows.
    """

    series: str
    value: float | str | None = None
    per_second: float = 0.0


@dataclass(slots=True)
class Pod:
    """One metrics page.

    Attributes:
        namespace, name: Labels of its target.
        page: File in `data/`.
        edits: What differs from the page; the first that matches counts.
        change: Last change of the whole text.
        broken: The page answers with an error.
    """

    namespace: str
    name: str
    page: str
    edits: Sequence[Edit] = ()
    change: Callable[[str], str] = field(default=lambda text: text)
    broken: bool = False
    _lines: list[str | _Moving] = field(init=False, repr=False)

    def render(self, elapsed: float) -> str:
        """The page some seconds after the start."""
        return self.change(
            "\n".join(line if isinstance(line, str) else line.at(elapsed) for line in self._lines) + "\n"
        )

    def __post_init__(self) -> None:
        """Find the lines that move once: a page has a thousand, and is asked for every second."""
        text = (DATA / self.page).read_text(encoding="utf-8")
        self._lines = [self._line(line) for line in text.splitlines()]

    def _line(self, line: str) -> str | _Moving:
        series, _, value = line.rpartition(" ")
        edit = None if line.startswith("#") else next((e for e in self.edits if re.search(e.series, series)), None)
        if edit is None:
            return line
        if isinstance(edit.value, str):
            return f"{series} {edit.value}"
        return _Moving(series, float(value) if edit.value is None else edit.value, edit.per_second)


@dataclass(frozen=True, slots=True)
class _Moving:
    series: str
    start: float
    per_second: float

    def at(self, elapsed: float) -> str:
        return f"{self.series} {self.start + self.per_second * elapsed}"


@contextmanager
def serving(pods: Sequence[Pod]) -> Iterator[int]:
    """Serves the pods' pages at `/<namespace>/<name>`; yields the port."""
    by_path = {f"/{pod.namespace}/{pod.name}": pod for pod in pods}
    started = time.monotonic()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            pod = by_path[self.path]
            self.send_response(500 if pod.broken else 200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(pod.render(time.monotonic() - started).encode())

        def log_request(self, *_: object) -> None:
            """Scrapes are no news."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def prometheus(binary: Path, folder: Path, pods: Sequence[Pod], twice: Sequence[Pod], port: int) -> Iterator[str]:
    """A Prometheus that scrapes the pods (and those in `twice` by a second job); yields its address."""
    jobs = [("pods", pods), ("again", twice)]
    config = {
        "global": {"scrape_interval": f"{SCRAPE_SECONDS}s", "scrape_timeout": f"{SCRAPE_SECONDS}s"},
        "scrape_configs": [
            {"job_name": job, "static_configs": [_target(pod, port) for pod in members]} for job, members in jobs
        ],
    }
    (folder / "prometheus.yml").write_text(json.dumps(config), encoding="utf-8")
    address = f"127.0.0.1:{_free_port()}"
    argv = [
        str(binary),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}",
        "--log.level=warn",
    ]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(argv, stdout=log, stderr=log)
        try:
            yield f"http://{address}"
        finally:
            process.kill()
            process.wait()


def value_of(url: str, query: str) -> float | None:
    """The first value of an instant query, asked in the plainest way; None without an answer."""
    try:
        with urllib.request.urlopen(f"{url}/api/v1/query?query={urllib.parse.quote(query)}", timeout=5) as answer:
            result = json.load(answer)["data"]["result"]
    except OSError:
        return None
    return float(result[0]["value"][1]) if result else None


def wait_for(condition: Callable[[], bool], seconds: float) -> None:
    """Poll until a condition holds.

    Raises:
        TimeoutError: It did not in time.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the condition did not hold within {seconds} s")
        time.sleep(0.2)


def _target(pod: Pod, port: int) -> Mapping[str, object]:
    labels = {"namespace": pod.namespace, "pod": pod.name, "__metrics_path__": f"/{pod.namespace}/{pod.name}"}
    return {"targets": [f"127.0.0.1:{port}"], "labels": labels}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
