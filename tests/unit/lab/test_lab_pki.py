"""Certificates and tokens."""

from __future__ import annotations

import csv
import stat
from dataclasses import replace
from pathlib import Path

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from e2e.lab import configs, kubeconfig, pki
from e2e.lab.spec import LabSpec, Profile


def spec_in(folder: Path, nodes: int = 1) -> LabSpec:
    return LabSpec(folder / "lab", Profile.FULL, nodes)


def certificate(spec: LabSpec, name: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate((spec.pki / f"{name}.crt").read_bytes())


def test_leaves_carry_the_key_ids_that_strict_verification_asks_for(tmp_path: Path) -> None:
    spec = spec_in(tmp_path)
    pki.ensure(spec)
    authority = certificate(spec, "ca")
    authority_id = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    for leaf in pki.leaves(spec):
        issued = certificate(spec, leaf.file)
        issued.verify_directly_issued_by(authority)
        key_id = issued.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
        assert key_id == authority_id
        assert issued.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)


def test_the_api_server_s_certificate_is_good_inside_the_cluster_on_the_nodes_and_on_the_host(tmp_path: Path) -> None:
    spec = spec_in(tmp_path)
    pki.ensure(spec)
    names = certificate(spec, "apiserver").extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "kubernetes.default.svc" in names.get_values_for_type(x509.DNSName)
    addresses = {str(address) for address in names.get_values_for_type(x509.IPAddress)}
    assert addresses == {"127.0.0.1", "10.96.0.1", "10.90.0.1"}


def test_the_api_server_meets_kubelets_with_a_client_certificate(tmp_path: Path) -> None:
    spec = spec_in(tmp_path)
    pki.ensure(spec)
    usage = certificate(spec, "apiserver-kubelet").extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]


def test_a_second_run_keeps_every_key_and_token_and_adds_what_new_nodes_need(tmp_path: Path) -> None:
    spec = spec_in(tmp_path)
    before = pki.ensure(spec)
    files = {path: path.read_bytes() for path in spec.pki.iterdir() if path.name != "tokens.csv"}
    after = pki.ensure(replace(spec, nodes=2))
    assert before.items() <= after.items()
    assert all(path.read_bytes() == content for path, content in files.items())
    assert (spec.pki / "kubelet-1.crt").exists()


def test_only_the_owner_may_read_keys_tokens_and_kubeconfigs(tmp_path: Path) -> None:
    spec = spec_in(tmp_path)
    tokens = pki.ensure(spec)
    configs.write({}, configs.kubeconfigs(spec, b"authority", tokens))
    secret = [*spec.pki.glob("*.key"), spec.pki / "tokens.csv", spec.kubeconfig, *spec.config.glob("*.kubeconfig")]
    assert len(secret) > 8
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in secret)


def test_tokens_name_user_and_groups_as_the_api_server_reads_them(tmp_path: Path) -> None:
    spec = spec_in(tmp_path)
    tokens = pki.ensure(spec)
    with open(spec.pki / "tokens.csv", newline="", encoding="ascii") as lines:
        rows = {row[1]: row for row in csv.reader(lines)}
    assert rows["admin"] == [tokens["admin"], "admin", "admin", "system:masters"]
    assert rows["system:node:node-0"][3] == "system:nodes"
    assert rows["prometheus"][3] == ""


def test_a_kubeconfig_is_self_contained_and_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_bytes(kubeconfig.render("pd-lab-x", "admin", "https://127.0.0.1:20003", b"PEM", "secret"))
    access = kubeconfig.read(path)
    assert (access.host, access.port, access.authority, access.token) == ("127.0.0.1", 20003, "PEM", "secret")
