"""The real API server accepts every good object, and refuses every bad one in words that help."""

from __future__ import annotations

import pytest

from e2e.kubectl import Kubectl, KubectlError
from e2e.rest import Rest, RestError
from pd_operator.api.v1alpha1 import PDInferenceServiceSpec
from tests.cases import BAD, GOOD, Bad, Body, slug

NAMESPACE = {"namespace": "default"}


def _placed(body: Body) -> Body:
    return {**body, "metadata": {**body["metadata"], **NAMESPACE}}


@pytest.mark.parametrize("body", [pytest.param(case.body, id=slug(case.title)) for case in GOOD])
def test_good_objects_are_accepted_and_read_as_the_models_read_them(rest: Rest, body: Body) -> None:
    answer = rest.apply(_placed(body), dry_run=True)
    assert PDInferenceServiceSpec.model_validate(answer["spec"]) == PDInferenceServiceSpec.model_validate(body["spec"])


@pytest.mark.parametrize("case", [pytest.param(case, id=slug(case.title)) for case in BAD])
def test_bad_objects_are_refused_by_field_value_and_fix(rest: Rest, case: Bad) -> None:
    with pytest.raises(RestError) as refusal:
        rest.create(_placed(case.body), dry_run=True)
    assert refusal.value.status in (400, 422)
    missing = [words for words in (case.field, case.value, *case.fix) if words not in refusal.value.message]
    assert missing == [], refusal.value.message


def test_a_misspelt_field_is_refused_by_its_name(rest: Rest) -> None:
    body = _placed(GOOD[0].body)
    with pytest.raises(RestError, match="prefil"):
        rest.apply({**body, "spec": {**body["spec"], "prefil": {"replicas": 2}}}, dry_run=True)


def test_a_refusal_as_a_person_sees_it(kubectl: Kubectl) -> None:
    body = {**GOOD[0].body, "spec": {"model": {"name": "m"}, "decode": {"args": ["--tp=2"]}}}
    with pytest.raises(KubectlError) as refusal:
        kubectl.apply(body)
    assert '"demo" is invalid' in str(refusal.value)
    assert "spec.decode.args" in str(refusal.value)
    assert '["--tp=2"] is set by the operator: remove it' in str(refusal.value)


def test_an_update_that_breaks_a_rule_is_refused_and_changes_nothing(rest: Rest, namespace: str) -> None:
    body = {**GOOD[0].body, "metadata": {"name": "demo", "namespace": namespace}}
    before = rest.apply(body)
    with pytest.raises(RestError, match=r"scaling\.fixedRatio"):
        rest.patch("PDInferenceService", "demo", namespace, {"spec": {"scaling": {"mode": "FixedRatio"}}})
    assert rest.get("PDInferenceService", "demo", namespace)["spec"] == before["spec"]
