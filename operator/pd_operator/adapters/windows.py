"""From answers about all pods to one `Window` for each service. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pd_operator.adapters.prometheus import Sample
from pd_operator.adapters.queries import HISTOGRAMS, Metric
from pd_operator.reconcile.ports import ServiceKey
from pd_operator.scaling.window import MetricsFault, RoleWindow, Window

#: A role of which fewer pods than this part report is not judged at all.
LEAST_REPORTING: Final = 0.5
#: With fewer scrapes than this in the window there are no rates.
LEAST_SAMPLES: Final = 2


@dataclass(frozen=True, slots=True)
class Target:
    """A service whose metrics are wanted.

    Attributes:
        key: Namespace and name.
        prefill, decode: Names of its leader pods that are ready and take requests: one for each ready replica.
        router: Names of its ready router pods.
        percentile: Of the SLO's latencies, 1 to 99.
        max_age_seconds: Older samples count as missing.
    """

    key: ServiceKey
    prefill: frozenset[str]
    decode: frozenset[str]
    router: frozenset[str] = frozenset()
    percentile: int = 90
    max_age_seconds: float = 60.0


#: Values by pod (namespace and name).
_Values = dict[tuple[str, str], float]
#: Bucket rates by pod, then by upper bound.
_Buckets = dict[tuple[str, str], dict[float, float]]


class Answers:
    """All answers of one poll, by pod. Values that are no numbers are left out, and known as invalid."""

    def __init__(self, answers: Mapping[Metric, Sequence[Sample]], window_seconds: float) -> None:
        self.window_seconds = window_seconds
        self._values: dict[Metric, _Values] = {}
        self._buckets: dict[Metric, _Buckets] = {}
        self._invalid: dict[Metric, set[tuple[str, str]]] = {}
        for metric in Metric:
            samples = answers.get(metric, ())
            self._invalid[metric] = {_pod(s) for s in samples if not math.isfinite(s.value)}
            finite = [s for s in samples if math.isfinite(s.value)]
            if metric in HISTOGRAMS:
                self._buckets[metric] = _by_bound(finite)
            else:
                self._values[metric] = {_pod(s): s.value for s in finite}

    def values(self, metric: Metric, namespace: str, pods: Iterable[str]) -> dict[str, float]:
        """Values of those of the pods that have one."""
        known = self._values[metric]
        return {pod: known[namespace, pod] for pod in pods if (namespace, pod) in known}

    def buckets(self, metric: Metric, namespace: str, pods: Iterable[str]) -> dict[float, float]:
        """Bucket rates summed over pods, by upper bound."""
        known = self._buckets[metric]
        total: dict[float, float] = {}
        for pod in pods:
            for bound, rate in known.get((namespace, pod), {}).items():
                total[bound] = total.get(bound, 0.0) + rate
        return total

    def invalid(self, namespace: str, pods: Iterable[str]) -> Metric | None:
        """A metric whose every value for these pods is no number, if there is one."""
        names = {(namespace, pod) for pod in pods}
        for metric, bad in self._invalid.items():
            good = self._buckets[metric] if metric in HISTOGRAMS else self._values[metric]
            if bad & names and not names & good.keys():
                return metric
        return None


def windows_of(answers: Answers, targets: Iterable[Target]) -> dict[ServiceKey, Window]:
    """One window for each target."""
    return {target.key: window_of(answers, target) for target in targets}


def window_of(answers: Answers, target: Target) -> Window:
    """What the answers say about one service."""
    prefill = _Reporting.of(answers, target, target.prefill)
    decode = _Reporting.of(answers, target, target.decode)
    fault = _fault(answers, target, prefill, decode)
    if fault is not None:
        return fault
    router = _Reporting.of(answers, target, target.router, Metric.ROUTER_AGE)
    completions = decode.rate(Metric.COMPLETIONS)
    ttft = _latency(answers, Metric.TTFT, decode, target)
    if ttft is None:
        ttft = _latency(answers, Metric.ROUTER_TTFT, router, target)
    itl = _latency(answers, Metric.ITL, decode, target)
    bootstrap, prealloc = prefill.total(Metric.BOOTSTRAP), decode.total(Metric.PREALLOC)
    return Window(
        prefill=RoleWindow(
            ready=len(target.prefill),
            reporting=len(prefill.pods),
            running=prefill.total(Metric.RUNNING),
            waiting=prefill.total(Metric.QUEUE),
            finished=prefill.rate(Metric.COMPLETIONS),
            kv_usage=prefill.mean(Metric.KV_USAGE),
            busy=prefill.mean(Metric.BUSY),
        ),
        decode=RoleWindow(
            ready=len(target.decode),
            reporting=len(decode.pods),
            running=decode.total(Metric.RUNNING),
            # one request waits in both queues at once, seen from either side; the engine's own queue comes after
            waiting=_sum(_max(bootstrap, prealloc), decode.total(Metric.QUEUE)),
            held=decode.total(Metric.TRANSFER),
            finished=completions,
            kv_usage=decode.mean(Metric.KV_USAGE),
            busy=decode.mean(Metric.BUSY),
        ),
        arrival_rate=router.rate(Metric.ARRIVALS),
        completion_rate=completions,
        in_flight=_max(decode.total(Metric.ACTIVE), router.total(Metric.ROUTER_IN_FLIGHT)),
        prompt_tokens_per_second=decode.rate(Metric.PROMPT_TOKENS),
        generation_tokens_per_second=decode.rate(Metric.GENERATED_TOKENS),
        cached_share=_cached_share(prefill),
        ttft_seconds=ttft.seconds if ttft else None,
        ttft_samples=ttft.observations if ttft else None,
        itl_seconds=itl.seconds if itl else None,
        sample_age_seconds=max([*prefill.ages.values(), *decode.ages.values()], default=None),
    )


@dataclass(frozen=True, slots=True)
class _Reporting:
    """Pods of one role whose metrics are fresh.

    Attributes:
        expected: How many there should be.
        pods: Those that report.
        ages: Seconds since the last scrape of those, by pod.
        stale: Seconds since the last scrape of the freshest other one, if any was scraped lately.
    """

    answers: Answers
    namespace: str
    expected: int
    pods: frozenset[str]
    ages: Mapping[str, float]
    stale: float | None

    @staticmethod
    def of(answers: Answers, target: Target, pods: frozenset[str], age: Metric = Metric.AGE) -> _Reporting:
        namespace = target.key[0]
        ages = answers.values(age, namespace, pods)
        # a clock that is ahead of Prometheus's makes ages slightly negative
        fresh = {pod: max(seconds, 0.0) for pod, seconds in ages.items() if seconds <= target.max_age_seconds}
        old = [seconds for seconds in ages.values() if seconds > target.max_age_seconds]
        return _Reporting(answers, namespace, len(pods), frozenset(fresh), fresh, min(old, default=None))

    def total(self, metric: Metric) -> float | None:
        """Sum over all pods, with pods that do not report taken as average ones; None if no pod has a value."""
        values = self.answers.values(metric, self.namespace, self.pods)
        return sum(values.values()) * self.expected / len(values) if values else None

    def rate(self, metric: Metric) -> float | None:
        """The same for a counter, whose series do not exist before they count something: no series is zero."""
        if not self.pods:
            return None
        values = self.answers.values(metric, self.namespace, self.pods)
        return sum(values.values()) * self.expected / len(self.pods)

    def mean(self, metric: Metric) -> float | None:
        """Mean over pods."""
        values = self.answers.values(metric, self.namespace, self.pods)
        return sum(values.values()) / len(values) if values else None


def _fault(answers: Answers, target: Target, prefill: _Reporting, decode: _Reporting) -> Window | None:
    expected = prefill.expected + decode.expected
    if not expected:
        return _faulty(MetricsFault.EMPTY, "no worker is ready, so none has metrics")
    reporting = prefill.pods | decode.pods
    if not reporting:
        ages = [age for age in (prefill.stale, decode.stale) if age is not None]
        if ages:
            return _faulty(MetricsFault.STALE, f"no worker was scraped in the last {target.max_age_seconds:.0f} s")
        return _faulty(
            MetricsFault.EMPTY,
            f"Prometheus has no metrics of the {expected} ready workers: does it scrape their pods, and do its series "
            "have the labels namespace and pod?",
        )
    for name, role in (("prefill", prefill), ("decode", decode)):
        if len(role.pods) < role.expected * LEAST_REPORTING:
            return _faulty(MetricsFault.PARTIAL, f"{len(role.pods)} of {role.expected} {name} workers report metrics")
    scrapes = answers.values(Metric.SAMPLES, target.key[0], reporting).values()
    if max(scrapes, default=0.0) < LEAST_SAMPLES:
        return _faulty(
            MetricsFault.PARTIAL,
            f"fewer than {LEAST_SAMPLES} scrapes of any worker in the last {answers.window_seconds:.0f} s: they have "
            "just started, or Prometheus scrapes more seldom than the operator's windowSeconds allows",
        )
    for name, role in (("prefill", prefill), ("decode", decode)):
        invalid = answers.invalid(target.key[0], role.pods)
        if invalid is not None:
            return _faulty(MetricsFault.INVALID, f"Prometheus has no number for {invalid} of any {name} worker")
    return None


def _faulty(fault: MetricsFault, message: str) -> Window:
    return Window(fault=fault, message=message)


def _cached_share(prefill: _Reporting) -> float | None:
    computed, cached = prefill.rate(Metric.COMPUTED_TOKENS), prefill.rate(Metric.CACHED_TOKENS)
    if computed is None or cached is None or computed + cached <= 0:
        return None
    return cached / (computed + cached)


# ---- latencies ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Latency:
    """A percentile and how many observations it rests on."""

    seconds: float
    observations: float


def _latency(answers: Answers, metric: Metric, role: _Reporting, target: Target) -> Latency | None:
    return percentile(
        answers.buckets(metric, role.namespace, role.pods), target.percentile / 100, answers.window_seconds
    )


def percentile(buckets: Mapping[float, float], part: float, window_seconds: float) -> Latency | None:
    """A percentile from cumulative bucket rates, interpolated within its bucket as PromQL does.

    Args:
        buckets: Observations per second up to each upper bound, the infinite one included.
        part: 0 to 1.
        window_seconds: Time that the rates were taken over.

    Returns:
        None without an observation, or without the infinite bucket, which tells how many there are. A percentile in
        the infinite bucket is the largest finite bound: at least that long.
    """
    total = buckets.get(math.inf, 0.0)
    if total * window_seconds < 0.5:  # rates of nothing are not always exactly zero
        return None
    rank = part * total
    lower, below = 0.0, 0.0
    for bound in sorted(buckets):
        up_to = max(buckets[bound], below)  # pods with other bounds make sums that are not monotonous
        if up_to >= rank:
            if math.isinf(bound):
                return Latency(lower, total * window_seconds)
            inside = (rank - below) / (up_to - below) if up_to > below else 1.0
            return Latency(lower + (bound - lower) * inside, total * window_seconds)
        lower, below = bound, up_to
    return None


def _by_bound(samples: Iterable[Sample]) -> _Buckets:
    buckets: _Buckets = {}
    for sample in samples:
        try:
            bound = float(sample.labels.get("le", ""))
        except ValueError:
            continue
        if not math.isnan(bound):
            buckets.setdefault(_pod(sample), {})[bound] = sample.value
    return buckets


def _pod(sample: Sample) -> tuple[str, str]:
    return sample.labels.get("namespace", ""), sample.labels.get("pod", "")


def _sum(a: float | None, b: float | None) -> float | None:
    if a is None or b is None:
        return a if b is None else b
    return a + b


def _max(a: float | None, b: float | None) -> float | None:
    if a is None or b is None:
        return a if b is None else b
    return max(a, b)
