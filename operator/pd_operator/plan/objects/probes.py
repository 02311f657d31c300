"""Probes of a worker.

`/health` runs a one-token generation: it never answers in under a second, and may take 20 s (SGLang's own limit) on a
busy engine. `/ready` only reads a flag, but followers of a multi-node replica and older engines do not have it.
Neither may be asked of the bootstrap port, which answers long before the model is loaded.
"""

from __future__ import annotations

import math
from typing import Any, Final

from pd_operator.api.v1alpha1 import PDInferenceService
from pd_operator.plan.objects.engine_command import parse_version

#: The first release that is known to serve `/ready`.
READY_ENDPOINT_SINCE: Final = (0, 5, 23)

_STARTUP_PERIOD_SECONDS: Final = 5
#: Above SGLang's own limit of 20 s for `/health`, so that its answer is seen.
_HEALTH_TIMEOUT_SECONDS: Final = 25


def worker_probes(service: PDInferenceService, role: str) -> dict[str, Any]:
    """Start-up, readiness and liveness probe."""
    settings = service.role(role)
    has_ready = (
        settings.parallelism.nodes == 1 and parse_version(service.spec.engine.resolved_version) >= READY_ENDPOINT_SINCE
    )
    return {
        "startupProbe": http_probe(
            "/health",
            period=_STARTUP_PERIOD_SECONDS,
            timeout=_HEALTH_TIMEOUT_SECONDS,
            failures=math.ceil(settings.startup_timeout_seconds / _STARTUP_PERIOD_SECONDS),
        ),
        "readinessProbe": (
            http_probe("/ready", period=2, timeout=2, failures=3)
            if has_ready
            else http_probe("/health", period=10, timeout=_HEALTH_TIMEOUT_SECONDS, failures=3)
        ),
        # Lenient: a restart costs minutes of loading, and SGLang's watchdog ends a stuck engine after five minutes.
        "livenessProbe": http_probe("/health", period=30, timeout=_HEALTH_TIMEOUT_SECONDS, failures=6),
    }


def http_probe(path: str, *, period: int, timeout: int, failures: int) -> dict[str, Any]:
    """An HTTP probe of the container's port `http`; times in seconds."""
    return {
        "httpGet": {"path": path, "port": "http"},
        "periodSeconds": period,
        "timeoutSeconds": timeout,
        "failureThreshold": failures,
    }
