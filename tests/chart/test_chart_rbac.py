"""The operator may do what it does, and nothing else."""

from __future__ import annotations

from itertools import product

import pytest

from pd_operator.adapters.permissions import NEEDED
from pd_operator.api import labels
from pd_operator.api.v1alpha1 import PDInferenceService
from pd_operator.plan.objects import rbac
from tests.cases import changed
from tests.chart.chart import CLUSTER_SCOPED, NAMESPACE, VARIANTS, Chart, Object, of, only, title, variant

Permission = tuple[str, str, str]
"""API group, resource, verb."""

#: Owner references that block their owner's deletion need it where OwnerReferencesPermissionEnforcement is on.
_FOR_OWNER_REFERENCES = {(labels.GROUP, f"{labels.PLURAL}/finalizers", "update")}
#: Cluster-scoped, so no Role can grant it; `system:basic-user` gives it to every account.
_SELF_CHECK = {("authorization.k8s.io", "selfsubjectaccessreviews", "create")}
_NAMESPACES = ["team-a", "team-b"]


def permissions(role: Object) -> set[Permission]:
    return {
        permission
        for rule in role["rules"]
        for permission in product(rule["apiGroups"], rule["resources"], rule["verbs"])
    }


def needed() -> set[Permission]:
    """The operator's own list, by which it also checks itself when it starts."""
    return {
        (entry.group, f"{entry.resource}/{entry.subresource}" if entry.subresource else entry.resource, entry.verb)
        for entry in NEEDED
    }


def test_cluster_wide_it_holds_exactly_what_it_needs(chart: Chart) -> None:
    granted = permissions(_bound(chart.objects({"rbac": {"aggregatedRoles": "Disabled"}}), "ClusterRole"))
    assert granted == needed() | _FOR_OWNER_REFERENCES | _SELF_CHECK


def test_in_namespaces_it_holds_exactly_what_it_needs_there(chart: Chart) -> None:
    objects = chart.objects(variant("namespaced"))
    assert [role["metadata"]["namespace"] for role in of(objects, "Role")] == _NAMESPACES
    for role in of(objects, "Role"):
        assert permissions(role) == needed() | _FOR_OWNER_REFERENCES
    bindings = of(objects, "RoleBinding")
    assert [binding["metadata"]["namespace"] for binding in bindings] == _NAMESPACES
    for binding in bindings:
        assert binding["roleRef"] == {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "Role",
            "name": of(objects, "Role")[0]["metadata"]["name"],
        }
        _assert_subject_is_the_operator(binding, objects)


def test_in_namespaces_only_the_crd_is_cluster_scoped(chart: Chart) -> None:
    with_crd = chart.objects({"watch": {"namespaces": _NAMESPACES}})
    assert {found["kind"] for found in with_crd} & CLUSTER_SCOPED == {"CustomResourceDefinition"}
    assert not {found["kind"] for found in chart.objects(variant("namespaced"))} & CLUSTER_SCOPED


@pytest.mark.parametrize("name", VARIANTS)
def test_no_role_has_a_wildcard_or_reads_secrets(chart: Chart, name: str) -> None:
    roles = [found for found in chart.objects(variant(name)) if found["kind"] in {"Role", "ClusterRole"}]
    assert roles
    for role in roles:
        for group, resource, verb in permissions(role):
            assert "*" not in (group + resource + verb), title(role)
            assert resource.split("/")[0] not in {"secrets", "nodes"}, title(role)
            assert resource not in {"pods/exec", "pods/attach", "pods/ephemeralcontainers"}, title(role)
            assert verb not in {"escalate", "bind", "impersonate"}, title(role)


def test_the_operator_holds_what_routers_get(chart: Chart) -> None:
    """Kubernetes refuses a Role that grants more than its author holds."""
    granted = permissions(only(chart.objects({"rbac": {"aggregatedRoles": "Disabled"}}), "ClusterRole"))
    body = changed({}, "any")
    body["metadata"] |= {"namespace": "default", "uid": "1"}
    handed_on = permissions(rbac.role(PDInferenceService.model_validate(body)))
    assert handed_on
    assert granted >= handed_on


def test_people_get_access_through_kubernetes_own_roles(chart: Chart) -> None:
    roles = {role["metadata"]["name"]: role for role in of(chart.objects(), "ClusterRole")}
    view, edit = roles["pd-operator-view"], roles["pd-operator-edit"]
    assert view["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"] == "true"
    assert edit["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-edit"] == "true"
    assert {verb for _, _, verb in permissions(view)} == {"get", "list", "watch"}
    assert (labels.GROUP, f"{labels.PLURAL}/scale", "patch") in permissions(edit)
    assert not any(resource.endswith("/status") for _, resource, _ in permissions(edit))


@pytest.mark.parametrize(
    ("choice", "namespaces", "expected"),
    [("Auto", [], True), ("Auto", _NAMESPACES, False), ("Enabled", _NAMESPACES, True), ("Disabled", [], False)],
)
def test_who_decides_about_aggregated_roles(chart: Chart, choice: str, namespaces: list[str], expected: bool) -> None:
    objects = chart.objects({"rbac": {"aggregatedRoles": choice}, "watch": {"namespaces": namespaces}})
    names = {role["metadata"]["name"] for role in of(objects, "ClusterRole")}
    assert ({"pd-operator-view", "pd-operator-edit"} <= names) is expected


def test_roles_can_be_left_to_others(chart: Chart) -> None:
    values = {
        "rbac": {"create": False, "aggregatedRoles": "Disabled"},
        "serviceAccount": {"create": False, "name": "op"},
    }
    objects = chart.objects(values)
    assert {found["kind"] for found in objects} == {"CustomResourceDefinition", "Deployment", "Service"}
    assert only(objects, "Deployment")["spec"]["template"]["spec"]["serviceAccountName"] == "op"


def _bound(objects: list[Object], kind: str) -> Object:
    """The role that is bound to the operator's ServiceAccount."""
    role, binding = only(objects, kind), only(objects, f"{kind}Binding")
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    _assert_subject_is_the_operator(binding, objects)
    return role


def _assert_subject_is_the_operator(binding: Object, objects: list[Object]) -> None:
    account = only(objects, "Deployment")["spec"]["template"]["spec"]["serviceAccountName"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}]
