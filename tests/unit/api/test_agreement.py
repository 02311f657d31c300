"""What the API server refuses at admission, the planner refuses too: an object may be older than a rule."""

from __future__ import annotations

import pytest

from pd_operator.api.v1alpha1 import PDInferenceService
from pd_operator.plan.validate import violations
from tests.cases import GOOD, RULES, Bad, Body, slug


def _stored(body: Body) -> PDInferenceService:
    """The object as if an older CRD had let it in."""
    metadata = {**body["metadata"], "namespace": "default", "uid": "00000000-0000-0000-0000-000000000000"}
    return PDInferenceService.model_validate({**body, "metadata": metadata})


@pytest.mark.parametrize("body", [pytest.param(case.body, id=slug(case.title)) for case in GOOD])
def test_good_objects_break_no_rule(body: Body) -> None:
    assert violations(_stored(body)) == ()


@pytest.mark.parametrize("case", [pytest.param(case, id=slug(case.title)) for case in RULES])
def test_what_a_rule_refuses_is_a_violation_of_the_same_field(case: Bad) -> None:
    found = violations(_stored(case.body))
    said = " / ".join(str(violation) for violation in found)
    assert case.field in said
    assert case.value in said
    assert all(len(violation.fix) > 10 for violation in found)
