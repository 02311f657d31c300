"""Does a live object already have everything that is desired? Then it is left alone.

The desired object is compared as a part of the live one: the API server fills in defaults, and other managers own
other fields. What is no longer desired is seen by the fingerprint annotation, which changes with the built object.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pd_operator.api import quantities
from pd_operator.plan.actions import Apply
from pd_operator.plan.observed import ChildKey

#: Lists whose items the API server tells apart by keys, by field name. The first keys that every item has count.
#: All other lists are atomic: they are compared item by item.
_MERGE_KEYS: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "containers": (("name",),),
    "initContainers": (("name",),),
    "volumes": (("name",),),
    "env": (("name",),),
    "imagePullSecrets": (("name",),),
    "ports": (("containerPort", "protocol"), ("port", "protocol")),
    "volumeMounts": (("mountPath",),),
    "volumeDevices": (("devicePath",),),
    "ownerReferences": (("uid",),),
}

#: Fields whose values (or whose members' values) are quantities.
_QUANTITIES: Final = frozenset({"requests", "limits", "sizeLimit"})
#: Fields that hold a number or a text, which the API server may give back as the other.
_INT_OR_STRING: Final = frozenset({"port", "targetPort", "maxSurge", "maxUnavailable", "minAvailable"})


def covers(live: Any, desired: Any, field: str = "", parent: str = "") -> bool:
    """Whether `live` has everything that `desired` has."""
    # Most of every object is equal as a whole, and comparing that costs next to nothing.
    if live == desired:
        return True
    if isinstance(desired, dict):
        return isinstance(live, dict) and _covers_members(live, desired, field)
    if isinstance(desired, list):
        return isinstance(live, list) and _covers_list(live, desired, field)
    return _same(live, desired, field, parent)


def changes(desired: Iterable[Mapping[str, Any]], live: Mapping[ChildKey, Mapping[str, Any]]) -> tuple[Apply, ...]:
    """Applies for those objects that are missing or differ, in the given order."""
    return tuple(Apply(body) for body in desired if key_of(body) not in live or not covers(live[key_of(body)], body))


def key_of(body: Mapping[str, Any]) -> ChildKey:
    """Kind and name of an object."""
    return body["kind"], body["metadata"]["name"]


def _covers_members(live: dict[str, Any], desired: dict[str, Any], field: str) -> bool:
    for key, value in desired.items():
        if key in live:
            if not covers(live[key], value, key, field):
                return False
        elif not _is_empty(value):
            return False
    return True


def _covers_list(live: list[Any], desired: list[Any], field: str) -> bool:
    for keys in _MERGE_KEYS.get(field, ()):
        if all(isinstance(item, dict) and keys[0] in item for item in desired):
            by_key = {_identity(item, keys): item for item in live if isinstance(item, dict)}
            return all(covers(by_key.get(_identity(item, keys)), item) for item in desired)
    return len(live) == len(desired) and all(covers(a, b, field) for a, b in zip(live, desired, strict=True))


def _identity(item: dict[str, Any], keys: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(item.get(key, "TCP" if key == "protocol" else None) for key in keys)


def _same(live: Any, desired: Any, field: str, parent: str) -> bool:
    if live == desired:
        return True
    if _is_empty(desired) and _is_empty(live):
        return True
    if field in _QUANTITIES or parent in _QUANTITIES:
        return _is_scalar(live) and _is_scalar(desired) and quantities.equal(live, desired)
    return field in _INT_OR_STRING and _is_scalar(live) and str(live) == str(desired)


def _is_scalar(value: Any) -> bool:
    return isinstance(value, (str, int)) and not isinstance(value, bool)


def _is_empty(value: Any) -> bool:
    """Values that the API server leaves out when it writes an object."""
    return value is None or value is False or value in ("", 0) or value in ([], {}, ())
