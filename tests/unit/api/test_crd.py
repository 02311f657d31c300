"""The generated CRD keeps the conventions that tools and people rely on, and says the same as the models."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest
import yaml

from pd_operator.api import crd, labels
from pd_operator.api.v1alpha1 import PDInferenceServiceSpec
from tests.cases import GOOD, RULES, SCHEMA, Bad, Body, slug

FILE: Final = Path(__file__).resolve().parents[3] / "crds" / "pdinference.dev_pdinferenceservices.yaml"
#: `kubectl apply` keeps the whole object in an annotation of at most 256 KiB.
MAX_BYTES: Final = 200_000
#: What a structural schema may not contain (apiextensions.k8s.io/v1, "Specifying a structural schema").
FORBIDDEN: Final = {"$ref", "$defs", "definitions", "allOf", "oneOf", "not", "title", "examples", "nullable"}

Node = dict[str, Any]
VERSION: Final[Node] = crd.definition()["spec"]["versions"][0]
ROOT: Final[Node] = VERSION["schema"]["openAPIV3Schema"]


def _nodes(node: Node, path: str = "") -> Iterator[tuple[str, Node]]:
    """Every schema node below `node`, with its path as `kubectl explain` takes it (`[]` items, `{}` map values)."""
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from _nodes(child, f"{path}.{name}".lstrip("."))
    if "items" in node:
        yield from _nodes(node["items"], f"{path}[]")
    if "additionalProperties" in node:
        yield from _nodes(node["additionalProperties"], f"{path}{{}}")


NODES: Final = dict(_nodes(ROOT))


def _offenders(wrong: Any) -> list[str]:
    return [path for path, node in NODES.items() if wrong(path, node)]


def _defaulted(value: Any, node: Node) -> Any:
    """`value` as the API server completes it: defaults from the outside in, also inside defaulted objects."""
    if isinstance(value, dict):
        filled = dict(value)
        for name, child in node.get("properties", {}).items():
            if name not in filled and "default" in child:
                filled[name] = child["default"]
            if name in filled:
                filled[name] = _defaulted(filled[name], child)
        return filled
    if isinstance(value, list) and "items" in node:
        return [_defaulted(item, node["items"]) for item in value]
    return value


def _without_empties(value: Any) -> Any:
    """A value without empty lists and maps: absent and empty mean the same in this API."""
    if isinstance(value, dict):
        cleaned = {key: _without_empties(item) for key, item in value.items()}
        return {key: item for key, item in cleaned.items() if item not in ({}, [])}
    return [_without_empties(item) for item in value] if isinstance(value, list) else value


def test_the_file_is_what_the_models_generate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    monkeypatch.setattr("sys.argv", ["crd", str(first), str(second)])
    crd.main()
    assert first.read_bytes() == second.read_bytes() == FILE.read_bytes()
    assert yaml.safe_load(first.read_text(encoding="utf-8")) == crd.definition()


def test_the_file_is_small_enough_for_client_side_apply() -> None:
    assert FILE.stat().st_size < MAX_BYTES


def test_names_are_kept_clear_of_other_projects() -> None:
    names = crd.definition()["spec"]["names"]
    assert (names["plural"], names["shortNames"], names["categories"]) == (labels.PLURAL, ["pdinf"], ["ai"])
    assert crd.definition()["metadata"]["name"] == "pdinferenceservices.pdinference.dev"


def test_every_field_is_described() -> None:
    def undescribed(path: str, node: Node) -> bool:
        is_field = path not in ("", "metadata") and not path.endswith(("[]", "{}"))
        return is_field and not node.get("description", "").rstrip().endswith(".")

    assert _offenders(undescribed) == []


def test_the_schema_is_structural() -> None:
    def broken(path: str, node: Node) -> bool:
        untyped = "type" not in node and not node.get("x-kubernetes-int-or-string")
        union = "anyOf" in node and not node.get("x-kubernetes-int-or-string")
        both = "properties" in node and "additionalProperties" in node
        return bool(untyped or union or both or FORBIDDEN & node.keys())

    assert _offenders(broken) == []


def test_every_string_list_and_map_is_bounded() -> None:
    def unbounded(path: str, node: Node) -> bool:
        if node.get("x-kubernetes-int-or-string"):
            return "maxLength" not in node
        if node.get("type") == "string":
            finite_pattern = "pattern" in node and not re.search(r"[*+]|,\}", node["pattern"])
            return not ("enum" in node or "maxLength" in node or "format" in node or finite_pattern)
        if node.get("type") == "array":
            return "maxItems" not in node
        if node.get("type") == "object" and "additionalProperties" in node:
            return "maxProperties" not in node
        return False

    # apiVersion and kind are the API server's own
    assert [path for path in _offenders(unbounded) if path not in ("apiVersion", "kind")] == []


def test_every_whole_number_of_the_spec_is_bounded() -> None:
    def unbounded(path: str, node: Node) -> bool:
        return path.startswith("spec") and node.get("type") == "integer" and not {"minimum", "maximum"} <= node.keys()

    assert _offenders(unbounded) == []


def test_there_are_no_floats() -> None:
    assert _offenders(lambda path, node: node.get("type") == "number") == []


def test_names_are_camel_case_and_units_are_in_names() -> None:
    def misnamed(path: str, node: Node) -> bool:
        name = path.rsplit(".", 1)[-1].rstrip("[]{}")
        bad_unit = name.endswith(("Sec", "Secs", "Ms", "Timeout", "Cooldown", "Age"))
        return bool(name) and (not re.fullmatch(r"[a-z][A-Za-z0-9]*", name) or bad_unit)

    assert _offenders(misnamed) == []


def test_rules_explain_themselves() -> None:
    rules = [rule for node in NODES.values() for rule in node.get("x-kubernetes-validations", [])]
    assert len(rules) >= 15
    assert [rule["rule"] for rule in rules if not (rule.get("message") or rule.get("messageExpression"))] == []


def test_defaults_of_the_crd_are_those_of_the_models() -> None:
    minimal: Body = {"model": {"name": "m"}}
    in_models = PDInferenceServiceSpec.model_validate(minimal).model_dump(by_alias=True, mode="json", exclude_none=True)
    in_crd = _defaulted(minimal, ROOT["properties"]["spec"])
    assert _without_empties(in_crd) == _without_empties(in_models)


def test_status_has_no_defaults() -> None:
    assert _offenders(lambda path, node: path.startswith("status") and "default" in node) == []


def test_the_scale_subresource_sets_units() -> None:
    assert VERSION["subresources"]["scale"]["specReplicasPath"] == ".spec.scaling.units"
    assert NODES["spec.scaling.units"]["default"] == 1  # HPA needs a value to start from
    assert {"status.units", "status.selector"} <= NODES.keys()


def test_printed_columns_come_from_fields_that_exist() -> None:
    columns = {column["name"]: column["jsonPath"] for column in VERSION["additionalPrinterColumns"]}
    assert list(columns) == ["Ready", "Prefill", "Decode", "Ratio", "GPUs", "Model", "TTFT", "ITL", "Reason", "Age"]
    plain = [path.lstrip(".") for path in columns.values() if "[" not in path]
    assert [path for path in plain if path not in NODES and not path.startswith("metadata.")] == []


def _schema_errors(body: Body) -> list[str]:
    complete = {**body, "spec": _defaulted(body["spec"], ROOT["properties"]["spec"])}
    return [
        "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path).lstrip(".")
        + (f".{error.message.split(chr(39))[1]}" if error.validator == "required" else "")
        for error in jsonschema.Draft202012Validator(ROOT).iter_errors(complete)
    ]


@pytest.mark.parametrize(
    "body",
    [
        *(pytest.param(case.body, id=slug(case.title)) for case in GOOD),
        *(pytest.param(case.body, id=slug(case.title)) for case in RULES),
    ],
)
def test_the_schema_accepts_what_breaks_no_bound(body: Body) -> None:
    assert _schema_errors(body) == []


@pytest.mark.parametrize("case", [pytest.param(case, id=slug(case.title)) for case in SCHEMA])
def test_the_schema_refuses_at_the_field(case: Bad) -> None:
    assert case.field in _schema_errors(case.body)
