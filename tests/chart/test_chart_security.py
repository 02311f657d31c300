"""The operator's pod passes the Pod Security level `restricted`, whatever the values."""

from __future__ import annotations

import pytest

from tests.chart.chart import VARIANTS, Chart, Object, only, variant

_VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}


def violations(pod: Object) -> list[str]:
    """What keeps a pod spec from the level `restricted`, and from a read-only root file system."""
    found = [field for field in ("hostNetwork", "hostPID", "hostIPC") if pod.get(field)]
    security = pod.get("securityContext", {})
    for volume in pod.get("volumes", []):
        found += [f"volume of type {kind}" for kind in set(volume) - {"name"} - _VOLUMES]
    for container in pod["containers"] + pod.get("initContainers", []):
        merged = security | container.get("securityContext", {})
        capabilities = merged.get("capabilities", {})
        checks = {
            "privileged": merged.get("privileged", False),
            "may gain privileges": merged.get("allowPrivilegeEscalation", True),
            "keeps capabilities": capabilities.get("drop") != ["ALL"],
            "adds capabilities": set(capabilities.get("add", [])) - {"NET_BIND_SERVICE"},
            "may run as root": merged.get("runAsNonRoot") is not True or merged.get("runAsUser") == 0,
            "has no seccomp profile": merged.get("seccompProfile", {}).get("type")
            not in {"RuntimeDefault", "Localhost"},
            "host ports": [port for port in container.get("ports", []) if "hostPort" in port],
            "has a writable root": merged.get("readOnlyRootFilesystem") is not True,
        }
        found += [f"container {container['name']}: {problem}" for problem, present in checks.items() if present]
    return found


@pytest.mark.parametrize("name", VARIANTS)
def test_the_pod_is_restricted(chart: Chart, name: str) -> None:
    assert violations(_pod(chart, name)) == []


def test_the_rules_find_what_they_are_for() -> None:
    careless = {"hostNetwork": True, "volumes": [{"name": "root", "hostPath": {}}], "containers": [{"name": "c"}]}
    assert violations(careless) == [
        "hostNetwork",
        "volume of type hostPath",
        "container c: may gain privileges",
        "container c: keeps capabilities",
        "container c: may run as root",
        "container c: has no seccomp profile",
        "container c: has a writable root",
    ]


def test_the_user_is_the_images_unless_the_platform_assigns_one(chart: Chart) -> None:
    assert _pod(chart, "default")["securityContext"]["runAsUser"] == 65532
    assert "runAsUser" not in _pod(chart, "all-on")["securityContext"]


@pytest.mark.parametrize("name", VARIANTS)
def test_memory_is_bounded_and_reserved(chart: Chart, name: str) -> None:
    (container,) = _pod(chart, name)["containers"]
    assert set(container["resources"]["requests"]) == {"cpu", "memory"}
    assert "memory" in container["resources"]["limits"]


@pytest.mark.parametrize("name", VARIANTS)
def test_the_token_is_mounted_only_in_the_operators_pod(chart: Chart, name: str) -> None:
    account = only(chart.objects(variant(name)), "ServiceAccount")
    assert account["automountServiceAccountToken"] is False
    pod = _pod(chart, name)
    assert pod["automountServiceAccountToken"] is True
    assert pod["serviceAccountName"] == account["metadata"]["name"]


def _pod(chart: Chart, name: str) -> Object:
    deployment = only(chart.objects(variant(name)), "Deployment")
    return dict(deployment["spec"]["template"]["spec"])
