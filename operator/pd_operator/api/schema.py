"""Pydantic's JSON schema as a Kubernetes structural schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: JSON-schema keys that a structural schema may not have, or that say nothing to its readers.
_DROPPED = ("title", "discriminator")


def structural(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Inline references, turn nullable fields into optional ones, bound maps, and drop titles.

    Raises:
        ValueError: a union that a structural schema cannot express.
    """
    definitions = schema.get("$defs", {})
    return _convert({key: value for key, value in schema.items() if key != "$defs"}, definitions)


def without_defaults(node: Any) -> Any:
    """A schema with no defaults, for status: what was not observed is absent, not zero."""
    if isinstance(node, list):
        return [without_defaults(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {key: without_defaults(value) for key, value in node.items() if key != "default"}


def _convert(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    out = _resolved(node, definitions)
    children = {name: _convert(child, definitions) for name, child in out.pop("properties", {}).items()}
    values = out.pop("additionalProperties", None)
    items = out.pop("items", None)
    for key in _DROPPED:
        out.pop(key, None)
    if out.get("default", ...) is None:
        del out["default"]
    if "description" in out:
        out["description"] = " ".join(out["description"].split())
    if out.get("type") == "object" and "maxLength" in out:  # pydantic bounds dicts by length
        out["maxProperties"] = out.pop("maxLength")
    if children:
        out["properties"] = children
    if isinstance(values, Mapping):
        out["additionalProperties"] = _convert(values, definitions)
    if items is not None:
        out["items"] = _convert(items, definitions)
    return out


def _resolved(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """`node` without `$ref` and without the null branch of an optional field; the node's own keys win."""
    out = dict(node)
    if "$ref" in out:
        return _resolved({**definitions[out.pop("$ref").rsplit("/", 1)[-1]], **out}, definitions)
    if "anyOf" in out and not out.get("x-kubernetes-int-or-string"):
        options = [option for option in out.pop("anyOf") if option != {"type": "null"}]
        if len(options) != 1:
            raise ValueError(f"a structural schema has no unions, got {options}")
        return _resolved({**options[0], **out}, definitions)
    return out
