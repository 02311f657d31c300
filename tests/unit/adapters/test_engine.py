"""Whether an engine is idle, from the page that SGLang 0.5.23 serves."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from prometheus_client import CollectorRegistry

from pd_operator.adapters.engine import HttpEngines, is_idle
from pd_operator.reconcile.instruments import Instruments


def page(**changes: Any) -> dict[str, Any]:
    """`/v1/loads` of an idle worker with one rank; `changes` by section or top-level field."""
    load: dict[str, Any] = {
        "dp_rank": 0,
        "timestamp": 1796058759.65,
        "num_running_reqs": 0,
        "num_waiting_reqs": 0,
        "num_used_tokens": 64,
        "token_usage": 0.01,
        "max_total_num_tokens": 8192,
        "memory": {"weight_gb": 0.001, "token_capacity": 8192},
        "disaggregation": {
            "mode": "decode",
            "prefill_bootstrap_queue_reqs": 0,
            "prefill_inflight_queue_reqs": 0,
            "decode_prealloc_queue_reqs": 0,
            "decode_transfer_queue_reqs": 0,
            "decode_retracted_queue_reqs": 0,
            "kv_transfer_speed_gb_s": 1.5,
            "kv_transfer_latency_ms": 3.0,
        },
        "queues": {"waiting": 0, "grammar": 0, "paused": 0, "retracted": 0, "prealloc_ready": 0},
    }
    for name, value in changes.items():
        load[name] = {**load[name], **value} if isinstance(value, dict) else value
    return {"timestamp": "2026-11-30T10:00:00+00:00", "version": "0.5.23", "loads": [load]}


def test_nothing_anywhere_is_idle_whatever_is_cached() -> None:
    assert is_idle(page()) is True


@pytest.mark.parametrize(
    "changes",
    [
        {"num_running_reqs": 1},
        {"num_waiting_reqs": 1},
        {"disaggregation": {"prefill_bootstrap_queue_reqs": 1}},
        {"disaggregation": {"prefill_inflight_queue_reqs": 1}},
        {"disaggregation": {"decode_prealloc_queue_reqs": 1}},
        {"disaggregation": {"decode_transfer_queue_reqs": 1}},
        {"disaggregation": {"decode_retracted_queue_reqs": 1}},
        {"queues": {"paused": 1}},
        {"queues": {"grammar": 2}},
    ],
    ids=str,
)
def test_a_request_in_any_place_is_busy(changes: dict[str, Any]) -> None:
    assert is_idle(page(**changes)) is False


def test_every_rank_counts() -> None:
    both = page()
    both["loads"].append({**page(num_running_reqs=3)["loads"][0], "dp_rank": 1})
    assert is_idle(both) is False


def test_an_engine_without_disaggregation_can_be_judged() -> None:
    old = page()
    del old["loads"][0]["disaggregation"], old["loads"][0]["queues"]
    assert is_idle(old) is True


@pytest.mark.parametrize(
    "answer", [None, [], {}, {"loads": []}, {"loads": [{}]}, {"loads": [{"num_running_reqs": 0}]}, {"loads": ["x"]}]
)
def test_what_cannot_be_read_is_not_taken_for_idle(answer: Any) -> None:
    assert is_idle(answer) is None


async def test_pods_are_asked_over_http_and_silent_ones_are_left_out() -> None:
    async def loads(request: web.Request) -> web.StreamResponse:
        return web.json_response(page(num_running_reqs=0))

    app = web.Application()
    app.add_routes([web.get("/v1/loads", loads)])
    registry = CollectorRegistry()
    async with TestServer(app, host="127.0.0.1") as server, aiohttp.ClientSession() as session:
        assert server.port is not None
        engines = HttpEngines(session, Instruments(registry), port=server.port)
        answers = await engines.idle({"here": "127.0.0.1", "nobody": "127.0.0.2"})
    assert answers == {"here": True}
    assert registry.get_sample_value("pd_operator_engine_asks_total", {"answer": "idle"}) == 1
    assert registry.get_sample_value("pd_operator_engine_asks_total", {"answer": "unknown"}) == 1


async def test_errors_and_nonsense_are_unknown() -> None:
    async def loads(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(0)
        return web.Response(status=503) if request.host.startswith("127.0.0.1") else web.Response(text="<html>")

    app = web.Application()
    app.add_routes([web.get("/v1/loads", loads)])
    async with TestServer(app, host="0.0.0.0") as server, aiohttp.ClientSession() as session:
        assert server.port is not None
        engines = HttpEngines(session, Instruments(CollectorRegistry()), port=server.port)
        assert await engines.idle({"failing": "127.0.0.1", "odd": "127.0.0.2"}) == {}
