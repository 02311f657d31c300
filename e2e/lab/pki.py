"""Certificates, service account keys and tokens of a lab.

Servers show certificates; clients show a token from a file, except the API server towards kubelets, which shows a
certificate. Every certificate has subject and authority key ids: Python 3.13 and later refuse one without them.
"""

from __future__ import annotations

import csv
import datetime
import ipaddress
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from e2e.lab.files import write_private, write_public
from e2e.lab.spec import (
    CLUSTER_DOMAIN,
    CONTROL_PLANE_IP,
    KUBERNETES_SERVICE_IP,
    LabSpec,
    node_ip,
    node_name,
)

VALIDITY = datetime.timedelta(days=3650)
CLOCK_SKEW = datetime.timedelta(hours=1)

ADMIN = "admin"
# user -> groups of every client that is not a kubelet
USERS: dict[str, tuple[str, ...]] = {
    ADMIN: ("system:masters",),
    "system:kube-controller-manager": (),
    "system:kube-scheduler": (),
    "system:kube-proxy": (),
    "kwok": ("system:masters",),
    "coredns": (),
    "prometheus": (),
}


@dataclass(frozen=True, slots=True)
class Leaf:
    """One certificate to issue, stored as `<file>.crt` and `<file>.key`."""

    file: str
    common_name: str
    organization: str = ""
    server: bool = False
    client: bool = False
    names: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()


def leaves(spec: LabSpec) -> list[Leaf]:
    """Every certificate the lab needs, the authority's own left out."""
    service = "kubernetes.default.svc"
    api_names = ("kubernetes", "kubernetes.default", service, f"{service}.{CLUSTER_DOMAIN}")
    api = Leaf(
        file="apiserver",
        common_name="kube-apiserver",
        server=True,
        names=(*api_names, "localhost"),
        addresses=("127.0.0.1", KUBERNETES_SERVICE_IP, CONTROL_PLANE_IP),
    )
    if not spec.full:
        return [api]
    kubelets = [
        Leaf(
            file=f"kubelet-{node}",
            common_name=f"system:node:{node_name(node)}",
            organization="system:nodes",
            server=True,
            names=(node_name(node),),
            addresses=(node_ip(node),),
        )
        for node in spec.node_indexes
    ]
    to_kubelets = Leaf(
        file="apiserver-kubelet",
        common_name="kube-apiserver-kubelet-client",
        organization="system:masters",
        client=True,
    )
    return [api, to_kubelets, *kubelets]


def users(spec: LabSpec) -> dict[str, tuple[str, ...]]:
    """Every user with a token, and its groups."""
    kubelets = {f"system:node:{node_name(node)}": ("system:nodes",) for node in spec.node_indexes}
    return USERS | kubelets


def ensure(spec: LabSpec) -> dict[str, str]:
    """Creates what is missing in `spec.pki` and returns each user's token. Existing keys and tokens are kept."""
    folder = spec.pki
    folder.mkdir(parents=True, exist_ok=True)
    authority_key, authority = _authority(folder)
    for leaf in leaves(spec):
        if not (folder / f"{leaf.file}.crt").exists():
            _issue(folder, leaf, authority_key, authority)
    if not (folder / "service-account.pub").exists():
        _service_account_keys(folder)
    return _tokens(folder / "tokens.csv", users(spec))


def read_tokens(path: Path) -> dict[str, str]:
    """Tokens by user; empty when the file does not exist."""
    if not path.exists():
        return {}
    with open(path, newline="", encoding="ascii") as lines:
        return {row[1]: row[0] for row in csv.reader(lines)}


def _tokens(path: Path, wanted: dict[str, tuple[str, ...]]) -> dict[str, str]:
    known = read_tokens(path)
    tokens = {user: known.get(user) or secrets.token_hex(16) for user in wanted}
    rows = [f'{tokens[user]},{user},{user},"{",".join(groups)}"\n' for user, groups in wanted.items()]
    write_private(path, "".join(rows).encode("ascii"))
    return tokens


def _authority(folder: Path) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key_file, certificate_file = folder / "ca.key", folder / "ca.crt"
    if certificate_file.exists():
        key = serialization.load_pem_private_key(key_file.read_bytes(), password=None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return key, x509.load_pem_x509_certificate(certificate_file.read_bytes())
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "pd-lab")])
    certificate = (
        _builder(name, name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_key_usage(authority=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    write_private(key_file, _pem(key))
    write_public(certificate_file, certificate.public_bytes(serialization.Encoding.PEM))
    return key, certificate


def _issue(folder: Path, leaf: Leaf, authority_key: ec.EllipticCurvePrivateKey, authority: x509.Certificate) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, leaf.common_name)]
    if leaf.organization:
        attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, leaf.organization))
    usages = [ExtendedKeyUsageOID.SERVER_AUTH] if leaf.server else []
    usages += [ExtendedKeyUsageOID.CLIENT_AUTH] if leaf.client else []
    authority_id = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    builder = (
        _builder(x509.Name(attributes), authority.subject, key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(authority_id), critical=False)
    )
    if leaf.names or leaf.addresses:
        builder = builder.add_extension(x509.SubjectAlternativeName(_alternative_names(leaf)), critical=False)
    # the key first: the certificate's presence says that the pair is whole
    write_private(folder / f"{leaf.file}.key", _pem(key))
    certificate = builder.sign(authority_key, hashes.SHA256())
    write_public(folder / f"{leaf.file}.crt", certificate.public_bytes(serialization.Encoding.PEM))


def _alternative_names(leaf: Leaf) -> Iterable[x509.GeneralName]:
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in leaf.names]
    return names + [x509.IPAddress(ipaddress.ip_address(address)) for address in leaf.addresses]


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + VALIDITY)
    )


def _key_usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _service_account_keys(folder: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    write_private(folder / "service-account.key", _pem(key))
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    write_public(folder / "service-account.pub", public)


def _pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
