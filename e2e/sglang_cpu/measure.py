"""What one pair on this machine can do, and which of its metrics move under load.

    python -m e2e.sglang_cpu.measure --engine ENGINE_FOLDER --router ROUTER_FOLDER --model MODEL_FOLDER

Prints one JSON object: memory after start, agreement with a single server, then per concurrency the rates, what
clients felt and the mean of every gauge that moved. Quiet machines give quiet numbers: the load average is included.
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
from typing import Any, Final

import aiohttp

from e2e.client import Answer, ask
from e2e.sglang_cpu.local import MODEL, Environment, Process, environment_arguments, pair, single

CONCURRENCIES: Final = (1, 4, 16)
SECONDS: Final = 20.0
PROMPT_LENGTHS: Final = (100, 1000)
"""Characters; a token of the tiny model is about 1.3 of them."""
MAX_TOKENS: Final = 128
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


async def load(session: aiohttp.ClientSession, url: str, concurrency: int, prompt: str) -> list[Answer]:
    """Keep `concurrency` streams open for SECONDS, each with another prompt: a cache must not answer."""
    end = time.monotonic() + SECONDS
    answers: list[Answer] = []

    async def user(number: int) -> None:
        turn = 0
        while time.monotonic() < end:
            turn += 1
            text = f"{number}.{turn} {prompt}"
            answers.append(await ask(session, url, MODEL, text, max_tokens=MAX_TOKENS))

    await asyncio.gather(*(user(number) for number in range(concurrency)))
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
        **{f"ttft_p{p}_ms": round(quantile(first, p), 1) for p in (50, 90)},
        **{f"itl_p{p}_ms": round(quantile(gaps, p), 1) for p in (50, 90)},
    }


def quantile(samples: Sequence[float], percent: int) -> float:
    return quantiles(samples, n=100, method="inclusive")[percent - 1] if len(samples) > 1 else samples[0]


async def phase(processes: Mapping[str, Process], concurrency: int, length: int) -> dict[str, Any]:
    """One load with one prompt length."""
    prompt = ("the quick brown fox jumps over the lazy dog " * (length // 44 + 1))[:length]
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        watching = asyncio.create_task(watch(session, processes))
        await asyncio.sleep(0.5)
        started = time.monotonic()
        answers = await load(session, processes["router"].url, concurrency, prompt)
        seconds = time.monotonic() - started
        watching.cancel()
        pages = await watching
    return {
        "concurrency": concurrency,
        "prompt_characters": length,
        "load_average": os.getloadavg()[0],
        **felt(answers, seconds),
        "moved": {name: moved(found, seconds) for name, found in pages.items()},
    }


async def answers_of(url: str) -> list[str]:
    async with aiohttp.ClientSession() as session:
        return [(await ask(session, url, MODEL, prompt, max_tokens=24)).text for prompt in PROMPTS]


async def measure(environment: Environment) -> dict[str, Any]:
    started = time.monotonic()
    with pair(environment) as processes:
        report: dict[str, Any] = {
            "start_seconds": round(time.monotonic() - started, 1),
            "memory_mib": {name: round(resident_mib(process.running.pid)) for name, process in processes.items()},
        }
        together = await answers_of(processes["router"].url)
        with single(environment) as alone:
            expected = await answers_of(alone.url)
        report["equal_answers"] = sum(a == b for a, b in zip(together, expected, strict=True))
        report["different_prompts"], report["different_answers"] = len(PROMPTS), len(set(expected))
        report["phases"] = [
            await phase(processes, concurrency, length) for length in PROMPT_LENGTHS for concurrency in CONCURRENCIES
        ]
        report["memory_after_mib"] = {
            name: round(resident_mib(process.running.pid)) for name, process in processes.items()
        }
        return report


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report. It starts the pair and a single server, which takes minutes on a busy machine."""
    parser = argparse.ArgumentParser(prog="python -m e2e.sglang_cpu.measure", description=__doc__.splitlines()[0])
    environment_arguments(parser)
    options = parser.parse_args(arguments)
    report = asyncio.run(measure(Environment(options.engine, options.router, options.model)))
    print(json.dumps(report, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
