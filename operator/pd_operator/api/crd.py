"""The CustomResourceDefinition, generated from the models: `python -m pd_operator.api.crd FILE…`.

Pydantic's JSON schema becomes a Kubernetes structural schema: references are inlined, nullable fields become
optional ones, and titles go.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from pd_operator.api import labels
from pd_operator.api.v1alpha1 import PDInferenceServiceSpec, PDInferenceServiceStatus
from pd_operator.api.v1alpha1.service import ROOT_RULES, PDInferenceService

_DROPPED = ("title", "discriminator", "additionalProperties")
_COLUMNS: list[dict[str, Any]] = [
    {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
    {
        "name": "Prefill",
        "type": "string",
        "jsonPath": ".status.prefill.summary",
        "description": "ready/desired",
    },
    {
        "name": "Decode",
        "type": "string",
        "jsonPath": ".status.decode.summary",
        "description": "ready/desired",
    },
    {"name": "Ratio", "type": "string", "jsonPath": ".status.ratio", "description": "desired prefill:decode"},
    {"name": "GPUs", "type": "integer", "jsonPath": ".status.accelerators.inUse"},
    {"name": "Model", "type": "string", "jsonPath": ".spec.model.name"},
    {
        "name": "TTFT",
        "type": "integer",
        "jsonPath": ".status.slo.ttftMilliseconds",
        "priority": 1,
        "description": "milliseconds",
    },
    {
        "name": "ITL",
        "type": "integer",
        "jsonPath": ".status.slo.itlMilliseconds",
        "priority": 1,
        "description": "milliseconds",
    },
    {
        "name": "Reason",
        "type": "string",
        "jsonPath": '.status.conditions[?(@.type=="Ready")].message',
        "priority": 1,
    },
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]


def structural(schema: dict[str, Any]) -> dict[str, Any]:
    """A pydantic JSON schema as a Kubernetes structural schema.

    Raises:
        ValueError: a union that Kubernetes cannot express.
    """
    definitions = schema.get("$defs", {})

    def convert(node: dict[str, Any]) -> dict[str, Any]:
        node = dict(node)
        if "$ref" in node:
            node = {**definitions[node.pop("$ref").rsplit("/", 1)[-1]], **node}
        if "anyOf" in node and not node.get("x-kubernetes-int-or-string"):
            options = [option for option in node.pop("anyOf") if option != {"type": "null"}]
            if len(options) != 1:
                raise ValueError(f"a structural schema has no unions, got {options}")
            return convert({**options[0], **node})
        extra = node.get("additionalProperties")
        for key in _DROPPED:
            node.pop(key, None)
        if node.get("default", ...) is None:
            del node["default"]
        if node.get("format") == "date-time":
            node = {k: v for k, v in node.items() if k in ("type", "format", "description")}
        if "properties" in node:
            node["properties"] = {name: convert(child) for name, child in node["properties"].items()}
            node["type"] = "object"
        elif isinstance(extra, dict):
            node["additionalProperties"] = convert(extra)
        if "maxLength" in node and node.get("type") == "object":
            node["maxProperties"] = node.pop("maxLength")
        if "items" in node:
            node["items"] = convert(node["items"])
        if isinstance(node.get("description"), str):
            node["description"] = " ".join(node["description"].split())
        return node

    return convert({k: v for k, v in schema.items() if k != "$defs"})


def without_defaults(node: Any) -> Any:
    """A schema with no defaults, for status: what was not observed is absent, not zero."""
    if isinstance(node, list):
        return [without_defaults(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {key: without_defaults(value) for key, value in node.items() if key != "default"}


def definition() -> dict[str, Any]:
    """The CustomResourceDefinition of `PDInferenceService`."""
    root = {
        "description": " ".join((PDInferenceService.__doc__ or "").split()),
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": f"Always {labels.API_VERSION}."},
            "kind": {"type": "string", "description": f"Always {labels.KIND}."},
            "metadata": {"type": "object"},
            "spec": structural(PDInferenceServiceSpec.model_json_schema()),
            "status": without_defaults(structural(PDInferenceServiceStatus.model_json_schema())),
        },
        **ROOT_RULES,
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{labels.PLURAL}.{labels.GROUP}"},
        "spec": {
            "group": labels.GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": labels.KIND,
                "listKind": f"{labels.KIND}List",
                "plural": labels.PLURAL,
                "singular": labels.KIND.lower(),
                "shortNames": [labels.SHORT_NAME],
                "categories": ["ai"],
            },
            "versions": [
                {
                    "name": labels.VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": root},
                    "subresources": {
                        "status": {},
                        "scale": {
                            "specReplicasPath": ".spec.scaling.units",
                            "statusReplicasPath": ".status.units",
                            "labelSelectorPath": ".status.selector",
                        },
                    },
                    "additionalPrinterColumns": _COLUMNS,
                }
            ],
        },
    }


class _Dumper(yaml.SafeDumper):
    """Plain YAML: no anchors, since readers and tools stumble over them."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def render() -> str:
    """The CRD as a YAML document."""
    head = "# Generated from operator/pd_operator/api by `make generate`. Do not edit.\n"
    return head + yaml.dump(definition(), Dumper=_Dumper, sort_keys=False, width=118, allow_unicode=True)


def main() -> None:
    """Write the CRD to each path given on the command line."""
    for path in sys.argv[1:]:
        Path(path).write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main()
