"""The real queries against a real Prometheus over saved pages of SGLang 0.5.23 and smg 1.13.

Every expected number is worked out here from the speeds that the pages are given, not by the code under test.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
import time
from collections.abc import Iterator, Mapping

import pytest

from e2e.lab.binaries import ensure
from e2e.lab.progress import Progress
from pd_operator.adapters.clock import SystemClock
from pd_operator.adapters.metrics import Poller
from pd_operator.adapters.prometheus import Endpoint, PrometheusSource
from pd_operator.adapters.queries import Metric, queries
from pd_operator.adapters.windows import Target
from pd_operator.scaling.window import MetricsFault, Window
from tests.contract.exposition import Edit, Pod, prometheus, serving, value_of, wait_for

#: The first run on a machine builds Prometheus, which takes minutes; later ones take seconds.
pytestmark = pytest.mark.timeout(1800)

PREFILL, DECODE, SMG = "sglang-0.5.23-prefill.prom", "sglang-0.5.23-decode.prom", "smg-1.13.0.prom"
WINDOW_SECONDS = 8
#: Scrapes are stamped when they start and answered a little later, on a machine that may be busy.
CLOSE = 0.08

PREFILL_EDITS = (
    Edit("^sglang:num_queue_reqs", 2),
    Edit("^sglang:num_running_reqs", 1),
    Edit("^sglang:num_prefill_bootstrap_queue_reqs", 5),
    Edit("^sglang:token_usage", 0.3),
    Edit('^sglang:scheduler_stage_seconds_total{category="run_batch"', per_second=0.5),
    Edit('^sglang:scheduler_stage_seconds_total{category="process_batch_result"', per_second=0.1),
    Edit('^sglang:scheduler_stage_seconds_total{category="idle"', per_second=0.4),
    Edit('^sglang:realtime_tokens_total.*mode="prefill_compute"', per_second=600),
    Edit('^sglang:realtime_tokens_total.*mode="prefill_cache"', per_second=200),
    # prefill workers count the same requests as decode workers: must not be counted twice
    Edit("^sglang:num_requests_total", per_second=50),
    Edit("^sglang:prompt_tokens_total", per_second=5000),
    Edit("^sglang:generation_tokens_total", per_second=50),
)

DECODE_EDITS = (
    Edit("^sglang:num_running_reqs", 6),
    Edit("^sglang:num_queue_reqs", 1),
    Edit("^sglang:num_decode_prealloc_queue_reqs", 3),
    Edit("^sglang:num_decode_transfer_queue_reqs", 4),
    Edit("^sglang:token_usage", 0.5),
    Edit('^sglang:http_requests_active{endpoint="/v1/chat/completions"', 11),
    Edit('^sglang:http_requests_active{endpoint="/metrics"', 4),
    Edit('^sglang:num_requests_total.*is_streaming="true"', per_second=3),
    Edit('^sglang:num_requests_total.*is_streaming="false"', per_second=1),
    Edit('^sglang:prompt_tokens_total.*is_streaming="true"', per_second=300),
    Edit('^sglang:prompt_tokens_total.*is_streaming="false"', per_second=100),
    Edit('^sglang:realtime_tokens_total.*mode="decode"', per_second=220),
    Edit("^sglang:generation_tokens_total", per_second=70),
)


def buckets(name: str, labels: str, rates: Mapping[str, float], rest: float) -> list[Edit]:
    """Cumulative bucket speeds; bounds that are not named grow like `rest`."""
    named = [Edit(rf'^{name}_bucket{{.*{labels}.*le="{re.escape(le)}"', per_second=rate) for le, rate in rates.items()]
    return [*named, Edit(rf"^{name}_bucket{{.*{labels}", per_second=rest)]


TTFT, ITL = "sglang:time_to_first_token_seconds", "sglang:inter_token_latency_seconds"
ITL_RATES = {"0.002": 0, "0.004": 0, "0.006": 0, "0.008": 0, "0.01": 0, "0.015": 0, "0.02": 0, "0.025": 50}
SLOW = [
    *buckets(TTFT, 'is_streaming="true"', {"0.1": 0, "0.2": 1, "0.4": 2}, rest=3),
    *buckets(TTFT, 'is_streaming="false"', {"0.1": 0, "0.2": 0, "0.4": 0, "0.6": 0, "0.8": 0}, rest=1),
    *buckets(ITL, "", ITL_RATES, rest=100),
]
FAST = [
    *buckets(TTFT, 'is_streaming="true"', {}, rest=3),
    *buckets(TTFT, 'is_streaming="false"', {}, rest=1),
    *buckets(ITL, "", ITL_RATES, rest=100),
]
ROUTER_EDITS = (
    Edit('^smg_http_requests_total{method="POST",path="/v1/chat/completions"', per_second=9),
    Edit('^smg_http_requests_total{method="GET"', per_second=40),
    Edit('^smg_http_inflight_request_age_count{gt="0",le="30"', 12),
    Edit('^smg_http_inflight_request_age_count{gt="30",le="60"', 8),
)


def underscored(text: str) -> str:
    """As some ways into Prometheus leave names."""
    return text.replace("sglang:", "sglang_")


def only(*families: str) -> re.Pattern[str]:
    return re.compile(rf"^(#.*|({'|'.join(families)}).*)$")


def newborn(text: str) -> str:
    """A worker that has served nothing: its gauges exist, its labelled counters do not yet."""
    gauges = only("sglang:num_[a-z_]*reqs{", "sglang:token_usage", "sglang:max_total", "sglang:http_requests_active")
    return "\n".join(line for line in text.splitlines() if gauges.match(line)) + "\n"


def stamped(at: float) -> Pod:
    """A worker whose samples carry the time `at`, as of a federation that has stopped."""

    def stamp(text: str) -> str:
        lines = [line for line in text.splitlines() if line.startswith("sglang:num_running_reqs")]
        return "".join(f"{line} {int(at * 1000)}\n" for line in lines)

    return Pod("old", "d-0", DECODE, change=stamp)


def world() -> dict[str, Pod]:
    pods = [
        Pod("team-a", "p-0", PREFILL, PREFILL_EDITS),
        Pod("team-a", "d-0", DECODE, (*DECODE_EDITS, *SLOW)),
        Pod("team-a", "d-1", DECODE, (*DECODE_EDITS, *FAST)),
        Pod("team-a", "r-0", SMG, ROUTER_EDITS),
        # the same names elsewhere, with other numbers, and underscores
        Pod("team-b", "p-0", PREFILL, (Edit("^sglang:num_queue_reqs", 40),), underscored),
        Pod("team-b", "d-0", DECODE, (Edit("^sglang:num_running_reqs", 60),), underscored),
        Pod("new", "p-0", PREFILL, change=newborn),
        Pod("new", "d-0", DECODE, change=newborn),
        Pod("nan", "p-0", PREFILL),
        Pod("nan", "d-0", DECODE, (Edit("^sglang:token_usage", "NaN"),)),
        Pod("broken", "p-0", PREFILL, broken=True),
        Pod("broken", "d-0", DECODE, broken=True),
        stamped(time.time() - 100),
    ]
    return {f"{pod.namespace}/{pod.name}": pod for pod in pods}


def target(namespace: str, prefill: str = "p-0", decode: str = "d-0", router: str = "", name: str = "demo") -> Target:
    return Target(
        key=(namespace, name),
        prefill=frozenset(prefill.split()),
        decode=frozenset(decode.split()),
        router=frozenset(router.split()),
    )


TARGETS = [
    target("team-a", decode="d-0 d-1", router="r-0"),
    target("team-a", decode="d-0 d-1 d-2", router="r-9", name="one-lost"),
    target("team-a", decode="d-0 d-7 d-8", name="two-lost"),
    target("team-b"),
    target("new"),
    target("nan"),
    target("broken"),
    target("old", prefill=""),
    target("nowhere"),
    target("starting", prefill="", decode=""),
]


@pytest.fixture(scope="module")
def windows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Window]]:
    """One poll of all targets, by `namespace/name`, after the pages have moved for a whole window."""
    binary = ensure(["prometheus"], Progress())["prometheus"]
    pods = world()
    folder = tmp_path_factory.mktemp("prometheus")
    with (
        serving(list(pods.values())) as port,
        prometheus(binary, folder, list(pods.values()), [pods["team-a/d-0"], pods["team-a/r-0"]], port) as url,
    ):
        # series that are younger than the window would have smaller rates
        scrapes = 'min(count_over_time({__name__=~"sglang:num_queue_reqs|smg_tokio_workers", namespace="team-a"}[1m]))'
        wait_for(lambda: (value_of(url, scrapes) or 0) > WINDOW_SECONDS + 1, seconds=60)
        yield asyncio.run(poll(url))


async def poll(url: str) -> dict[str, Window]:
    clock = SystemClock()
    source = PrometheusSource(Endpoint(url), clock)
    try:
        poller = Poller(source, lambda: TARGETS, lambda _: None, clock, every_seconds=15, window_seconds=WINDOW_SECONDS)
        await poller.poll()
        found = {"/".join(t.key): poller.window(t.key) for t in TARGETS}
        return {name: window for name, window in found.items() if window is not None}
    finally:
        await source.close()


def near(value: float) -> object:
    return pytest.approx(value, rel=CLOSE)


def test_rates_and_queues_of_a_service(windows: dict[str, Window]) -> None:
    window = windows["team-a/demo"]
    assert window.fault is None, window.message
    # requests: the router's POSTs; finished ones and tokens: both decode pods, streaming or not; nothing from prefill
    assert window.arrival_rate == near(9)
    assert window.completion_rate == near(2 * (3 + 1))
    assert window.prompt_tokens_per_second == near(2 * (300 + 100))
    assert window.generation_tokens_per_second == near(2 * 220)
    assert window.cached_share == near(200 / (600 + 200))
    # the engines' open requests (11 each) are more recent than the router's count (20)
    assert window.in_flight == 22


def test_roles_of_a_service(windows: dict[str, Window]) -> None:
    prefill, decode = windows["team-a/demo"].prefill, windows["team-a/demo"].decode
    assert (prefill.ready, prefill.reporting, decode.ready, decode.reporting) == (1, 1, 2, 2)
    assert (prefill.running, prefill.waiting, decode.running) == (1, 2, 12)
    # prefill's bootstrap queue (5) and decode's prealloc queues (2 × 3) are the same requests; 2 × 1 wait after them
    assert decode.waiting == 6 + 2
    assert decode.held == 2 * 4
    assert (prefill.finished, decode.finished) == (near(2 * 50), near(2 * (3 + 1)))
    assert prefill.kv_usage == pytest.approx(0.3)
    assert decode.kv_usage == pytest.approx(0.5)
    assert prefill.busy == near(0.5 + 0.1)


def test_latencies_of_a_service(windows: dict[str, Window]) -> None:
    window = windows["team-a/demo"]
    # cumulative per second: ≤0.1 4, ≤0.2 5, ≤0.4 6, ≤0.6 7, ≤0.8 7, ≤1.0 8; the 7.2th of 8 is 0.2 into (0.8, 1.0]
    assert window.ttft_seconds == pytest.approx(0.8 + 0.2 * 0.2, rel=0.02)
    assert window.ttft_samples == near(8 * WINDOW_SECONDS)
    # ≤0.025 100, ≤0.03 200: the 180th of 200
    assert window.itl_seconds == pytest.approx(0.025 + 0.005 * 0.8, rel=0.02)
    assert window.sample_age_seconds is not None
    assert 0 <= window.sample_age_seconds < 5


def test_a_pod_scraped_by_two_jobs_counts_once(windows: dict[str, Window]) -> None:
    """`d-0` and `r-0` are in both jobs; the numbers above hold because each counts once."""
    assert windows["team-a/demo"].decode.running == 12
    assert windows["team-a/demo"].arrival_rate == near(9)


def test_names_with_underscores_and_namespaces_kept_apart(windows: dict[str, Window]) -> None:
    window = windows["team-b/demo"]
    assert window.fault is None, window.message
    assert window.decode.running == 60
    assert window.prefill.waiting == 40
    assert window.arrival_rate is None  # no router reports: not the same as no requests
    assert window.completion_rate == 0


def test_a_worker_that_has_served_nothing_is_idle_and_not_missing(windows: dict[str, Window]) -> None:
    window = windows["new/demo"]
    assert window.fault is None, window.message
    assert (window.completion_rate, window.decode.running, window.in_flight) == (0, 0, 0)
    assert window.ttft_seconds is None


def test_one_lost_pod_is_taken_for_an_average_one(windows: dict[str, Window]) -> None:
    window = windows["team-a/one-lost"]
    assert window.fault is None, window.message
    assert (window.decode.ready, window.decode.reporting) == (3, 2)
    assert window.decode.running == 18
    assert window.arrival_rate is None


@pytest.mark.parametrize(
    ("name", "fault", "words"),
    [
        ("team-a/two-lost", MetricsFault.PARTIAL, "1 of 3 decode workers report metrics"),
        ("nan/demo", MetricsFault.INVALID, "no number for kv_usage of any decode worker"),
        ("broken/demo", MetricsFault.EMPTY, "no metrics of the 2 ready workers"),
        ("nowhere/demo", MetricsFault.EMPTY, "no metrics of the 2 ready workers"),
        ("old/demo", MetricsFault.STALE, "no worker was scraped in the last 60 s"),
        ("starting/demo", MetricsFault.EMPTY, "no worker is ready"),
    ],
)
def test_faults_say_what_is_wrong(windows: dict[str, Window], name: str, fault: MetricsFault, words: str) -> None:
    window = windows[name]
    assert window.fault is fault, window
    assert words in window.message
    assert dataclasses.replace(window, fault=None, message="") == Window()


def test_every_query_is_asked_within_the_services_namespaces() -> None:
    asked = queries(60, ["b", "a.*", 'x"} or vector(1) #'])
    assert set(asked) == set(Metric)
    for query in asked.values():
        assert query.count("namespace=~") == query.count("{")
        assert r'namespace=~"a\\.\\*|b|x\"\\}' in query
