"""kopf wiring, and nothing else: kopf lists and watches, and hands every object over to the intake.

kopf serves as an event source only. No handler here detects changes, so kopf puts no finalizer, annotation or status
on any object and posts no Events; peering and cluster scanning are off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import kopf

from pd_operator.adapters.kopf_memory import NoDiffBase, NoProgress
from pd_operator.api import labels
from pd_operator.reconcile import pulse
from pd_operator.reconcile.kinds import WATCHED_KINDS, Kind
from pd_operator.reconcile.sync import Intake

#: Seconds between tries of one request: together longer than an API server takes to start. A missing permission is
#: retried just as long, which is why the self-check comes first.
_RETRY_SECONDS: Final = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0)
#: Seconds for which kopf ignores an object after an error of its own.
_THROTTLE_SECONDS: Final = (1.0, 5.0, 15.0, 30.0)
#: Objects in one page of a list: parsed, a page of pods takes some 10 MB.
_PAGE_SIZE: Final = 200
#: Seconds for which kopf keeps a task for an object after its last event. At start-up that is a task for every object.
_KEEP_TASK_SECONDS: Final = 0.5
#: kopf ends the process this long after a signal, whatever still runs.
_EXIT_SECONDS: Final = 8.0

Login = Callable[[], Awaitable[kopf.AiohttpSession]]


def registry(intake: Intake, login: Login) -> kopf.OperatorRegistry:
    """Handlers for every watched kind.

    Args:
        intake: Takes the objects.
        login: Opens a session with the API server.
    """
    handlers = kopf.OperatorRegistry()

    @kopf.on.startup(registry=handlers)
    async def start(settings: kopf.OperatorSettings, **_: Any) -> None:
        configure(settings)

    @kopf.on.login(registry=handlers, errors=kopf.ErrorsMode.PERMANENT)
    async def log_in(**_: Any) -> kopf.AiohttpSession:
        return await login()

    for kind in WATCHED_KINDS:
        _watch(handlers, intake, kind)
    return handlers


def _watch(handlers: kopf.OperatorRegistry, intake: Intake, kind: Kind) -> None:
    @kopf.on.event(kind.group, kind.version, kind.plural, registry=handlers, id=f"saw-{kind.plural}")
    async def saw(event: Any, **_: Any) -> None:
        intake.saw(kind, event["object"], deleted=event["type"] == "DELETED")


def configure(settings: kopf.OperatorSettings) -> None:
    """Settings that make kopf an event source and nothing more."""
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.scanning.disabled = True
    settings.persistence.finalizer = f"{labels.GROUP}/never-set"
    settings.persistence.diffbase_storage = NoDiffBase()
    settings.persistence.progress_storage = NoProgress()
    settings.watching.server_timeout = pulse.SERVER_SECONDS
    settings.watching.client_timeout = pulse.CLIENT_SECONDS
    settings.watching.connect_timeout = 10
    settings.watching.chunk_size = _PAGE_SIZE
    for kind in WATCHED_KINDS:
        if kind.labelled:
            selector = (kind.group, kind.version, kind.plural)
            settings.watching.label_selectors[selector] = labels.SELECTOR_OF_CHILDREN
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 10
    settings.networking.error_backoffs = _RETRY_SECONDS
    settings.queueing.error_delays = _THROTTLE_SECONDS
    settings.queueing.idle_timeout = _KEEP_TASK_SECONDS
    settings.queueing.exit_timeout = 1.0
    settings.process.ultimate_exiting_timeout = _EXIT_SECONDS


async def watch(handlers: kopf.OperatorRegistry, namespaces: Sequence[str], on_started: Callable[[], None]) -> None:
    """Watch for ever, in some namespaces or (none given) in all.

    Args:
        handlers: Of `registry`.
        namespaces: What to watch.
        on_started: Called once kopf has taken over the process's signals, so that they can be taken back.

    Raises:
        Exception: A watch cannot go on (its permission or its kind was taken away).
    """
    others = asyncio.all_tasks()
    tasks = await kopf.spawn_tasks(
        registry=handlers, standalone=True, clusterwide=not namespaces, namespaces=list(namespaces)
    )
    on_started()
    await kopf.run_tasks(tasks, ignored=others)
