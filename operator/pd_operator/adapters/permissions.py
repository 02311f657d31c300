"""What the operator must be allowed to do, and which of it is missing. The chart's rules are tested against this."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from pd_operator.api import labels
from pd_operator.reconcile.kinds import CHILD_KINDS, POD

_CHILD_VERBS: Final = ("get", "list", "watch", "create", "patch", "delete")


@dataclass(frozen=True, slots=True)
class Permission:
    """One verb on one resource."""

    group: str
    resource: str
    verb: str
    subresource: str = ""

    @property
    def object(self) -> str:
        """What it is about, as `kubectl auth can-i` spells it: `statefulsets.apps`."""
        name = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{name}/{self.subresource}" if self.subresource else name

    def attributes(self, namespace: str | None) -> dict[str, str]:
        """As a SelfSubjectAccessReview asks for it; no namespace means all of them."""
        asked = {"group": self.group, "resource": self.resource, "verb": self.verb}
        if self.subresource:
            asked["subresource"] = self.subresource
        if namespace:
            asked["namespace"] = namespace
        return asked


#: Everything the operator does. `get` on pods is handed on to the router's Role: nobody can grant what he lacks.
NEEDED: Final = (
    *(Permission(labels.GROUP, labels.PLURAL, verb) for verb in ("get", "list", "watch")),
    Permission(labels.GROUP, labels.PLURAL, "patch", "status"),
    *(Permission(kind.group, kind.plural, verb) for kind in CHILD_KINDS for verb in _CHILD_VERBS),
    *(Permission(POD.group, POD.plural, verb) for verb in ("get", "list", "watch", "patch", "delete")),
    Permission("", "events", "list"),
    Permission("events.k8s.io", "events", "create"),
)


class Asker(Protocol):
    """Whoever can ask the API server."""

    async def may(self, attributes: Mapping[str, str]) -> bool:
        """Whether this is allowed."""


async def missing(asker: Asker, namespaces: Sequence[str | None]) -> list[str]:
    """Permissions that the operator lacks, in words; empty when all is well.

    Raises:
        ClusterError: The API server could not be asked.
    """
    wanted = [(permission, namespace) for namespace in namespaces for permission in NEEDED]
    answers = await asyncio.gather(*(asker.may(permission.attributes(namespace)) for permission, namespace in wanted))
    lacking: dict[str, list[str]] = {}
    for (permission, namespace), allowed in zip(wanted, answers, strict=True):
        if not allowed:
            where = f"{permission.object} in {namespace}" if namespace else permission.object
            lacking.setdefault(where, []).append(permission.verb)
    return [f"{where} ({', '.join(verbs)})" for where, verbs in lacking.items()]
