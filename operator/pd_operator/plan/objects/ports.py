"""Ports of the pods. Both roles use the same ones, since the router addresses every worker alike."""

from __future__ import annotations

from typing import Final

#: SGLang's API, health and metrics.
ENGINE_HTTP: Final = 30000
#: Rendezvous of the ranks of a multi-node replica, on its leader.
RENDEZVOUS: Final = 20000
#: The router's API and health.
ROUTER_HTTP: Final = 8000
#: The router's metrics (its default).
ROUTER_METRICS: Final = 29000
