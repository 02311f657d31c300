"""Which existing clusters may be used, and how they are remembered."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.lab import external
from e2e.lab.errors import LabError


def kubeconfig(folder: Path, context: str, **cluster: str) -> Path:
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "c", "cluster": {"server": "https://127.0.0.1:1", **cluster}},
            {"name": "production", "cluster": {"server": "https://prod.example:6443"}},
        ],
        "users": [{"name": "u", "user": {"token": "t"}}, {"name": "root", "user": {"token": "production-token"}}],
        "contexts": [
            {"name": context, "context": {"cluster": "c", "user": "u"}},
            {"name": "production", "context": {"cluster": "production", "user": "root"}},
        ],
        "current-context": context,
    }
    path = folder / "theirs"
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.mark.parametrize("context", ["kind-dev", "k3d-x", "minikube", "docker-desktop"])
def test_local_test_clusters_are_admitted(tmp_path: Path, context: str) -> None:
    assert external.admit(kubeconfig(tmp_path, context), {})[0] == context


@pytest.mark.parametrize("context", ["production", "mykind-dev", "minikube2", ""])
def test_any_other_context_is_refused_with_the_variable_that_would_allow_it(tmp_path: Path, context: str) -> None:
    with pytest.raises(LabError, match="PD_ALLOWED_CONTEXTS"):
        external.admit(kubeconfig(tmp_path, context), {})


def test_a_context_named_on_purpose_is_admitted(tmp_path: Path) -> None:
    source = kubeconfig(tmp_path, "staging")
    assert external.admit(source, {"PD_ALLOWED_CONTEXTS": "other, staging"})[0] == "staging"


def test_the_copy_holds_the_current_context_alone(tmp_path: Path) -> None:
    _, content = external.admit(kubeconfig(tmp_path, "kind-dev"), {})
    assert b"production" not in content
    assert yaml.safe_load(content)["current-context"] == "kind-dev"


def test_certificates_beside_the_original_are_copied_in(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(b"PEM")
    _, content = external.admit(kubeconfig(tmp_path, "kind-dev", **{"certificate-authority": "ca.pem"}), {})
    cluster = yaml.safe_load(content)["clusters"][0]["cluster"]
    assert base64.b64decode(cluster["certificate-authority-data"]) == b"PEM"
    assert "certificate-authority" not in cluster


def test_an_exported_kubeconfig_is_not_a_choice_but_the_option_and_the_variable_are() -> None:
    assert external.chosen(None, {"KUBECONFIG": "/home/me/.kube/config"}) is None
    assert external.chosen(None, {"PD_LAB_KUBECONFIG": "/home/me/kind"}) == Path("/home/me/kind")
    assert external.chosen(Path("/x"), {"PD_LAB_KUBECONFIG": "/home/me/kind"}) == Path("/x")


def test_a_cluster_is_remembered_until_it_is_forgotten(tmp_path: Path) -> None:
    directory = tmp_path / "lab"
    cluster = external.adopt(directory, kubeconfig(tmp_path, "kind-dev"), {})
    assert external.load(directory) == cluster
    assert cluster.environment({"PATH": "/bin"}) == {"PATH": "/bin", "KUBECONFIG": str(directory / "kubeconfig")}
    external.forget(cluster)
    assert external.load(directory) is None
    assert not directory.exists()


def test_a_lab_of_our_own_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "lab.json").write_text("{}")
    with pytest.raises(LabError, match="lab of its own"):
        external.adopt(tmp_path / "lab", kubeconfig(tmp_path, "kind-dev"), {})


def test_a_file_that_is_no_kubeconfig_is_named(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("just text")
    with pytest.raises(LabError, match=r"notes\.txt is not a kubeconfig"):
        external.admit(path, {})
