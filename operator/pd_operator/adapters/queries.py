"""What is asked of Prometheus: one query for each metric, over all services at once.

Answers carry the labels `namespace` and `pod`, which every usual way of scraping pods sets; nothing else is required.
The operator knows which pods belong to which role of which service, so it needs no labels of its own on series.

Names and labels were checked on pages of SGLang 0.5.23 and of its router (smg 1.13). What the expressions allow for:

* SGLang's names have a colon (`sglang:num_running_reqs`); some ways to Prometheus replace it by an underscore.
* A pod that is scraped by two jobs must not count twice: the largest job wins.
* With more than one rank logging, tensor and pipeline ranks repeat the same requests, data-parallel ranks have their
  own: the largest of the former, the sum (or mean, for a share) of the latter.
* Older engines lack some metrics or have them under an older name: alternatives are joined by `or`, which takes the
  right side only for pods that the left one lacks.
* Gauges are averaged over the window, since one scrape of a queue says little.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Final

_POD: Final = "namespace, pod"
_SCRAPE: Final = f"{_POD}, job, instance"
#: Longest `namespace` matcher; a longer one is left out, because the query travels in a URL.
_LONGEST_MATCHER: Final = 2000

_INFERENCE: Final = '"/generate|/v1/(chat/completions|completions|responses|messages)"'


class Metric(StrEnum):
    """Answers, by what they are used for. All are per pod; rates are per second."""

    AGE = "age"  # seconds since the engine was scraped
    SAMPLES = "samples"  # scrapes in the window
    ROUTER_AGE = "router_age"  # seconds since the router was scraped
    ARRIVALS = "arrivals"  # requests entering the router
    ROUTER_IN_FLIGHT = "router_in_flight"
    ACTIVE = "active"  # inference requests inside the engine's HTTP server: waiting, in transfer or running
    RUNNING = "running"
    QUEUE = "queue"  # ready to run, waiting for a batch
    BOOTSTRAP = "bootstrap"  # on prefill: waiting until a decode worker has reserved KV space
    PREALLOC = "prealloc"  # on decode: the same requests, seen from there
    TRANSFER = "transfer"  # on decode: with KV space, waiting for prefill and for the transfer
    KV_USAGE = "kv_usage"
    BUSY = "busy"
    COMPLETIONS = "completions"
    PROMPT_TOKENS = "prompt_tokens"
    GENERATED_TOKENS = "generated_tokens"
    COMPUTED_TOKENS = "computed_tokens"  # prompt tokens that prefill computed
    CACHED_TOKENS = "cached_tokens"  # prompt tokens that prefill found in its prefix cache
    TTFT = "ttft"  # histogram buckets
    ITL = "itl"  # histogram buckets
    ROUTER_TTFT = "router_ttft"  # histogram buckets


HISTOGRAMS: Final = frozenset({Metric.TTFT, Metric.ITL, Metric.ROUTER_TTFT})


#: Makes an expression of a metric's name.
_Shape = Callable[[str], str]


def queries(window_seconds: int, namespaces: Iterable[str] = ()) -> dict[Metric, str]:
    """Every query.

    Args:
        window_seconds: Time over which rates and averages are taken; it should hold four scrapes.
        namespaces: Where the pods are, so that no more than needed is read; none means everywhere.
    """
    within = _matcher(namespaces)
    over = f"[{window_seconds}s]"

    def select(*matchers: str) -> str:
        return "{" + ", ".join(m for m in (within, *matchers) if m) + "}"

    def gauge(*matchers: str) -> _Shape:
        return lambda name: _largest(f"sum by ({_SCRAPE}) (avg_over_time({name}{select(*matchers)}{over}))")

    def gauge_of_ranks(reduce: str) -> _Shape:
        return lambda name: _largest(
            f"{reduce} by ({_SCRAPE}) ({_one_per_rank(f'avg_over_time({name}{select()}{over})')})"
        )

    def rate(*matchers: str) -> _Shape:
        return lambda name: _largest(f"sum by ({_SCRAPE}) (rate({name}{select(*matchers)}{over}))")

    def rate_of_ranks(*matchers: str) -> _Shape:
        return lambda name: _largest(f"sum by ({_SCRAPE}) ({_one_per_rank(f'rate({name}{select(*matchers)}{over})')})")

    def buckets(name: str) -> str:
        return f"max by ({_POD}, le) (sum by ({_SCRAPE}, le) (rate({name}{select()}{over})))"

    def busy(name: str) -> str:
        compute = select('category=~"run_batch|process_batch_result"')
        ranks = f"sum by ({_SCRAPE}, dp_rank, tp_rank, pp_rank) (rate({name}{compute}{over}))"
        return _largest(f"avg by ({_SCRAPE}) ({ranks})")

    def age(name: str) -> str:
        return f"(time() - {_largest(f'timestamp({name}{select()})')})"

    def samples(name: str) -> str:
        return _largest(f"count_over_time({name}{select()}{over})")

    engine_pulse = ("num_running_reqs", "http_requests_active", "max_total_num_tokens")
    router_pulse = ("smg_http_connections_active", "smg_worker_pool_size", "smg_tokio_workers")
    return {
        Metric.AGE: _engine(age, *engine_pulse),
        Metric.SAMPLES: _engine(samples, *engine_pulse),
        Metric.ROUTER_AGE: _first_known(*(age(name) for name in router_pulse)),
        Metric.ARRIVALS: rate('method="POST"', f"path=~{_INFERENCE}")("smg_http_requests_total"),
        Metric.ROUTER_IN_FLIGHT: gauge()("smg_http_inflight_request_age_count"),
        Metric.ACTIVE: _engine(gauge('method="POST"', f"endpoint=~{_INFERENCE}"), "http_requests_active"),
        Metric.RUNNING: _engine(gauge_of_ranks("sum"), "num_running_reqs"),
        Metric.QUEUE: _engine(gauge_of_ranks("sum"), "num_queue_reqs"),
        # the second is its name up to 0.5.10
        Metric.BOOTSTRAP: _engine(
            gauge_of_ranks("sum"), "num_prefill_bootstrap_queue_reqs", "num_prefill_prealloc_queue_reqs"
        ),
        Metric.PREALLOC: _engine(gauge_of_ranks("sum"), "num_decode_prealloc_queue_reqs"),
        Metric.TRANSFER: _engine(gauge_of_ranks("sum"), "num_decode_transfer_queue_reqs"),
        Metric.KV_USAGE: _engine(gauge_of_ranks("avg"), "token_usage"),
        Metric.BUSY: _engine(busy, "scheduler_stage_seconds_total"),
        Metric.COMPLETIONS: _engine(rate(), "num_requests_total"),
        Metric.PROMPT_TOKENS: _engine(rate(), "prompt_tokens_total"),
        # the first counts while requests run, the second when they finish
        Metric.GENERATED_TOKENS: _first_known(
            _engine(rate_of_ranks('mode="decode"'), "realtime_tokens_total"),
            _engine(rate(), "generation_tokens_total"),
        ),
        Metric.COMPUTED_TOKENS: _engine(rate_of_ranks('mode="prefill_compute"'), "realtime_tokens_total"),
        Metric.CACHED_TOKENS: _engine(rate_of_ranks('mode="prefill_cache"'), "realtime_tokens_total"),
        Metric.TTFT: _engine(buckets, "time_to_first_token_seconds_bucket"),
        Metric.ITL: _engine(buckets, "inter_token_latency_seconds_bucket"),
        Metric.ROUTER_TTFT: buckets("smg_pd_ttft_seconds_bucket"),
    }


def _engine(shape: _Shape, *names: str) -> str:
    """An engine's metric under each of its names, with a colon or an underscore."""
    return _first_known(*(shape(f"sglang{mark}{name}") for name in names for mark in ":_"))


def _first_known(*expressions: str) -> str:
    return " or ".join(expressions)


def _largest(expression: str) -> str:
    return f"max by ({_POD}) ({expression})"


def _one_per_rank(expression: str) -> str:
    return f"max by ({_SCRAPE}, dp_rank) ({expression})"


def _matcher(namespaces: Iterable[str]) -> str:
    names = "|".join(re.escape(name) for name in sorted(set(namespaces)))
    matcher = f"namespace=~{quoted(names)}"
    return matcher if names and len(matcher) <= _LONGEST_MATCHER else ""


def quoted(text: str) -> str:
    """A string literal of PromQL, in which nothing of `text` can end it or begin something else."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
