"""The CRD in the chart is the CRD in `crds/`, and it outlives the chart."""

from __future__ import annotations

import pytest
import yaml

from tests.chart.chart import CHART, CRD, Chart, of, only
from tools import chart_crd

_CRD = CRD.read_text(encoding="utf-8")
_KIND = "CustomResourceDefinition"


def test_the_template_is_up_to_date() -> None:
    template = (CHART / "templates" / "crd.yaml").read_text(encoding="utf-8")
    assert template == chart_crd.template(_CRD), "run `make generate`"


def test_renders_to_the_generated_crd(chart: Chart) -> None:
    rendered = only(chart.objects(), _KIND)
    metadata = rendered.pop("metadata")
    generated = yaml.safe_load(_CRD)
    assert metadata["name"] == generated.pop("metadata")["name"]
    assert rendered == generated


def test_is_kept_at_uninstall_unless_told_otherwise(chart: Chart) -> None:
    assert only(chart.objects(), _KIND)["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert "annotations" not in only(chart.objects({"crds": {"keep": False}}), _KIND)["metadata"]


def test_can_be_left_out(chart: Chart) -> None:
    assert of(chart.objects({"crds": {"enabled": False}}), _KIND) == []


def test_braces_of_a_description_stay_text(chart: Chart) -> None:
    crd = _CRD.replace("An SGLang service", "A {{ .Release.Name }} {{ service", 1)
    templated = chart_crd.template(crd)
    assert '{{ "{{" }} .Release.Name }}' in templated


def test_a_crd_of_another_form_is_refused() -> None:
    with pytest.raises(ValueError, match="no metadata of this form"):
        chart_crd.template("kind: CustomResourceDefinition\nmetadata:\n  labels: {}\nspec: {}\n")


def test_fits_a_release_secret() -> None:
    """Helm keeps the chart in one Secret, of at most 1 MiB; kubectl's client-side apply ends at 256 KiB."""
    assert CRD.stat().st_size < 200_000
