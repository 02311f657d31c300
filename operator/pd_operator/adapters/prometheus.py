"""Asks Prometheus, without ever blocking or delaying the event loop.

`prometheus-api-client` is synchronous, has no timeout by default, retries failures for several seconds, and drops the
warnings by which a federated Prometheus says that its answer is incomplete. Here it runs in a thread of its own, with
short timeouts, no retries, and warnings noticed; one poll at a time, never a queue of them.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import requests
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException
from urllib3.util.retry import Retry

from pd_operator.adapters.queries import Metric
from pd_operator.reconcile.ports import Clock
from pd_operator.scaling.window import MetricsFault

CONNECT_SECONDS: Final = 2.0
READ_SECONDS: Final = 5.0
#: A whole poll, all queries together.
POLL_SECONDS: Final = 12.0

#: After this many failed polls in a row Prometheus is left alone …
BREAK_AFTER: Final = 3
#: … for this long; then one poll tries again.
BREAK_SECONDS: Final = 30.0


class MetricsError(Exception):
    """A poll failed.

    Attributes:
        fault: What kind of failure.
        message: One sentence for people.
    """

    def __init__(self, fault: MetricsFault, message: str) -> None:
        super().__init__(message)
        self.fault = fault
        self.message = message


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of an instant query. `value` may be NaN or infinite: what that means is for the reader to say."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where Prometheus is, and how to be let in.

    Attributes:
        url: Address without `/api/v1`.
        token_file: File with a bearer token, read for every poll, since tokens are rotated.
        ca_file: Certificate authority, in PEM form.
    """

    url: str
    token_file: str | None = None
    ca_file: str | None = None


class PrometheusSource:
    """`MetricSource` over prometheus-api-client."""

    def __init__(self, endpoint: Endpoint, clock: Clock) -> None:
        self._endpoint = endpoint
        self._breaker = _Breaker(clock)
        self._clock = clock
        self._closed = False
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="prometheus")
        self._client: _Client | None = None
        self._running: asyncio.Future[dict[Metric, list[Sample]]] | None = None

    async def ask(self, queries: Mapping[Metric, str]) -> dict[Metric, list[Sample]]:
        """Answers by what was asked.

        Raises:
            MetricsError: At least one query has no usable answer.
        """
        if self._running is not None and not self._running.done():
            raise MetricsError(MetricsFault.UNAVAILABLE, f"Prometheus at {self._endpoint.url} has not answered yet")
        self._breaker.check()
        self._running = asyncio.get_running_loop().run_in_executor(self._thread, self._ask, dict(queries))
        try:
            answers = await asyncio.wait_for(asyncio.shield(self._running), POLL_SECONDS)
        except TimeoutError:
            self._running.add_done_callback(_forget)
            late = self._too_late()
            self._breaker.failed(late)
            raise late from None
        except MetricsError as error:
            self._breaker.failed(error)
            raise
        self._breaker.succeeded()
        return answers

    async def close(self) -> None:
        """Let the thread go. One that still waits for an answer ends with its timeout, and delays nothing."""
        self._closed = True
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _ask(self, queries: Mapping[Metric, str]) -> dict[Metric, list[Sample]]:
        if self._client is None:
            self._client = _Client(self._endpoint)
        self._client.authorise()
        deadline = self._clock.monotonic() + POLL_SECONDS
        answers: dict[Metric, list[Sample]] = {}
        for name, query in queries.items():
            if self._closed or self._clock.monotonic() > deadline:
                raise self._too_late()
            answers[name] = self._client.ask(query)
        return answers

    def _too_late(self) -> MetricsError:
        return MetricsError(
            MetricsFault.UNAVAILABLE,
            f"Prometheus at {self._endpoint.url} took longer than {POLL_SECONDS:.0f} s to answer",
        )


def _forget(late: asyncio.Future[dict[Metric, list[Sample]]]) -> None:
    """Take a late failure, so that asyncio does not report it as never retrieved."""
    if not late.cancelled():
        late.exception()


class _Client:
    """One session. Lives in the thread."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._warnings: list[str] = []
        session = requests.Session()
        session.verify = endpoint.ca_file or True
        session.hooks["response"].append(self._notice_warnings)
        self._prometheus = PrometheusConnect(
            url=endpoint.url,
            retry=Retry(total=0, read=False),  # no second try, and time-outs raised as such
            session=session,
            timeout=(CONNECT_SECONDS, READ_SECONDS),
        )

    def authorise(self) -> None:
        """Read the token."""
        if not self._endpoint.token_file:
            return
        try:
            token = Path(self._endpoint.token_file).read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            raise MetricsError(
                MetricsFault.UNAVAILABLE, f"the token file {self._endpoint.token_file} cannot be read: {error}"
            ) from error
        self._prometheus.headers = {"Authorization": f"Bearer {token}"}

    def ask(self, query: str) -> list[Sample]:
        """One instant query.

        Raises:
            MetricsError: There is no answer, or one that cannot be used.
        """
        self._warnings.clear()
        url = self._endpoint.url
        try:
            result = self._prometheus.custom_query(query)
        except PrometheusApiClientException as error:
            raise MetricsError(MetricsFault.UNAVAILABLE, f"Prometheus at {url} refuses: {_short(error)}") from error
        except requests.exceptions.JSONDecodeError as error:
            raise MetricsError(
                MetricsFault.INVALID, f"{url} does not answer like Prometheus: {_short(error)}"
            ) from error
        except requests.exceptions.RequestException as error:
            raise MetricsError(
                MetricsFault.UNAVAILABLE, f"Prometheus at {url} is unavailable: {_cause(error)}"
            ) from error
        except (KeyError, TypeError, ValueError) as error:
            raise MetricsError(
                MetricsFault.INVALID, f"{url} does not answer like Prometheus: {_short(error)}"
            ) from error
        if self._warnings:
            raise MetricsError(
                MetricsFault.PARTIAL, f"Prometheus at {url} says that its answer is incomplete: {self._warnings[0]}"
            )
        return _samples(result, url)

    def _notice_warnings(self, response: requests.Response, *_: Any, **__: Any) -> None:
        if b'"warnings"' not in response.content:
            return
        try:
            warnings = response.json().get("warnings")
        except (requests.exceptions.JSONDecodeError, AttributeError):
            return  # what is wrong with the answer is told by whoever reads its data
        self._warnings.extend(str(warning)[:200] for warning in warnings or ())


def _samples(result: Any, url: str) -> list[Sample]:
    try:
        return [Sample(labels=dict(item["metric"]), value=float(item["value"][1])) for item in result]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise MetricsError(
            MetricsFault.INVALID, f"{url} answered with something else than samples: {_short(error)}"
        ) from error


def _short(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 200 else f"{text[:199]}…"


def _cause(error: requests.exceptions.RequestException) -> str:
    """The bottom of requests' nested exceptions, which is the part that people understand."""
    if isinstance(error, requests.exceptions.ConnectTimeout):
        return f"no connection within {CONNECT_SECONDS:.0f} s"
    if isinstance(error, requests.exceptions.Timeout):
        return f"no answer within {READ_SECONDS:.0f} s"
    inner: BaseException = error
    while True:
        reason = getattr(inner, "reason", None)
        nested = next((a for a in inner.args if isinstance(a, BaseException)), None)
        following = reason if isinstance(reason, BaseException) else nested
        if following is None or following is inner:
            break
        inner = following
    return _short(inner if isinstance(inner, Exception) else error).rpartition(": ")[2]


@dataclass(slots=True)
class _Breaker:
    """Leaves Prometheus alone for a while after repeated failures."""

    clock: Clock
    failures: int = 0
    open_until: float = field(default=-math.inf)
    last: MetricsError | None = None

    def check(self) -> None:
        """Raise the last failure again while Prometheus is left alone."""
        if self.last is not None and self.clock.monotonic() < self.open_until:
            raise MetricsError(self.last.fault, self.last.message)

    def failed(self, error: MetricsError) -> None:
        """Count a failure."""
        self.failures += 1
        self.last = error
        if self.failures >= BREAK_AFTER:
            self.open_until = self.clock.monotonic() + BREAK_SECONDS

    def succeeded(self) -> None:
        """Start anew."""
        self.failures = 0
        self.last = None
        self.open_until = -math.inf
