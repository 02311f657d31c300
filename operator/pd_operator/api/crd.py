"""The CustomResourceDefinition, generated from the models: `python -m pd_operator.api.crd FILE…`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import yaml

from pd_operator.api import labels
from pd_operator.api.schema import structural, without_defaults
from pd_operator.api.v1alpha1 import PDInferenceServiceSpec, PDInferenceServiceStatus
from pd_operator.api.v1alpha1.service import ROOT_RULES, PDInferenceService


def _column(name: str, path: str, description: str, *, kind: str = "string", wide: bool = False) -> dict[str, Any]:
    column = {"name": name, "type": kind, "jsonPath": path, "description": description}
    return {**column, "priority": 1} if wide else column


_READY: Final = '.status.conditions[?(@.type=="Ready")]'
_COLUMNS: Final = [
    _column("Ready", f"{_READY}.status", "whether the service serves as asked"),
    _column("Prefill", ".status.prefill.summary", "ready/desired replicas"),
    _column("Decode", ".status.decode.summary", "ready/desired replicas"),
    _column("Ratio", ".status.ratio", "desired prefill:decode"),
    _column("GPUs", ".status.accelerators.inUse", "accelerators of both roles", kind="integer"),
    _column("Model", ".spec.model.name", "what is served"),
    _column("TTFT", ".status.slo.ttftMilliseconds", "milliseconds at the SLO percentile", kind="integer", wide=True),
    _column("ITL", ".status.slo.itlMilliseconds", "milliseconds at the SLO percentile", kind="integer", wide=True),
    _column("Reason", f"{_READY}.message", "what is going on", wide=True),
    _column("Age", ".metadata.creationTimestamp", "time since creation", kind="date"),
]


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
