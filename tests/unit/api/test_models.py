"""The models accept every good object and refuse, at the right field, what the schema refuses."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from pd_operator.api.v1alpha1 import PDInferenceServiceSpec, owned_flag
from tests.cases import GOOD, RULES, SCHEMA, Bad, Body, slug


def _path(location: tuple[int | str, ...]) -> str:
    """A pydantic location as the API server spells it: `spec.engine.args[0]`."""
    return "spec" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)


@pytest.mark.parametrize("body", [pytest.param(case.body, id=slug(case.title)) for case in GOOD])
def test_good_objects_are_accepted(body: Body) -> None:
    spec = PDInferenceServiceSpec.model_validate(body["spec"])
    again = PDInferenceServiceSpec.model_validate(spec.model_dump(by_alias=True, mode="json", exclude_none=True))
    assert again == spec


@pytest.mark.parametrize("case", [pytest.param(case, id=slug(case.title)) for case in SCHEMA])
def test_what_the_schema_refuses_is_refused_at_its_field(case: Bad) -> None:
    with pytest.raises(ValidationError) as caught:
        PDInferenceServiceSpec.model_validate(case.body["spec"])
    assert case.field in [_path(error["loc"]) for error in caught.value.errors()]


@pytest.mark.parametrize("case", [pytest.param(case, id=slug(case.title)) for case in RULES])
def test_rules_are_no_matter_of_single_fields(case: Bad) -> None:
    """A spec that breaks a rule can still be read, so that the operator can say in a condition what is wrong."""
    PDInferenceServiceSpec.model_validate(case.body["spec"])


@pytest.mark.parametrize(
    ("arg", "flag"),
    [
        ("--port", "--port"),
        ("--port=1", "--port"),
        ("--tp", "--tp-size"),
        ("--tp 2", "--tp-size"),
        ("--model", "--model-path"),
        ("--disaggregation-mo", "--disaggregation-mode"),
        ("--quantization", "--quantization"),
        ("--quantization-param-path", None),
        ("--enable-metrics-for-all-schedulers", None),
        ("--disaggregation-decode-polling-interval=1", None),
        ("--log-level", None),
        ("info", None),
        ("-1", None),
        ("--", None),
    ],
)
def test_owned_flags_are_recognised_as_argparse_would(arg: str, flag: str | None) -> None:
    assert owned_flag(arg) == flag


def test_unknown_fields_are_ignored() -> None:
    """A newer CRD may have fields that this operator does not know yet."""
    spec = PDInferenceServiceSpec.model_validate({"model": {"name": "m"}, "fromTheFuture": {"x": 1}})
    assert spec == PDInferenceServiceSpec.model_validate({"model": {"name": "m"}})
