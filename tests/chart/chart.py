"""The chart under test, rendered by the real helm."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "helm" / "pd-operator"
CRD = ROOT / "crds" / "pdinference.dev_pdinferenceservices.yaml"
VALUES = Path(__file__).parent / "values"
GOLDEN = Path(__file__).parent / "golden"

RELEASE = "pd-operator"
NAMESPACE = "pd-system"
VARIANTS = ("default", "namespaced", "all-on")
"""One file of values each, and one golden file of what they render to."""

CLUSTER_SCOPED = {"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "PriorityClass", "Namespace"}

Object = dict[str, Any]
Values = Mapping[str, Any]


class ChartError(Exception):
    """What helm said when it refused."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Runs `helm` without any cluster, configuration or plugin of the user's."""

    helm: Path
    scratch: Path

    def run(self, *arguments: str | Path, stdin: str | None = None) -> str:
        """Standard output. Raises ChartError with the error output when helm fails."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HELM_", "KUBE"))}
        homes = {f"HELM_{name}_HOME": str(self.scratch / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
        done = subprocess.run(
            [self.helm, *arguments], input=stdin, capture_output=True, text=True, check=False, env=kept | homes
        )
        if done.returncode:
            raise ChartError(done.stdout + done.stderr)
        return done.stdout

    def text(self, values: Values | None = None, *arguments: str) -> str:
        """`helm template` with `values` on top of the chart's own."""
        return _rendered(self, yaml.safe_dump(dict(values or {})), arguments)

    def objects(self, values: Values | None = None) -> list[Object]:
        """The rendered objects."""
        # the C parser: the CRD takes a second in the other one
        return [found for found in yaml.load_all(self.text(values), yaml.CSafeLoader) if found]


@cache
def _rendered(chart: Chart, values: str, arguments: tuple[str, ...]) -> str:
    """Many tests look at the same rendering."""
    options = ("--namespace", NAMESPACE, "--values", "-")
    return chart.run("template", RELEASE, CHART, *options, *arguments, stdin=values)


def variant(name: str) -> Object:
    """The values of a variant."""
    content = yaml.safe_load((VALUES / f"{name}.yaml").read_text(encoding="utf-8"))
    return dict(content or {})


def only(objects: Iterable[Object], kind: str) -> Object:
    """The one object of `kind`."""
    found = of(objects, kind)
    assert len(found) == 1, f"{len(found)} objects of kind {kind}"
    return found[0]


def of(objects: Iterable[Object], kind: str) -> list[Object]:
    """All objects of `kind`."""
    return [candidate for candidate in objects if candidate["kind"] == kind]


def title(found: Object) -> str:
    """Kind and name, for messages of failed tests."""
    return f"{found['kind']} {found['metadata']['name']}"
