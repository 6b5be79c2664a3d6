"""Certificates, tokens and kubeconfigs of one cluster, made once per folder.

One certificate authority signs everything. People and components authenticate by random static
tokens (kube-apiserver: --token-auth-file), which keeps kubeconfigs readable.
"""

import base64
import datetime
import ipaddress
import json
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from tests.cluster.layout import API_SERVICE_ADDRESS, NODE_ADDRESS, NODE_NAME, Layout

# Kubeconfig → user name and group, as the API server's authorizers expect them
# (kubernetes: plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go).
USERS = {
    "admin": ("admin", "system:masters"),
    "kube-controller-manager": ("system:kube-controller-manager", ""),
    "kube-scheduler": ("system:kube-scheduler", ""),
    "kube-proxy": ("system:kube-proxy", ""),
    "kubelet": (f"system:node:{NODE_NAME}", "system:nodes"),
}
SERVER_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
SERVER_ADDRESSES = ("127.0.0.1", API_SERVICE_ADDRESS, NODE_ADDRESS)
LIFETIME = datetime.timedelta(days=3650)


def make(layout: Layout) -> None:
    """Make the keys, certificates and tokens of a cluster unless they exist, and kubeconfigs.

    Safe to interrupt: the folder of keys gets its name when it is complete.
    """
    if not layout.keys.exists():
        partial = layout.folder / "keys.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        _make_keys(partial)
        partial.rename(layout.keys)
    for user in USERS:
        write_kubeconfig(layout, user, server=layout.server)


def token(layout: Layout, user: str) -> str:
    """Return the bearer token of one of the `USERS`."""
    tokens: dict[str, str] = json.loads((layout.keys / "tokens.json").read_text())
    return tokens[user]


def write_kubeconfig(layout: Layout, user: str, *, server: str, to: Path | None = None) -> Path:
    """Write the kubeconfig of one of the `USERS`, by which it reaches the API at `server`.

    Written only when it changes. `server` may be a fault proxy; `to` defaults to the file that
    the user's component reads.
    """
    text = json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "testbed",
            "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": user}}],
            "clusters": [
                {
                    "name": "testbed",
                    "cluster": {
                        "server": server,
                        "certificate-authority-data": base64.b64encode(
                            (layout.keys / "ca.crt").read_bytes()
                        ).decode(),
                    },
                }
            ],
            "users": [{"name": user, "user": {"token": token(layout, user)}}],
        },
        indent=1,
    )
    path = to or layout.kubeconfig_of(user)
    if not path.exists() or path.read_text() != text:
        _write_private(path, text.encode())
    return path


class Authority:
    """A certificate authority that writes what it signs into one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("kubernetes-ca", None)
        usage = x509.KeyUsage(
            digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False,
            key_encipherment=False, data_encipherment=False, key_agreement=False,
            encipher_only=False, decipher_only=False,
        )  # fmt: skip
        builder = self._builder(self._name, self._key).add_extension(usage, critical=True)
        self._certificate = builder.add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        ).sign(self._key, hashes.SHA256())
        self._write("ca", self._key, self._certificate)

    def sign_server(self, file: str, name: str, names: Sequence[str | bytes]) -> None:
        """Write a server certificate for host names and addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        alternatives: list[x509.GeneralName] = []
        for each in names:
            try:
                alternatives.append(x509.IPAddress(ipaddress.ip_address(each)))
            except ValueError:
                alternatives.append(x509.DNSName(str(each)))
        builder = self._builder(_name(name, None), key).add_extension(
            x509.SubjectAlternativeName(alternatives), critical=False
        )
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        signed = builder.add_extension(usage, critical=False).sign(self._key, hashes.SHA256())
        self._write(file, key, signed)

    def sign_client(self, file: str, name: str, group: str | None = None) -> None:
        """Write a client certificate for a user, in a group if one is given."""
        key = ec.generate_private_key(ec.SECP256R1())
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        builder = self._builder(_name(name, group), key).add_extension(usage, critical=False)
        self._write(file, key, builder.sign(self._key, hashes.SHA256()))

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + LIFETIME)
        )

    def _write(
        self, file: str, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate
    ) -> None:
        _write_private(self._folder / f"{file}.key", private_bytes(key))
        pem = certificate.public_bytes(serialization.Encoding.PEM)
        (self._folder / f"{file}.crt").write_bytes(pem)


def private_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a private key as unencrypted PEM, in the form that Kubernetes reads."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _make_keys(folder: Path) -> None:
    authority = Authority(folder)
    authority.sign_server("apiserver", "kube-apiserver", [*SERVER_NAMES, *SERVER_ADDRESSES])
    authority.sign_client("kubelet-client", "kube-apiserver-kubelet-client", "system:masters")
    authority.sign_client("front-proxy", "front-proxy-client")
    accounts = ec.generate_private_key(ec.SECP256R1())
    _write_private(folder / "accounts.key", private_bytes(accounts))
    (folder / "accounts.pub").write_bytes(
        accounts.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    tokens = {file: secrets.token_hex(16) for file in USERS}
    _write_private(folder / "tokens.json", json.dumps(tokens).encode())
    lines = (
        f"{tokens[file]},{name},{name}" + (f",{group}" if group else "") + "\n"
        for file, (name, group) in USERS.items()
    )
    _write_private(folder / "tokens.csv", "".join(lines).encode())


def _name(common: str, group: str | None) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, common)]
    if group is not None:
        parts.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
    return x509.Name(parts)


def _write_private(path: Path, content: bytes) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.touch(mode=0o600)
    partial.write_bytes(content)
    partial.rename(path)
