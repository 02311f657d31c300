"""The process ends with 0 when it is asked to, and with another status when it fails."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pd_operator import assembly, main
from pd_operator.adapters.connection import ConnectionProblem
from pd_operator.settings import Settings

Work = Callable[[Settings, Callable[[], None]], Awaitable[None]]


@pytest.fixture
def operate(monkeypatch: pytest.MonkeyPatch) -> Callable[[Work], None]:
    def replace(work: Work) -> None:
        async def stand_in(chosen: Settings, take_signals: Callable[[], None]) -> None:
            await work(chosen, take_signals)

        monkeypatch.setattr(assembly, "operate", stand_in)

    return replace


async def test_a_signal_stops_it_cleanly_even_after_kopf_took_the_signals(operate: Callable[[Work], None]) -> None:
    cleaned: list[str] = []
    loop = asyncio.get_running_loop()

    async def work(_: Settings, take_signals: Callable[[], None]) -> None:
        loop.add_signal_handler(signal.SIGTERM, cleaned.append, "by somebody else")
        take_signals()
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append("cleaned")

    operate(work)
    assert await asyncio.wait_for(main.run(Settings()), timeout=5) == 0
    assert cleaned == ["cleaned"]


async def test_a_part_that_fails_ends_the_process_with_its_trace(
    operate: Callable[[Work], None], caplog: pytest.LogCaptureFixture
) -> None:
    async def work(*_: Any) -> None:
        raise RuntimeError("the watches ended")

    operate(work)
    assert await main.run(Settings()) == 1
    assert caplog.records[-1].levelno == logging.CRITICAL
    assert "the watches ended" in caplog.text


async def test_a_part_that_ends_without_being_asked_is_a_failure(operate: Callable[[Work], None]) -> None:
    async def work(*_: Any) -> None:
        return

    operate(work)
    assert await main.run(Settings()) == 1


async def test_a_cluster_that_cannot_be_reached_is_told_without_a_trace(
    operate: Callable[[Work], None], caplog: pytest.LogCaptureFixture
) -> None:
    async def work(*_: Any) -> None:
        raise ConnectionProblem("no cluster to talk to")

    operate(work)
    assert await main.run(Settings()) == 1
    assert caplog.records[-1].exc_info is None


def test_wrong_settings_end_with_2(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["pd-operator", "--workers=none"])
    with pytest.raises(SystemExit) as caught:
        main.main()
    assert caught.value.code == 2
    assert "--workers=none" in capsys.readouterr().err


async def test_a_task_that_ends_is_named() -> None:
    async def ends() -> None:
        return

    with pytest.raises(RuntimeError, match="the resync ended"):
        await assembly._endless("the resync", ends())
