"""What a case is, and how one is written: a small valid object with a few fields changed."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pd_operator.api import labels

Body = dict[str, Any]

_MINIMAL: Final[Body] = {
    "apiVersion": labels.API_VERSION,
    "kind": labels.KIND,
    "metadata": {"name": "demo"},
    "spec": {"model": {"name": "meta-llama/Llama-3.1-8B-Instruct"}},
}


class Absent:
    """Stands for a field that a case takes away."""


ABSENT: Final = Absent()


@dataclass(frozen=True, slots=True)
class Good:
    """An object that must be accepted everywhere."""

    title: str
    body: Body


@dataclass(frozen=True, slots=True)
class Bad:
    """An object that must be refused, with an answer that names the field, the value and the fix.

    Attributes:
        field: Path of the offending field as the answer must spell it.
        value: The offending value as the answer must show it; empty when the fault is that there is none.
        fix: Words of the answer that tell what to do.
        rule: A CEL rule refuses it, so that the models accept it and `plan.validate` must refuse it too.
            Otherwise a bound, pattern or enumeration does, in the schema and in the models alike.
    """

    title: str
    body: Body
    field: str
    value: str
    fix: tuple[str, ...]
    rule: bool


def good(title: str, changes: Mapping[str, Any] | None = None, *, name: str | None = None) -> Good:
    """A minimal object with `changes` (dotted path below `spec` → value)."""
    return Good(title, changed(changes or {}, name))


def schema(title: str, path: str, value: Any, *fix: str, shown: str | None = None, field: str | None = None) -> Bad:
    """A single value that the schema refuses.

    `shown` is how the answer prints it, when not as itself; `field` is the path it names, when not `path`.
    """
    text = str(value) if shown is None else shown
    return Bad(title, changed({path: value}), field or f"spec.{path}", text, fix, rule=False)


def rule(
    title: str, changes: Mapping[str, Any], *, field: str, value: str, fix: tuple[str, ...], name: str | None = None
) -> Bad:
    """Values that are well-formed each and that a rule refuses together."""
    return Bad(title, changed(changes, name), field, value, fix, rule=True)


def changed(changes: Mapping[str, Any], name: str | None = None) -> Body:
    """The minimal object with `changes` made. Items of lists cannot be reached by a path; give the list."""
    body = copy.deepcopy(_MINIMAL)
    if name is not None:
        body["metadata"]["name"] = name
    for path, value in changes.items():
        *parents, last = path.split(".")
        node = body["spec"]
        for key in parents:
            node = node.setdefault(key, {})
        if value is ABSENT:
            node.pop(last, None)
        else:
            node[last] = copy.deepcopy(value)
    return body


def slug(title: str) -> str:
    """A title as the name of a test."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
