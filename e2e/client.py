"""A streaming client of the OpenAI-compatible API that measures what a user feels.

`python -m e2e.client --url URL --model NAME PROMPT` prints the answer as it comes, then TTFT and ITL.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from statistics import median
from typing import Any, Final

import aiohttp

#: Longer than any answer of a tiny model on a busy machine; a hung request is a failure, not a wait.
TIMEOUT: Final = aiohttp.ClientTimeout(total=240, sock_connect=10)


class AnswerError(Exception):
    """The request failed, or its stream ended before the answer did."""

    def __init__(self, message: str, *, truncated: bool = False) -> None:
        super().__init__(message)
        self.truncated = truncated


@dataclass(frozen=True, slots=True)
class Answer:
    """One complete answer.

    Attributes:
        text: What was streamed.
        tokens: Generated tokens, as the server counts them.
        finish_reason: Why the server ended it (`stop` or `length`).
        ttft_seconds: From sending the request to the first chunk with text.
        itl_seconds: Gaps between chunks with text, in order.
    """

    text: str
    tokens: int
    finish_reason: str
    ttft_seconds: float
    itl_seconds: tuple[float, ...]

    @property
    def itl_median_seconds(self) -> float:
        """The median gap; 0 when there was only one chunk."""
        return median(self.itl_seconds) if self.itl_seconds else 0.0


async def ask(
    session: aiohttp.ClientSession,
    url: str,
    model: str,
    prompt: str,
    *,
    max_tokens: int,
    on_text: Callable[[str], object] = lambda _: None,
) -> Answer:
    """Stream one greedy answer from the service at `url`.

    Raises:
        AnswerError: Any status but 200, an error inside the stream, or an end without a finish reason.
    """
    body = {
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": max_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    sent = time.monotonic()
    moments: list[float] = []
    texts: list[str] = []
    finish_reason, tokens = "", 0
    try:
        async with session.post(f"{url}/v1/chat/completions", json=body, timeout=TIMEOUT) as response:
            if response.status != 200:
                raise AnswerError(f"status {response.status}: {(await response.text())[:300]}")
            async for event in _events(response):
                if "error" in event:
                    raise AnswerError(f"error in the stream: {event['error']}", truncated=True)
                tokens = (event.get("usage") or {}).get("completion_tokens", tokens)
                for choice in event.get("choices", ()):
                    finish_reason = choice.get("finish_reason") or finish_reason
                    if text := (choice.get("delta") or {}).get("content"):
                        moments.append(time.monotonic())
                        texts.append(text)
                        on_text(text)
    except (aiohttp.ClientError, TimeoutError) as error:
        raise AnswerError(f"{type(error).__name__}: {error}", truncated=bool(texts)) from error
    if not finish_reason:
        raise AnswerError(f"the stream ended after {len(texts)} chunks without a finish reason", truncated=True)
    first = moments[0] if moments else time.monotonic()
    gaps = tuple(later - earlier for earlier, later in pairwise(moments))
    return Answer("".join(texts), tokens, finish_reason, first - sent, gaps)


async def _events(response: aiohttp.ClientResponse) -> AsyncIterator[dict[str, Any]]:
    """The server-sent events of a stream, until `[DONE]` or its end."""
    async for line in response.content:
        if not line.startswith(b"data:"):
            continue
        data = line.removeprefix(b"data:").strip()
        if data == b"[DONE]":
            return
        yield json.loads(data)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add what every client of a service needs."""
    parser.add_argument("--url", required=True, help="address of the service, such as http://demo.demo.svc:8000")
    parser.add_argument("--model", required=True, help="served model name")
    parser.add_argument("--max-tokens", type=int, default=64, help="longest answer in tokens (default: 64)")


async def _main(options: argparse.Namespace) -> None:
    def show(text: str) -> None:
        if not options.json:
            print(text, end="", flush=True)

    async with aiohttp.ClientSession() as session:
        answer = await ask(
            session, options.url, options.model, options.prompt, max_tokens=options.max_tokens, on_text=show
        )
    if options.json:
        print(json.dumps(asdict(answer)))
        return
    ttft, itl = answer.ttft_seconds * 1000, answer.itl_median_seconds * 1000
    print(f"\n— {answer.tokens} tokens, TTFT {ttft:.0f} ms, ITL {itl:.1f} ms (median)")


def main(command_line: Sequence[str] | None = None) -> int:
    """Ask once. A failed or cut answer is one line on standard error, and exit status 1."""
    parser = argparse.ArgumentParser(prog="python -m e2e.client", description="One streamed answer, measured.")
    arguments(parser)
    parser.add_argument("--json", action="store_true", help="print the measured answer as JSON instead")
    parser.add_argument("prompt")
    try:
        asyncio.run(_main(parser.parse_args(command_line)))
    except AnswerError as error:
        print(f"client: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
