"""values.schema.json: closed, described, in step with values.yaml, and clear when it refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from tests.chart.chart import CHART, ROOT, Chart, ChartError
from tools import chart_values

_SCHEMA = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
_VALUES_TEXT = (CHART / "values.yaml").read_text(encoding="utf-8")
_VALUES = yaml.safe_load(_VALUES_TEXT)

#: Objects that are passed on as they are and checked by the API server.
_PASSED_ON = {
    "global",
    "affinity.nodeAffinity",
    "affinity.podAffinity",
    "affinity.podAntiAffinity",
    "extraEnv[].valueFrom",
    "networkPolicy.extraEgress[].to[]",
    "networkPolicy.extraEgress[].ports[]",
    "networkPolicy.metricsFrom[].podSelector",
    "networkPolicy.metricsFrom[].namespaceSelector",
    "networkPolicy.metricsFrom[].ipBlock",
    "extraObjects[]",
}


def test_is_a_schema() -> None:
    Draft7Validator.check_schema(_SCHEMA)


def test_every_object_is_closed() -> None:
    opened = {path for path, node in _objects(_SCHEMA, "") if "additionalProperties" not in node}
    assert opened == _PASSED_ON
    for path, node in _objects(_SCHEMA, ""):
        if "properties" in node:
            assert node["additionalProperties"] is False, path


def test_knows_exactly_the_values_of_the_chart() -> None:
    undocumented = set(_leaves(_SCHEMA, "")) - {"global"}
    documented = {value.path for value in chart_values.read(_VALUES_TEXT)}
    assert undocumented == documented


def test_the_charts_own_values_are_valid() -> None:
    Draft7Validator(_SCHEMA).validate(_VALUES)


def test_generated_texts_are_up_to_date() -> None:
    values = chart_values.read(_VALUES_TEXT)
    for name, refresh in (("README.md", chart_values.readme), ("values.schema.json", chart_values.schema)):
        text = (CHART / name).read_text(encoding="utf-8")
        assert refresh(text, values) == text, f"{name} is out of date: run `make generate`"


def test_a_value_without_a_comment_is_refused() -> None:
    with pytest.raises(ValueError, match=r"does not describe crds\.keep"):
        chart_values.read("crds:\n  # -- Whether.\n  enabled: true\n  keep: true\n")


@pytest.mark.parametrize("path", ["README.md", "docs/install.md", "e2e/install.py", "e2e/stack.py"])
def test_every_value_that_is_set_elsewhere_exists(path: str) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    known = set(chart_values.leaves(_VALUES))
    set_there = set(re.findall(r"--set(?:-string)?[ =]'?([a-z][A-Za-z.]+)=", text)) | set(
        re.findall(r'f?"([a-z]\w+\.\w+)=', text)
    )
    assert set_there
    assert set_there <= known


_BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"imagee": {}}, "imagee", "not allowed"),
    ({"image": {"tagg": "1"}}, "tagg", "not allowed"),
    ({"image": {"tag": 1}}, "/image/tag", "string"),
    ({"image": {"digest": "e3b0"}}, "/image/digest", "pattern"),
    ({"image": {"pullPolicy": "always"}}, "/image/pullPolicy", "'IfNotPresent'"),
    ({"watch": {"namespaces": "team-a"}}, "/watch/namespaces", "array"),
    ({"watch": {"namespaces": ["Team"]}}, "/watch/namespaces/0", "pattern"),
    ({"crds": {"keep": "yes"}}, "/crds/keep", "boolean"),
    ({"prometheus": {"url": "prometheus:9090"}}, "/prometheus/url", "pattern"),
    ({"prometheus": {"host": "prometheus"}}, "host", "not allowed"),
    ({"log": {"level": "trace"}}, "/log/level", "'debug'"),
    ({"runAsUser": 0}, "/runAsUser", "minimum"),
    ({"tolerations": [{"effects": "NoSchedule"}]}, "effects", "not allowed"),
    ({"extraEnv": [{"value": "x"}]}, "/extraEnv/0", "name"),
    ({"commonLabels": {"team": 1}}, "/commonLabels/team", "string"),
    ({"rbac": {"aggregatedRoles": True}}, "/rbac/aggregatedRoles", "want string"),
    ({"metrics": {"service": {"port": 70000}}}, "/metrics/service/port", "maximum"),
    ({"replicaCount": 2}, "replicaCount", "not allowed"),
]


@pytest.mark.parametrize(("values", "where", "why"), _BAD, ids=lambda part: part if isinstance(part, str) else "")
def test_refuses_and_says_where_and_why(chart: Chart, values: dict[str, Any], where: str, why: str) -> None:
    with pytest.raises(ChartError) as refused:
        chart.text(values)
    assert where in str(refused.value)
    assert why in str(refused.value)


def _objects(node: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    kinds = node.get("type", [])
    if "object" in ([kinds] if isinstance(kinds, str) else kinds):
        yield path, node
    for key, child in node.get("properties", {}).items():
        yield from _objects(child, f"{path}.{key}" if path else key)
    if isinstance(items := node.get("items"), dict):
        yield from _objects(items, f"{path}[]")


def _leaves(node: dict[str, Any], path: str) -> Iterator[str]:
    """What carries a description: there the schema speaks about one value."""
    if "description" in node:
        yield path
        return
    for key, child in node.get("properties", {}).items():
        yield from _leaves(child, f"{path}.{key}" if path else key)
