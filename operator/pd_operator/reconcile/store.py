"""The latest known objects of every service.

Filled by lists, watch events and the answers to the operator's own writes, in any order: an older version of an
object never replaces a newer one, and a deleted object does not come back by a late event. Resource versions of one
kind are compared as integers, which Kubernetes guarantees since 1.35 and which etcd has always provided.

Objects are kept as JSON text: a tree of Python dictionaries takes about ten times its memory.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from pd_operator.plan.observed import ChildKey
from pd_operator.reconcile.kinds import POD, SERVICE_KIND, WATCHED_KINDS, Kind
from pd_operator.reconcile.ports import Raw, ServiceKey
from pd_operator.reconcile.trim import owner_of, trim

#: How many deleted objects are remembered, so that their late events are recognised.
_REMEMBERED_DELETIONS: Final = 10_000

#: Kind, namespace and name of any object.
_Identity = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class _Stored:
    uid: str
    version: int
    owner: ServiceKey
    text: bytes


@dataclass(slots=True)
class View:
    """All objects of one service, as fresh dictionaries."""

    service: dict[str, Any] | None = None
    children: dict[ChildKey, dict[str, Any]] = field(default_factory=dict)
    pods: list[dict[str, Any]] = field(default_factory=list)


class Store:
    """Objects by service. All methods return at once."""

    def __init__(self) -> None:
        self._objects: dict[_Identity, _Stored] = {}
        self._members: dict[ServiceKey, set[_Identity]] = {}
        self._deleted: OrderedDict[str, None] = OrderedDict()
        self._unlisted = {kind.name for kind in WATCHED_KINDS}

    @property
    def ready(self) -> bool:
        """Every kind has been listed completely at least once, so that absence means absence."""
        return not self._unlisted

    def put(self, kind: Kind, raw: Raw) -> ServiceKey | None:
        """Take over an object if it is news; returns the service that should look at it, if any should."""
        metadata = raw["metadata"]
        uid, version = metadata.get("uid", ""), _version(metadata)
        identity = (kind.name, metadata["namespace"], metadata["name"])
        known = self._objects.get(identity)
        if uid in self._deleted or (known is not None and known.uid == uid and known.version >= version):
            return None
        if known is not None and known.uid != uid and known.version > version:
            return None
        owner = identity[1:] if kind is SERVICE_KIND else owner_of(raw)
        if owner is None:
            return self._drop(identity)
        text = json.dumps(trim(kind, raw), separators=(",", ":")).encode()
        if known is not None and known.owner != owner:
            self._drop(identity)
        self._objects[identity] = _Stored(uid, version, owner, text)
        self._members.setdefault(owner, set()).add(identity)
        unchanged = known is not None and known.owner == owner and _same(kind, known.text, text)
        return None if unchanged else owner

    def remove(self, kind: Kind, raw: Raw) -> ServiceKey | None:
        """An object was deleted; returns the service that lost it."""
        metadata = raw["metadata"]
        return self.remove_named(kind, metadata["namespace"], metadata["name"], metadata.get("uid"))

    def remove_named(self, kind: Kind, namespace: str, name: str, uid: str | None) -> ServiceKey | None:
        """The object of this name was deleted, unless another one has taken its place; returns its service."""
        if uid:
            self._remember_deletion(uid)
        identity = (kind.name, namespace, name)
        known = self._objects.get(identity)
        if known is None or (uid and known.uid != uid):
            return None
        return self._drop(identity)

    def sweep(
        self, kind: Kind, namespace: str | None, present: Collection[tuple[str, str]], version: int
    ) -> set[ServiceKey]:
        """Remove what a complete list does not have; returns the services that lost something.

        Args:
            kind: Kind of the list.
            namespace: Where it was taken; None means everywhere.
            present: Namespace and name of everything in it.
            version: Resource version of the list: objects that changed later are left alone.
        """
        gone = [
            (identity, known)
            for identity, known in self._objects.items()
            if identity[0] == kind.name
            and namespace in (None, identity[1])
            and known.version <= version
            and identity[1:] not in present
        ]
        for _, known in gone:
            self._remember_deletion(known.uid)
        return {key for identity, _ in gone if (key := self._drop(identity)) is not None}

    def listed(self, kind: Kind) -> None:
        """The first complete list of a kind, over all namespaces that are watched, has been taken over."""
        self._unlisted.discard(kind.name)

    def services(self) -> Iterator[ServiceKey]:
        """Every service of which anything is known, even only leftover children."""
        return iter(list(self._members))

    def view(self, key: ServiceKey) -> View:
        """The objects of one service."""
        view = View()
        for identity in sorted(self._members.get(key, ())):
            body = json.loads(self._objects[identity].text)
            if identity[0] == SERVICE_KIND.name:
                view.service = body
            elif identity[0] == POD.name:
                view.pods.append(body)
            else:
                view.children[identity[0], identity[2]] = body
        return view

    def children(self, key: ServiceKey) -> frozenset[ChildKey]:
        """Kind and name of every child object of a service; pods are not counted."""
        others = (SERVICE_KIND.name, POD.name)
        return frozenset((kind, name) for kind, _, name in self._members.get(key, ()) if kind not in others)

    def object(self, kind: Kind, namespace: str, name: str) -> dict[str, Any] | None:
        """One object, as a fresh dictionary."""
        known = self._objects.get((kind.name, namespace, name))
        return json.loads(known.text) if known is not None else None

    def uid(self, kind: Kind, namespace: str, name: str) -> str | None:
        """Identity of an object across recreations, if it is known."""
        known = self._objects.get((kind.name, namespace, name))
        return known.uid if known is not None else None

    def counts(self) -> dict[str, int]:
        """How many objects of each kind are known."""
        totals = dict.fromkeys((kind.name for kind in WATCHED_KINDS), 0)
        for identity in self._objects:
            totals[identity[0]] += 1
        return totals

    def _drop(self, identity: _Identity) -> ServiceKey | None:
        known = self._objects.pop(identity, None)
        if known is None:
            return None
        members = self._members[known.owner]
        members.discard(identity)
        if not members:
            del self._members[known.owner]
        return known.owner

    def _remember_deletion(self, uid: str) -> None:
        self._deleted[uid] = None
        if len(self._deleted) > _REMEMBERED_DELETIONS:
            self._deleted.popitem(last=False)


def _version(metadata: Raw) -> int:
    text = str(metadata.get("resourceVersion") or "0")
    return int(text) if text.isdigit() else 0


def _same(kind: Kind, old: bytes, new: bytes) -> bool:
    """Whether planning would see the same thing. A service's own resource version does not count."""
    if kind is not SERVICE_KIND:
        return old == new
    before, after = json.loads(old), json.loads(new)
    before["metadata"].pop("resourceVersion", None)
    after["metadata"].pop("resourceVersion", None)
    return bool(before == after)
