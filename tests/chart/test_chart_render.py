"""What the chart renders to: golden files for a person to read, and rules for every object."""

from __future__ import annotations

import os
from typing import Any

import pytest
import yaml
from kubernetes import client

from pd_operator import settings
from pd_operator.api import labels
from pd_operator.settings import Settings
from tests.chart.chart import (
    CHART,
    GOLDEN,
    NAMESPACE,
    VALUES,
    VARIANTS,
    Chart,
    ChartError,
    Object,
    of,
    only,
    title,
    variant,
)

_NO_CRD = ("--set", "crds.enabled=false")

_MODELS: dict[str, Any] = {
    "ClusterRole": client.V1ClusterRole,
    "ClusterRoleBinding": client.V1ClusterRoleBinding,
    "ConfigMap": client.V1ConfigMap,
    "CustomResourceDefinition": client.V1CustomResourceDefinition,
    "Deployment": client.V1Deployment,
    "NetworkPolicy": client.V1NetworkPolicy,
    "Role": client.V1Role,
    "RoleBinding": client.V1RoleBinding,
    "Service": client.V1Service,
    "ServiceAccount": client.V1ServiceAccount,
}
_FOREIGN = {"ServiceMonitor", "PodMonitor"}


@pytest.mark.parametrize("name", VARIANTS)
def test_lint_has_nothing_to_say(chart: Chart, name: str) -> None:
    said = chart.run("lint", "--strict", CHART, "--values", VALUES / f"{name}.yaml")
    assert "0 chart(s) failed" in said
    assert "[WARNING]" not in said


@pytest.mark.parametrize("name", VARIANTS)
def test_renders_to_its_golden_file(chart: Chart, name: str) -> None:
    """`UPDATE_GOLDEN=1` writes the files instead; read the difference before it is committed."""
    path = GOLDEN / f"{name}.yaml"
    rendered = chart.text(variant(name), *_NO_CRD)
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(rendered, encoding="utf-8")
    assert rendered == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", VARIANTS)
def test_every_object_has_only_fields_that_kubernetes_knows(chart: Chart, name: str) -> None:
    for found in chart.objects(variant(name)):
        if found["kind"] not in _FOREIGN:
            _MODELS[found["kind"]].model_validate(found)


@pytest.mark.parametrize("name", VARIANTS)
def test_every_object_carries_the_standard_labels(chart: Chart, name: str) -> None:
    values = variant(name)
    for found in _own(chart.objects(values)):
        carried = found["metadata"]["labels"]
        assert carried[labels.NAME] == values.get("nameOverride", "pd-operator"), title(found)
        assert carried[labels.INSTANCE] == "pd-operator", title(found)
        assert carried[labels.PART_OF] == "pd-operator", title(found)
        assert carried["app.kubernetes.io/version"] == "0.1.0", title(found)
        assert carried["helm.sh/chart"] == "pd-operator-0.1.0", title(found)
        assert carried.items() >= values.get("commonLabels", {}).items(), title(found)
        # what carries the operator's own value is a child of a service, and would be looked at as one
        assert carried[labels.MANAGED_BY] == "Helm", title(found)


@pytest.mark.parametrize("name", VARIANTS)
def test_namespaced_objects_name_their_namespace(chart: Chart, name: str) -> None:
    values = variant(name)
    allowed = {NAMESPACE, *values.get("watch", {}).get("namespaces", [])}
    for found in _own(chart.objects(values)):
        if not found["kind"].startswith(("Cluster", "CustomResource")):
            assert found["metadata"]["namespace"] in allowed, title(found)


def test_names_are_unique_even_for_a_long_release_name(chart: Chart) -> None:
    text = chart.run("template", "a" * 53, CHART, "--namespace", NAMESPACE, "--set", "rbac.aggregatedRoles=Enabled")
    names = [line.strip() for line in text.splitlines() if line.startswith("  name: ")]
    assert max(len(name.removeprefix("name: ")) for name in names) <= 63


def test_selectors_pick_the_operators_pod(chart: Chart) -> None:
    objects = chart.objects(variant("all-on"))
    deployment = only(objects, "Deployment")
    pod_labels = deployment["spec"]["template"]["metadata"]["labels"]
    service = only(objects, "Service")
    selectors = [
        deployment["spec"]["selector"]["matchLabels"],
        service["spec"]["selector"],
        only(objects, "PodMonitor")["spec"]["selector"]["matchLabels"],
        only(objects, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
    ]
    for selector in selectors:
        assert selector
        assert selector.items() <= pod_labels.items()
    monitored = only(objects, "ServiceMonitor")["spec"]["selector"]["matchLabels"]
    assert monitored.items() <= service["metadata"]["labels"].items()


def test_labels_of_the_user_cannot_break_selectors(chart: Chart) -> None:
    mine = {labels.NAME: "mine", labels.PART_OF: "platform", labels.MANAGED_BY: labels.MANAGER}
    text = chart.text({"commonLabels": mine, "podLabels": {**mine, "team": "a"}}, *_NO_CRD)
    deployment = only(list(yaml.safe_load_all(text)), "Deployment")
    for carried in (deployment["metadata"]["labels"], deployment["spec"]["template"]["metadata"]["labels"]):
        assert carried[labels.NAME] == "pd-operator"
        assert carried[labels.PART_OF] == "platform"
    assert deployment["metadata"]["labels"][labels.MANAGED_BY] == "Helm"
    assert deployment["spec"]["template"]["metadata"]["labels"]["team"] == "a"


def test_two_operators_never_run_at_once(chart: Chart) -> None:
    spec = only(chart.objects(), "Deployment")["spec"]
    assert spec["replicas"] == 1
    assert spec["strategy"] == {"type": "Recreate"}


def test_a_digest_wins_over_the_tag(chart: Chart) -> None:
    assert _image(chart, {}) == "pd-operator:0.1.0"
    assert _image(chart, {"repository": "r.example.com/op", "tag": "v2"}) == "r.example.com/op:v2"
    digest = f"sha256:{'0' * 64}"
    assert _image(chart, {"tag": "v2", "digest": digest}) == f"pd-operator@{digest}"


def test_probes_leave_time_to_start(chart: Chart) -> None:
    container = _container(chart.objects())
    startup = container["startupProbe"]
    assert startup["failureThreshold"] * startup["periodSeconds"] >= 60
    assert startup["httpGet"]["path"] == container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variable_is_a_setting_of_the_operator(chart: Chart, name: str) -> None:
    env = _environment(chart.objects(variant(name)))
    mine = {key.removeprefix("PD_").lower() for key in env if key.startswith("PD_")}
    assert mine <= Settings.model_fields.keys()
    settings.load([], env)


def test_settings_reach_the_operator(chart: Chart) -> None:
    values = {
        "prometheus": {"url": "http://prom:9090", "pollIntervalSeconds": 7, "windowSeconds": 90},
        "watch": {"namespaces": ["a", "b"]},
        "log": {"level": "debug", "format": "text"},
    }
    found = settings.load([], _environment(chart.objects(values)))
    assert found.prometheus_url == "http://prom:9090"
    assert (found.poll_seconds, found.window_seconds) == (7, 90)
    assert found.watch_namespaces == ("a", "b")
    assert (found.log_level, found.log_format) == ("debug", "text")


def test_the_operator_listens_where_it_is_asked(chart: Chart) -> None:
    objects = chart.objects()
    (port,) = _container(objects)["ports"]
    assert settings.load([], _environment(objects)).web_port == port["containerPort"]


def test_secrets_of_prometheus_are_mounted_where_the_operator_looks(chart: Chart) -> None:
    objects = chart.objects(variant("all-on"))
    (mount,) = _container(objects)["volumeMounts"]
    (volume,) = only(objects, "Deployment")["spec"]["template"]["spec"]["volumes"]
    files = {
        f"{mount['mountPath']}/{source['secret']['items'][0]['path']}" for source in volume["projected"]["sources"]
    }
    found = settings.load([], _environment(objects))
    assert files == {found.prometheus_token_file, found.prometheus_ca_file}
    assert "volumes" not in only(chart.objects(), "Deployment")["spec"]["template"]["spec"]


def test_a_service_monitor_without_its_service_is_refused_with_the_fix(chart: Chart) -> None:
    values = {"metrics": {"service": {"enabled": False}, "serviceMonitor": {"enabled": True}}}
    with pytest.raises(ChartError, match=r"needs metrics\.service\.enabled: set it to true"):
        chart.text(values)


def _own(objects: list[Object]) -> list[Object]:
    """Without `extraObjects`, which are the user's."""
    return [found for found in objects if found["kind"] != "ConfigMap"]


def _container(objects: list[Object]) -> Object:
    (container,) = of(objects, "Deployment")[0]["spec"]["template"]["spec"]["containers"]
    return dict(container)


def _environment(objects: list[Object]) -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in _container(objects)["env"] if "value" in entry}


def _image(chart: Chart, image: dict[str, str]) -> str:
    return str(_container(chart.objects({"image": image}))["image"])
