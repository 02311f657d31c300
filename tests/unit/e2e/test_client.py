"""The measuring client against a local server of server-sent events."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from e2e import load
from e2e.client import AnswerError, ask

DONE = "[DONE]"


def chunk(text: str | None, finish: str | None = None) -> str:
    return json.dumps({"choices": [{"delta": {"content": text}, "finish_reason": finish}]})


USAGE = json.dumps({"choices": [], "usage": {"completion_tokens": 7}})
WHOLE = (chunk(""), chunk("he"), chunk("llo"), chunk(None, "length"), USAGE, DONE)


@asynccontextmanager
async def server(events: Sequence[str], status: int = 200) -> AsyncIterator[str]:
    """The address of a server that answers every request with `events`."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if status != 200:
            return web.Response(status=status, text="insufficient healthy workers")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for event in events:
            await response.write(f"data: {event}\n\n".encode())
        return response

    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def test_a_whole_answer_is_measured() -> None:
    seen: list[str] = []
    async with server(WHOLE) as url, aiohttp.ClientSession() as session:
        answer = await ask(session, url, "m", "hi", max_tokens=7, on_text=seen.append)
    assert (answer.text, answer.tokens, answer.finish_reason) == ("hello", 7, "length")
    assert seen == ["he", "llo"]
    assert len(answer.itl_seconds) == 1
    assert answer.ttft_seconds > 0


async def test_a_stream_without_a_finish_reason_is_truncated() -> None:
    async with server(WHOLE[:3]) as url, aiohttp.ClientSession() as session:
        with pytest.raises(AnswerError, match="after 2 chunks without a finish reason") as caught:
            await ask(session, url, "m", "hi", max_tokens=7)
    assert caught.value.truncated


async def test_an_error_inside_the_stream_is_truncated() -> None:
    broken = (chunk("he"), json.dumps({"error": {"message": "KV transfer failed"}}))
    async with server(broken) as url, aiohttp.ClientSession() as session:
        with pytest.raises(AnswerError, match="KV transfer failed") as caught:
            await ask(session, url, "m", "hi", max_tokens=7)
    assert caught.value.truncated


async def test_a_refusal_is_failed_and_not_truncated() -> None:
    async with server((), status=503) as url, aiohttp.ClientSession() as session:
        with pytest.raises(AnswerError, match="status 503: insufficient healthy workers") as caught:
            await ask(session, url, "m", "hi", max_tokens=7)
    assert not caught.value.truncated


def options(url: str, requests: int) -> argparse.Namespace:
    return argparse.Namespace(
        url=url, model="m", prompt="hi", max_tokens=7, concurrency=4, seconds=60.0, requests=requests
    )


async def test_a_load_counts_every_request() -> None:
    async with server(WHOLE) as url:
        summary = (await load.run(options(url, requests=10), asyncio.Event())).summary()
    assert (summary["ok"], summary["failed"], summary["truncated"], summary["tokens"]) == (10, 0, 0, 70)


async def test_a_load_tells_failures_from_cut_answers() -> None:
    async with server(WHOLE[:2]) as url:
        summary = (await load.run(options(url, requests=3), asyncio.Event())).summary()
    assert (summary["ok"], summary["failed"], summary["truncated"]) == (0, 0, 3)
    assert "without a finish reason" in summary["errors"][0]


async def test_a_stopped_load_sends_nothing_more() -> None:
    stop = asyncio.Event()
    stop.set()
    async with server(WHOLE) as url:
        assert (await load.run(options(url, requests=0), stop)).summary()["ok"] == 0


async def test_a_load_ends_with_its_input_and_still_counts() -> None:
    async with server(WHOLE) as url:
        command = ["-m", "e2e.load", "--url", url, "--model", "m", "--concurrency", "2", "--until-eof"]
        running = await asyncio.create_subprocess_exec(
            sys.executable, *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        out, _ = await asyncio.wait_for(running.communicate(b""), timeout=30)
    assert running.returncode == 0
    assert json.loads(out)["failed"] == 0
