"""Every metric of the operator, in one place."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

#: A plan takes milliseconds; a run that creates everything takes as long as the API server.
_RUN_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

SUCCESS: Final = "success"
REFUSED: Final = "refused"
TRANSIENT: Final = "transient"
BUG: Final = "bug"


class Instruments:
    """Metrics under their Prometheus names. Labels are bounded: never a namespace or a name of a service."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.reconciles = Counter(
            "pd_operator_reconcile_total",
            f"Runs by how they ended: {SUCCESS}, {REFUSED} (a write is refused), {TRANSIENT} (tried again), {BUG}.",
            ["result"],
            registry=registry,
        )
        self.reconcile_seconds = Histogram(
            "pd_operator_reconcile_duration_seconds", "Time of one run.", buckets=_RUN_SECONDS, registry=registry
        )
        self.queue_depth = Gauge("pd_operator_queue_depth", "Services waiting for a worker.", registry=registry)
        self.queue_age = Gauge(
            "pd_operator_queue_oldest_seconds", "How long the first service has waited.", registry=registry
        )
        self.queue_running = Gauge("pd_operator_queue_running", "Services with a worker.", registry=registry)
        self.retries = Counter("pd_operator_retries_total", "Runs repeated after a failure.", registry=registry)
        self.api_requests = Counter(
            "pd_operator_api_requests_total",
            "Requests to the API server by the operator itself; watches are not counted.",
            ["verb", "kind", "code"],
            registry=registry,
        )
        self.api_seconds = Histogram(
            "pd_operator_api_request_duration_seconds",
            "Time of one request to the API server.",
            ["verb"],
            buckets=_RUN_SECONDS,
            registry=registry,
        )
        self.watch_last_event = Gauge(
            "pd_operator_watch_last_event_timestamp_seconds",
            "Last sign of life of a watch: an event, or its regular renewal.",
            ["kind"],
            registry=registry,
        )
        self.watch_events = Counter(
            "pd_operator_watch_events_total", "Objects that watches reported.", ["kind"], registry=registry
        )
        self.objects = Gauge("pd_operator_objects", "Objects in the store.", ["kind"], registry=registry)
        self.resyncs = Counter("pd_operator_resyncs_total", "Complete lists of every kind.", registry=registry)
        self.resync_repairs = Counter(
            "pd_operator_resync_repairs_total",
            "Services for which a list held news that no watch had told.",
            registry=registry,
        )
        self.engine_asks = Counter(
            "pd_operator_engine_asks_total",
            "Questions to draining engines by answer: idle, busy, unknown.",
            ["answer"],
            registry=registry,
        )
        self.metrics_polls = Counter(
            "pd_operator_metrics_polls_total",
            "Polls of Prometheus by result: ok, or the fault for which scaling holds.",
            ["result"],
            registry=registry,
        )
        self.ready = Gauge("pd_operator_ready", "1 once the store is complete and workers run.", registry=registry)
