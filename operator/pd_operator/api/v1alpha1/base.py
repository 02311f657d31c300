"""What all models share: naming, bounds and the types that need a hand-written schema."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel

from pd_operator.api import quantities

#: Most replicas of a role, and most units: keeps CEL cost estimates and status small.
MAX_REPLICAS: Final = 1000
MAX_ACCELERATORS: Final = 100_000
MAX_QUANTITY_LENGTH: Final = 32


class Model(BaseModel):
    """An object of the API: camelCase outside, snake_case inside, immutable.

    Unknown fields are ignored, because the API server prunes them and a newer CRD may be older operators' input.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        frozen=True,
        extra="ignore",
        use_attribute_docstrings=True,
    )


def rules(*validations: tuple[str, str] | tuple[str, str, str]) -> dict[str, Any]:
    """CEL rules of a model as `json_schema_extra`: pairs of rule and message, or rule, message and field path.

    A message that starts with `cel:` is a `messageExpression` (CEL that yields the message).
    """
    out: list[dict[str, str]] = []
    for rule, message, *path in validations:
        entry = {"rule": rule}
        if message.startswith("cel:"):
            entry["messageExpression"] = message.removeprefix("cel:")
        else:
            entry["message"] = message
        if path:
            entry["fieldPath"] = path[0]
        out.append(entry)
    return {"x-kubernetes-validations": out}


def message(text: str, *values: str) -> str:
    """A message with numbers in it: each `%s` of `text` stands for one of `values`, which are CEL.

    Formatting is the only way that the API server finds cheap enough: it takes the text of a number, and a joined
    list, for endless when they are concatenated.
    """
    return f"cel:'{text}'.format([{', '.join(values)}])"


def nested(model: type[Model]) -> Any:
    """A field that is an object whose members all have defaults.

    The schema's default is what lets the API server fill the members in; a plain `default_factory` is left out of
    pydantic's schema. It must spell out the members that the object's own rules read, because the API server tries
    the rules on the bare default when the CRD is created.
    """
    return Field(default_factory=model, json_schema_extra={"default": _plain_defaults(model)})


def _plain_defaults(model: type[Model]) -> dict[str, Any]:
    """Defaults of the members that are numbers, texts or truth values; empty when the model has no rules."""
    if "json_schema_extra" not in model.model_config:
        return {}
    return {
        to_camel(name): str(field.default) if isinstance(field.default, StrEnum) else field.default
        for name, field in model.model_fields.items()
        if isinstance(field.default, (int, str))
    }


def list_map(*keys: str) -> dict[str, Any]:
    """Schema extension of a list whose items are told apart by `keys`, so that several managers can own items."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


def _as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Quantity = Annotated[
    str,
    BeforeValidator(_as_text),
    Field(pattern=quantities.PATTERN, max_length=MAX_QUANTITY_LENGTH),
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
            "pattern": quantities.PATTERN,
            "maxLength": MAX_QUANTITY_LENGTH,
        }
    ),
]
"""A Kubernetes quantity, kept as text."""

FreeObject = Annotated[dict[str, Any], WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True})]
"""A part of the Kubernetes API that is passed on as it is; the API server checks it when the child is applied."""

Text = Annotated[str, Field(min_length=1, max_length=253)]
LabelValue = Annotated[str, Field(max_length=63)]
StringMap = Annotated[dict[str, Annotated[str, Field(max_length=1024)]], Field(max_length=64)]
Resources = Annotated[dict[str, Quantity], Field(max_length=16)]
Percent = Annotated[int, Field(ge=1, le=100)]
Seconds = Annotated[int, Field(ge=0, le=86_400)]
Port = Annotated[int, Field(ge=1, le=65_535)]


class SecretKeyRef(Model):
    """One key of a Secret in the same namespace."""

    name: Text
    """Name of the Secret."""
    key: Text
    """Key inside the Secret."""


class EnvVar(Model):
    """An environment variable, as in a container."""

    name: Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
    """Name of the variable."""
    value: Annotated[str, Field(max_length=32_768)] | None = None
    """Literal value."""
    value_from: FreeObject | None = None
    """Source of the value (`secretKeyRef`, `configMapKeyRef`, `fieldRef`, `resourceFieldRef`), as in a container."""


Args = Annotated[tuple[Annotated[str, Field(min_length=1, max_length=4096)], ...], Field(max_length=64)]
Env = Annotated[tuple[EnvVar, ...], Field(max_length=64, json_schema_extra=list_map("name"))]
