"""The chart on a real API server: installed, upgraded and removed by the real helm.

These tests change the CRD, so they have a control plane of their own. Its one fake node runs no container: whether the
operator works inside its pod is for `e2e/scenarios`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from e2e.install import CHART, NAMESPACE, Release
from e2e.kubectl import Kubectl, KubectlError, wait_until
from e2e.lab import binaries
from e2e.lab.errors import LabError
from e2e.lab.lab import Lab, Size
from e2e.lab.progress import Progress
from e2e.lab.spec import Profile
from pd_operator.adapters.permissions import NEEDED, Permission
from tests.chart.chart import GOLDEN
from tests.cluster.support import NAME, alone, eventually

CRD: Final = "pdinferenceservices.pdinference.dev"
CONFINED: Final = "confined"
SERVICE: Final = {
    "apiVersion": "pdinference.dev/v1alpha1",
    "kind": "PDInferenceService",
    "metadata": {"name": "kept", "namespace": "default"},
    "spec": {"model": {"name": "Qwen/Qwen3-8B"}},
}


@pytest.fixture(scope="module")
def empty_lab() -> Iterator[Lab]:
    """A control plane without the CRD."""
    lab = Lab.named(f"{NAME}-chart")
    with alone(lab.directory.with_suffix(".session")):
        lab.down(wipe=True)
        lab.up(Size(Profile.CONTROL_PLANE, nodes=0, gpu_nodes=1))
        yield lab
        lab.down(wipe=True)


@pytest.fixture(scope="module")
def cluster(empty_lab: Lab) -> Kubectl:
    return Kubectl(binaries.kubectl(), empty_lab.kubeconfig)


@pytest.fixture
def release(empty_lab: Lab, cluster: Kubectl) -> Iterator[Release]:
    """The release of a user, in a namespace that admits only restricted pods; gone afterwards, with its CRD."""
    _namespace(cluster, NAMESPACE, {"pod-security.kubernetes.io/enforce": "restricted"})
    release = Release(empty_lab, Progress())
    yield release
    release.uninstall()
    cluster.delete("crd", CRD)


def test_installs_into_a_restricted_namespace_and_says_what_next(release: Release, cluster: Kubectl) -> None:
    release.install()
    (pod,) = cluster.in_namespace(NAMESPACE).list("pods")
    assert pod["status"]["phase"] == "Running"
    assert "rollout status deployment/pd-operator" in release.log.read_text()
    wait_until("people can ask what it knows", lambda: cluster.run("explain", "pdinf.spec.prefill"), within=20)


def test_uninstalling_keeps_the_crd_and_the_services(release: Release, cluster: Kubectl) -> None:
    release.install()
    cluster.apply(SERVICE)
    release.uninstall()
    assert cluster.get("pdinf", "kept")["metadata"]["uid"]
    assert cluster.in_namespace(NAMESPACE).list("deployments") == []
    assert _of_the_release(cluster, "clusterroles,clusterrolebindings") == []
    release.install()
    assert cluster.get("crd", CRD)["metadata"]["annotations"]["meta.helm.sh/release-name"] == "pd-operator"


def test_the_crd_goes_with_the_chart_when_it_is_not_to_be_kept(release: Release, cluster: Kubectl) -> None:
    release.install(["crds.keep=false"])
    release.uninstall()
    with pytest.raises(KubectlError, match="NotFound"):
        cluster.get("crd", CRD)


def test_an_upgrade_brings_the_new_crd_and_keeps_the_services(
    release: Release, cluster: Kubectl, tmp_path: Path
) -> None:
    Release(release.cluster, release.progress, chart=_older(tmp_path)).install()
    assert cluster.get("crd", CRD)["spec"]["names"]["shortNames"] == ["pdold"]
    cluster.apply(SERVICE)
    uid = cluster.get("pdinferenceservices", "kept")["metadata"]["uid"]
    release.install(["log.level=debug"])
    assert cluster.get("crd", CRD)["spec"]["names"]["shortNames"] == ["pdinf"]
    assert cluster.get("pdinferenceservices", "kept")["metadata"]["uid"] == uid
    (pod,) = cluster.in_namespace(NAMESPACE).list("pods")
    environment = {item["name"]: item["value"] for item in pod["spec"]["containers"][0]["env"]}
    assert environment["PD_LOG_LEVEL"] == "debug"


def test_a_crd_of_someone_else_is_not_taken_over_unasked(release: Release, cluster: Kubectl) -> None:
    cluster.run("apply", "--server-side", "-f", str(CHART.parents[1] / "crds"))
    with pytest.raises(LabError):
        release.install()
    assert "invalid ownership metadata" in release.log.read_text()
    release.install(["crds.enabled=false"])
    release.uninstall()
    assert cluster.get("crd", CRD)["metadata"]["name"] == CRD


def test_in_namespaces_it_creates_roles_only_and_can_do_its_work_only_there(empty_lab: Lab, cluster: Kubectl) -> None:
    for name in (CONFINED, "team-a", "team-b", "team-c"):
        _namespace(cluster, name, {})
    confined = Release(empty_lab, Progress(), name=CONFINED, namespace=CONFINED)
    try:
        confined.install(["crds.enabled=false", "watch.namespaces={team-a,team-b}"])
        assert _of_the_release(cluster, "clusterroles,clusterrolebindings,crd", CONFINED) == []
        roles = [
            role for name in ("team-a", "team-b") for role in cluster.in_namespace(name).list("roles,rolebindings")
        ]
        assert {role["kind"] for role in roles} == {"Role", "RoleBinding"}
        assert len(roles) == 4
        account = f"system:serviceaccount:{CONFINED}:{CONFINED}-pd-operator"
        for permission in NEEDED:
            assert _may(empty_lab, account, permission, "team-a"), f"{permission} in team-a"
        for verb in ("list", "watch", "patch"):
            assert not _may(empty_lab, account, Permission("", "pods", verb), "team-c")
        assert not _may(empty_lab, account, Permission("", "pods", "list"), None)
        assert not _may(empty_lab, account, Permission("", "secrets", "get"), "team-a")
    finally:
        confined.uninstall()


def test_people_get_access_with_kubernetes_own_roles(empty_lab: Lab, release: Release, cluster: Kubectl) -> None:
    release.install()
    for role in ("view", "edit", "admin"):
        cluster.run("create", "rolebinding", role, f"--clusterrole={role}", f"--user={role}")
    services = Permission("pdinference.dev", "pdinferenceservices", "create")
    scale = Permission("pdinference.dev", "pdinferenceservices", "patch", "scale")
    status = Permission("pdinference.dev", "pdinferenceservices", "patch", "status")

    def aggregated() -> None:
        for user, writes in (("view", False), ("edit", True), ("admin", True)):
            assert _may(empty_lab, user, Permission("pdinference.dev", "pdinferenceservices", "list"), "default"), user
            assert _may(empty_lab, user, services, "default") is writes, user
            assert _may(empty_lab, user, scale, "default") is writes, user
            assert not _may(empty_lab, user, status, "default"), user

    eventually("the roles are aggregated", aggregated, within=20)


def test_the_api_server_accepts_every_object_of_every_variant(cluster: Kubectl) -> None:
    for golden in sorted(GOLDEN.glob("*.yaml")):
        rendered = [found for found in yaml.safe_load_all(golden.read_text(encoding="utf-8")) if found]
        known = [found for found in rendered if "monitoring.coreos.com" not in found["apiVersion"]]
        for namespace in {found["metadata"].get("namespace", "default") for found in known}:
            _namespace(cluster, namespace, {})
            there = [found for found in known if found["metadata"].get("namespace", "default") == namespace]
            cluster.in_namespace(namespace).run(
                "create", "--dry-run=server", "--validate=strict", "-f", "-", stdin=yaml.safe_dump_all(there)
            )


def _namespace(cluster: Kubectl, name: str, labels: dict[str, str]) -> None:
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})


def _of_the_release(cluster: Kubectl, kinds: str, release: str = "pd-operator") -> list[str]:
    return cluster.run("get", kinds, "-o", "name", "-l", f"app.kubernetes.io/instance={release}").split()


def _may(lab: Lab, user: str, permission: Permission, namespace: str | None) -> bool:
    """What the API server's authoriser says about a user."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": permission.attributes(namespace)},
    }
    with lab.runtime().api() as api:
        answer = api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return answer["status"]["allowed"] is True


def _older(folder: Path) -> Path:
    """A copy of the chart whose CRD differs, as that of an earlier version would."""
    chart = folder / "pd-operator"
    shutil.copytree(CHART, chart)
    template = chart / "templates" / "crd.yaml"
    text = template.read_text(encoding="utf-8")
    assert text.count("    - pdinf\n") == 1
    template.write_text(text.replace("    - pdinf\n", "    - pdold\n"), encoding="utf-8")
    return chart
