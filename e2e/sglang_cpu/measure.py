"""What one pair on this machine can do, and which of its metrics move under load.

    python -m e2e.sglang_cpu.measure --engine ENGINE_FOLDER --router ROUTER_FOLDER --model MODEL_FOLDER

Prints one JSON object: memory after start, then per load what clients felt, the rate of every counter and the mean of
every gauge that moved, and at last whether the pair's answers are those of a single server. The load average is
included, because a busy machine makes every number worse.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import fmean, quantiles
from typing import Any, Final, NamedTuple

import aiohttp

from e2e.client import Answer, ask
from e2e.sglang_cpu.local import MODEL, Environment, Process, environment_arguments, pair, single


class Load(NamedTuple):
    """Streams at once, the length of their prompts in characters (some 1.3 a token), and tokens to generate."""

    concurrency: int
    prompt_characters: int
    max_tokens: int


LOADS: Final = (Load(1, 100, 128), Load(4, 100, 128), Load(16, 100, 128), Load(4, 1000, 128), Load(4, 2500, 1))
"""The last one is prefill alone: its prompt tokens per second are what one prefill worker can do."""
PROMPTS: Final = tuple(f"question {number}: what is {'very ' * number}far from here?" for number in range(12))
_SAMPLE: Final = re.compile(r"^([a-zA-Z_:][\w:]*)(\{[^}]*\})? (\S+)$", re.MULTILINE)


def parse(page: str) -> dict[str, float]:
    """Sum of each metric over its label sets, histogram buckets left out; the colon of SGLang's names stays."""
    sums: dict[str, float] = defaultdict(float)
    for name, _, value in _SAMPLE.findall(page):
        if not name.endswith("_bucket"):
            sums[name] += float(value)
    return dict(sums)


def is_counter(name: str) -> bool:
    """By its name: Prometheus' own rule, and enough for these pages."""
    return name.endswith(("_total", "_sum", "_count"))


def resident_mib(pid: int) -> float:
    """Proportional set size of a process and all below it, in MiB: memory shared between them counts once."""
    pages = [Path(f"/proc/{found}/smaps_rollup").read_text(encoding="ascii") for found in descendants(pid)]
    return sum(int(size) for page in pages for size in re.findall(r"^Pss: +(\d+) kB", page, re.MULTILINE)) / 1024


def descendants(pid: int) -> list[int]:
    """The process and everything below it."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return [pid, *(found for child in children for found in descendants(int(child)))]


async def load(session: aiohttp.ClientSession, url: str, what: Load, seconds: float) -> list[Answer]:
    """Keep streams open for `seconds`, each with another prompt: a cache must not answer."""
    filling = "the quick brown fox jumps over the lazy dog "
    prompt = (filling * (what.prompt_characters // len(filling) + 1))[: what.prompt_characters]
    end = time.monotonic() + seconds
    answers: list[Answer] = []

    async def user(number: int) -> None:
        turn = 0
        while time.monotonic() < end:
            turn += 1
            answers.append(await ask(session, url, MODEL, f"{number}.{turn} {prompt}", max_tokens=what.max_tokens))

    await asyncio.gather(*(user(number) for number in range(what.concurrency)))
    return answers


async def watch(session: aiohttp.ClientSession, processes: Mapping[str, Process]) -> dict[str, list[dict[str, float]]]:
    """Read all metrics pages every second until cancelled."""
    pages: dict[str, list[dict[str, float]]] = {name: [] for name in processes}
    with suppress(asyncio.CancelledError):
        while True:
            for name, process in processes.items():
                async with session.get(process.metrics) as response:
                    pages[name].append(parse(await response.text()))
            await asyncio.sleep(1)
    return pages


def moved(pages: Sequence[Mapping[str, float]], seconds: float) -> dict[str, float]:
    """Per metric that changed: a counter's rate per second, a gauge's mean without the first and last sample."""
    first, last = pages[0], pages[-1]
    found: dict[str, float] = {}
    for name in last:
        values = [page.get(name, 0.0) for page in pages]
        if len(set(values)) > 1:
            rate = (last[name] - first.get(name, 0.0)) / seconds
            found[name] = round(rate if is_counter(name) else fmean(values[1:-1] or values), 4)
    return found


def felt(answers: Sequence[Answer], seconds: float) -> dict[str, float]:
    """What clients got and how it felt, times in milliseconds."""
    gaps = [gap * 1000 for answer in answers for gap in answer.itl_seconds]
    first = [answer.ttft_seconds * 1000 for answer in answers]
    return {
        "requests_per_second": round(len(answers) / seconds, 2),
        "generated_tokens_per_second": round(sum(answer.tokens for answer in answers) / seconds, 1),
        **_percentiles("ttft", first),
        **_percentiles("itl", gaps),
    }


def _percentiles(name: str, milliseconds: Sequence[float]) -> dict[str, float]:
    """Median and 90th percentile; nothing without two samples, such as the gaps of answers of one token."""
    if len(milliseconds) < 2:
        return {}
    hundredths = quantiles(milliseconds, n=100, method="inclusive")
    return {f"{name}_p{percent}_ms": round(hundredths[percent - 1], 1) for percent in (50, 90)}


async def phase(processes: Mapping[str, Process], what: Load, seconds: float) -> dict[str, Any]:
    """One load: what clients felt, and what the metrics pages showed meanwhile."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        watching = asyncio.create_task(watch(session, processes))
        await asyncio.sleep(0.5)
        started = time.monotonic()
        answers = await load(session, processes["router"].url, what, seconds)
        took = time.monotonic() - started
        watching.cancel()
        pages = await watching
    result = {**what._asdict(), "load_average": os.getloadavg()[0], **felt(answers, took)}
    print(result, file=sys.stderr, flush=True)
    return {
        **result,
        "moved": {name: moved(found, took) for name, found in pages.items()},
    }


async def answers_of(url: str) -> list[str]:
    async with aiohttp.ClientSession() as session:
        return [(await ask(session, url, MODEL, prompt, max_tokens=24)).text for prompt in PROMPTS]


async def compare(environment: Environment, url: str) -> dict[str, int]:
    """Whether the pair at `url` gives the answers of one server without disaggregation."""
    together = await answers_of(url)
    with single(environment) as alone:
        expected = await answers_of(alone.url)
    equal = sum(ours == theirs for ours, theirs in zip(together, expected, strict=True))
    return {"prompts": len(PROMPTS), "equal_answers": equal, "different_answers": len(set(expected))}


async def measure(environment: Environment, seconds: float) -> dict[str, Any]:
    """Start a pair, and put every load on it for `seconds`."""
    started = time.monotonic()
    with pair(environment) as processes:

        def memory() -> dict[str, int]:
            return {name: round(resident_mib(process.running.pid)) for name, process in processes.items()}

        report: dict[str, Any] = {"start_seconds": round(time.monotonic() - started, 1), "memory_mib": memory()}
        report["loads"] = [await phase(processes, what, seconds) for what in LOADS]
        report["memory_after_mib"] = memory()
        report["transfer"] = await compare(environment, processes["router"].url)
        return report


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report. It starts the pair and a single server, which takes minutes on a busy machine."""
    parser = argparse.ArgumentParser(prog="python -m e2e.sglang_cpu.measure", description=__doc__.splitlines()[0])
    environment_arguments(parser)
    parser.add_argument("--seconds", type=float, default=20, help="duration of each load (default: 20)")
    options = parser.parse_args(arguments)
    environment = Environment(options.engine, options.router, options.model)
    report = asyncio.run(measure(environment, options.seconds))
    print(json.dumps(report, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
