"""The check at start-up: is the CRD there, and may the operator do what it must? It waits until both hold."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, Protocol

from pd_operator.adapters import permissions
from pd_operator.api import labels
from pd_operator.reconcile.errors import AbsentError, ClusterError
from pd_operator.reconcile.kinds import SERVICE_KIND, Kind
from pd_operator.reconcile.ports import Clock

log = logging.getLogger(__name__)

#: Seconds between two looks; the same complaint is repeated every so many looks.
_LOOK_SECONDS: Final = 2.0
_REPEAT: Final = 15


class Server(permissions.Asker, Protocol):
    """The API server."""

    async def serves(self, kind: Kind) -> bool:
        """Whether it serves a kind."""


class Readiness(Protocol):
    """Where the readiness probe learns what start-up waits for."""

    waiting_for: str


async def wait_until_usable(
    server: Server, namespaces: Sequence[str | None], clock: Clock, readiness: Readiness
) -> None:
    """Return once nothing is missing. Until then the log and the readiness probe say what is."""
    looks = 0
    while problem := await _problem(server, namespaces):
        if problem != readiness.waiting_for or looks % _REPEAT == 0:
            log.error("cannot work yet", extra={"missing": problem})
        readiness.waiting_for = problem
        looks += 1
        await clock.sleep(_LOOK_SECONDS)


async def _problem(server: Server, namespaces: Sequence[str | None]) -> str:
    try:
        if not await _established(server):
            return (
                f"the CustomResourceDefinition {labels.PLURAL}.{labels.GROUP}: install the chart with crds.enabled, "
                "or apply the file in crds/"
            )
        lacking = await permissions.missing(server, namespaces)
    except ClusterError as error:
        return f"an answer of the API server ({error.message})"
    return f"permissions on {', '.join(lacking)}" if lacking else ""


async def _established(server: Server) -> bool:
    try:
        return await server.serves(SERVICE_KIND)
    except AbsentError:
        return False
