"""The operator's process: settings, logs, signals and the exit status."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from typing import Final

from prometheus_client import disable_created_metrics

from pd_operator import assembly, logs, settings
from pd_operator.adapters.connection import ConnectionProblem

log = logging.getLogger("pd_operator")

#: A clean stop takes less; what still runs after this is left behind.
_STOP_SECONDS: Final = 9.0
#: Objects created before Python looks for garbage cycles. Its default of 700 is made for small programs: parsing one
#: list of pods would cost dozens of needless searches.
_GC_THRESHOLD: Final = 50_000


def main() -> None:
    """Entry point; exits with 0 after a signal, 1 after a failure, 2 when a setting is wrong."""
    try:
        chosen = settings.load(sys.argv[1:], os.environ)
    except settings.SettingsError as error:
        sys.stderr.write(f"pd-operator: these settings cannot be used:\n{error}\n")
        sys.exit(2)
    logs.set_up(chosen.log_level, chosen.log_format)
    disable_created_metrics()  # type: ignore[no-untyped-call]
    gc.set_threshold(_GC_THRESHOLD, 20, 50)
    sys.exit(asyncio.run(run(chosen)))


async def run(chosen: settings.Settings) -> int:
    """Operate until a signal or a failure; returns the exit status."""
    stop = asyncio.Event()
    _take_signals(stop)
    work = asyncio.create_task(assembly.operate(chosen, take_signals=lambda: _take_signals(stop)), name="operator")
    signalled = asyncio.create_task(stop.wait(), name="signals")
    await asyncio.wait({work, signalled}, return_when=asyncio.FIRST_COMPLETED)
    if not work.done():
        log.info("stopping")
        work.cancel()
        await asyncio.wait({work}, timeout=_STOP_SECONDS)
        return 0
    signalled.cancel()
    failure = work.exception() if not work.cancelled() else None
    if isinstance(failure, ConnectionProblem):
        log.critical(str(failure))
    else:
        log.critical("the operator has failed and ends", exc_info=failure)
    return 1


def _take_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)


if __name__ == "__main__":
    main()
