"""A closed-loop load that counts: `python -m e2e.load --url URL --model NAME --concurrency N --seconds S`.

Prints one JSON object at the end. SIGTERM, or with `--until-eof` the end of its standard input, ends it early: streams
that have begun are finished and counted, so that the end of a load never looks like a lost request. (A signal does
not cross into the process namespace of a lab; the end of a pipe does.)
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import quantiles
from typing import Any

import aiohttp

from e2e.client import Answer, AnswerError, arguments, ask


@dataclass(slots=True)
class Tally:
    """What clients got."""

    answers: list[Answer] = field(default_factory=list)
    failed: int = 0
    truncated: int = 0
    errors: list[str] = field(default_factory=list)

    def fail(self, error: AnswerError) -> None:
        """Count a request that had no answer, or only a part of one."""
        if error.truncated:
            self.truncated += 1
        else:
            self.failed += 1
        if len(self.errors) < 5:
            self.errors.append(str(error))

    def summary(self) -> dict[str, Any]:
        """Counts, the first errors, and the 90th percentiles in seconds (None below two samples)."""
        return {
            "ok": len(self.answers),
            "failed": self.failed,
            "truncated": self.truncated,
            "errors": self.errors,
            "tokens": sum(answer.tokens for answer in self.answers),
            "ttft_p90_seconds": _p90([answer.ttft_seconds for answer in self.answers]),
            "itl_p90_seconds": _p90([gap for answer in self.answers for gap in answer.itl_seconds]),
        }


def _p90(samples: list[float]) -> float | None:
    return quantiles(samples, n=10)[-1] if len(samples) > 1 else None


async def run(options: argparse.Namespace, stop: asyncio.Event) -> Tally:
    """Keep `concurrency` streams open until the time or the number of requests is reached, or `stop` is set."""
    tally = Tally()
    deadline = time.monotonic() + options.seconds
    numbers = iter(range(options.requests)) if options.requests else iter(range(sys.maxsize))

    async def user(session: aiohttp.ClientSession) -> None:
        for number in numbers:
            if stop.is_set() or time.monotonic() > deadline:
                return
            prompt = f"{options.prompt} ({number})"
            try:
                tally.answers.append(
                    await ask(session, options.url, options.model, prompt, max_tokens=options.max_tokens)
                )
            except AnswerError as error:
                tally.fail(error)
                await asyncio.sleep(0.5)  # as a client would; a refused connection must not become a storm

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await asyncio.gather(*(user(session) for _ in range(options.concurrency)))
    return tally


def _stop_at_eof(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        loop.remove_reader(sys.stdin.fileno())
        stop.set()


async def _main(options: argparse.Namespace) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if options.until_eof:
        loop.add_reader(sys.stdin.fileno(), _stop_at_eof, loop, stop)
    tally = await run(options, stop)
    print(json.dumps(tally.summary()))


def main(command_line: Sequence[str] | None = None) -> int:
    """Run the load; lost requests are counted in the output, not in the exit status."""
    parser = argparse.ArgumentParser(prog="python -m e2e.load", description="Parallel streams that are counted.")
    arguments(parser)
    parser.add_argument("--concurrency", type=int, default=8, help="streams open at once (default: 8)")
    parser.add_argument("--seconds", type=float, default=600, help="longest duration (default: 600)")
    parser.add_argument("--requests", type=int, default=0, help="most requests (default: no limit)")
    parser.add_argument("--prompt", default="Tell me about the capital city of France, and of the world", help="prompt")
    parser.add_argument("--until-eof", action="store_true", help="stop when standard input ends")
    asyncio.run(_main(parser.parse_args(command_line)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
