"""Asks SGLang engines whether they are idle, by `GET /v1/loads` on the worker's API port.

An answer lists one entry per data-parallel rank, with `num_running_reqs`, `num_waiting_reqs`, a section
`disaggregation` (queues of KV transfer in both directions, names ending in `_queue_reqs`) and a section `queues`.
Seen on SGLang 0.5.23; the endpoint answers within milliseconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

import aiohttp

from pd_operator.plan.objects.ports import ENGINE_HTTP
from pd_operator.reconcile.instruments import Instruments

log = logging.getLogger(__name__)

_TIMEOUT: Final = aiohttp.ClientTimeout(total=3.0)
#: Engines asked at once.
_AT_ONCE: Final = 32
_COUNTS: Final = ("num_running_reqs", "num_waiting_reqs")


class HttpEngines:
    """`Engines` over HTTP."""

    def __init__(self, session: aiohttp.ClientSession, meters: Instruments, port: int = ENGINE_HTTP) -> None:
        self._session = session
        self._meters = meters
        self._port = port
        self._turn = asyncio.Semaphore(_AT_ONCE)

    async def idle(self, addresses: Mapping[str, str]) -> Mapping[str, bool]:
        """Whether each engine is idle; those that do not answer, or not in a form that is known, are left out."""
        answers = await asyncio.gather(*(self._ask(name, address) for name, address in addresses.items()))
        return {name: answer for name, answer in zip(addresses, answers, strict=True) if answer is not None}

    async def _ask(self, name: str, address: str) -> bool | None:
        host = f"[{address}]" if ":" in address else address
        answer: bool | None = None
        try:
            async with (
                self._turn,
                self._session.get(f"http://{host}:{self._port}/v1/loads", timeout=_TIMEOUT) as response,
            ):
                response.raise_for_status()
                answer = is_idle(await response.json(content_type=None))
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            log.info("an engine does not answer", extra={"pod": name, "error": f"{type(error).__name__}: {error}"})
        label = {True: "idle", False: "busy", None: "unknown"}[answer]
        self._meters.engine_asks.labels(answer=label).inc()
        return answer


def is_idle(answer: Any) -> bool | None:
    """Whether an answer of `/v1/loads` shows an engine with nothing to do; None when it cannot be told."""
    loads = answer.get("loads") if isinstance(answer, dict) else None
    if not isinstance(loads, list) or not loads:
        return None
    totals = [_requests(load) for load in loads]
    known = [total for total in totals if total is not None]
    return sum(known) == 0 if len(known) == len(totals) else None


def _requests(load: Any) -> float | None:
    """Requests of one rank, counted in every place where one may be; None without the two basic counts."""
    if not isinstance(load, dict) or not all(isinstance(load.get(name), int | float) for name in _COUNTS):
        return None
    places: list[Any] = [load[name] for name in _COUNTS]
    transfer, queues = load.get("disaggregation"), load.get("queues")
    if isinstance(transfer, dict):
        places += [count for name, count in transfer.items() if name.endswith("_queue_reqs")]
    if isinstance(queues, dict):
        places += queues.values()
    return sum(count for count in places if isinstance(count, int | float))
