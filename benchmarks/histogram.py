"""Reading numbers off a page of Prometheus metrics."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families


def total(page: str, counter: str) -> float:
    """The sum of a counter over all its labels."""
    return sum(value for _, value in _samples(page, counter))


def quantile(page: str, histogram: str, q: float) -> float:
    """A quantile, in the histogram's unit, linear inside a bucket as Prometheus' `histogram_quantile`.

    A value beyond the last finite bucket is told as that bucket's bound; an empty histogram as 0.
    """
    buckets: dict[float, float] = {}
    for labels, count in _samples(page, f"{histogram}_bucket"):
        bound = float(labels["le"])
        buckets[bound] = buckets.get(bound, 0.0) + count
    if not buckets or not max(buckets.values()):
        return 0.0
    wanted = q * max(buckets.values())
    low, below = 0.0, 0.0
    for bound in sorted(buckets):
        if buckets[bound] >= wanted:
            if bound == float("inf"):
                return low
            return low + (bound - low) * (wanted - below) / (buckets[bound] - below)
        low, below = bound, buckets[bound]
    return low


def _samples(page: str, name: str) -> list[tuple[dict[str, str], float]]:
    return [
        (dict(sample.labels), sample.value)
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == name
    ]
