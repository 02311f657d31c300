"""Events about services: posted in the background, each piece of news once."""

from __future__ import annotations

import asyncio
import logging
import socket
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Final

from pd_operator.api import labels
from pd_operator.plan.actions import Announce
from pd_operator.reconcile.errors import ClusterError
from pd_operator.reconcile.ports import Clock, Raw

log = logging.getLogger(__name__)

#: The same news about the same service is not repeated within this time.
QUIET_SECONDS: Final = 600.0
#: Events waiting to be posted; more are dropped, since they are only news.
_MOST_WAITING: Final = 1000
#: Longest note that the API accepts, in bytes.
_LONGEST_NOTE: Final = 1024

Post = Callable[[str, Raw], Awaitable[None]]


class EventRecorder:
    """`Recorder` over `events.k8s.io/v1`.

    Args:
        post: Creates an Event in a namespace.
        clock: Time.
    """

    def __init__(self, post: Post, clock: Clock) -> None:
        self._post = post
        self._clock = clock
        self._posted: dict[tuple[str, str, str], float] = {}
        self._waiting: asyncio.Queue[tuple[str, Raw]] = asyncio.Queue(_MOST_WAITING)

    async def announce(self, service: Raw, announcement: Announce) -> None:
        """Queue an Event unless the same one was posted a short while ago."""
        metadata = service["metadata"]
        now = self._clock.monotonic()
        self._posted = {news: when for news, when in self._posted.items() if now - when < QUIET_SECONDS}
        news = (metadata["uid"], announcement.reason, announcement.message)
        if news in self._posted:
            return
        self._posted[news] = now
        try:
            self._waiting.put_nowait((metadata["namespace"], self._body(metadata, announcement)))
        except asyncio.QueueFull:
            log.warning("too many events are waiting; one is dropped", extra={"reason": announcement.reason})

    async def forever(self) -> None:
        """Post what is waiting."""
        while True:
            namespace, body = await self._waiting.get()
            try:
                await self._post(namespace, body)
            except ClusterError as error:
                log.info("an event could not be posted", extra={"reason": body["reason"], "error": error.message})

    def _body(self, metadata: Raw, announcement: Announce) -> dict[str, Any]:
        moment = datetime.fromtimestamp(self._clock.now(), UTC)
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"{metadata['name']}.{uuid.uuid4().hex[:16]}", "namespace": metadata["namespace"]},
            "eventTime": moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "type": "Warning" if announcement.warning else "Normal",
            "reason": announcement.reason,
            "action": "Reconcile",
            "note": announcement.message.encode()[:_LONGEST_NOTE].decode(errors="ignore"),
            "regarding": {
                "apiVersion": labels.API_VERSION,
                "kind": labels.KIND,
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
            "reportingController": f"{labels.GROUP}/{labels.MANAGER}",
            "reportingInstance": socket.gethostname()[:128],
        }
