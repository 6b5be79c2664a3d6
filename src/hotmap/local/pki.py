"""The local cluster's certificates: a CA, a server certificate, and what signs tokens.

Made for each run, unless its state is kept: elliptic keys cost a few milliseconds, and what does
not outlive its cluster cannot leak later.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, NamedTuple

from hotmap.local.network import SLOTS, PlaneNetwork, kubernetes_address

if TYPE_CHECKING:
    from pathlib import Path

    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

# Names of the server; the last three are upstream's in-cluster names.
SERVER_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
)
SERVER_ADDRESSES = (
    "127.0.0.1",
    "::1",
    *(kubernetes_address(PlaneNetwork(slot)) for slot in range(SLOTS)),
)
# kubeadm's certificates live a year as well.
_VALID_DAYS = 365
# Certificates that were kept are recreated when less is left.
_RENEW_DAYS = 30


class ServerPKI(NamedTuple):
    """Paths of the PEM files; only the keys are secret."""

    ca_certificate: Path
    #: Signs the certificates that clients request.
    ca_key: Path
    server_certificate: Path
    server_key: Path
    #: Signs the tokens of service accounts.
    account_key: Path

    def server_context(self) -> ssl.SSLContext:
        """Make the TLS settings of the server."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server_certificate, self.server_key)
        return context


def keep_pki(directory: Path) -> ServerPKI:
    """Return the certificates below a directory; create missing and expiring ones."""
    from datetime import UTC, datetime, timedelta

    from cryptography import x509

    pki = _paths(directory)
    try:
        certificate = x509.load_pem_x509_certificate(pki.server_certificate.read_bytes())
        pki.server_context()
        pki.account_key.read_bytes()
        pki.ca_key.read_bytes()
    except (OSError, ValueError):
        return create_pki(directory)
    if certificate.not_valid_after_utc - datetime.now(UTC) < timedelta(days=_RENEW_DAYS):
        return create_pki(directory)
    return pki


def create_pki(directory: Path) -> ServerPKI:
    """Create a CA and a server certificate, and write them below a directory."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    ca_key, server_key = (
        ec.generate_private_key(ec.SECP256R1()),
        ec.generate_private_key(ec.SECP256R1()),
    )
    ca = _authority(ca_key)
    server = _server_certificate(server_key, ca, ca_key)
    pki = _paths(directory)
    pki.ca_certificate.write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    pki.server_certificate.write_bytes(server.public_bytes(serialization.Encoding.PEM))
    for path, key in (
        (pki.ca_key, ca_key),
        (pki.server_key, server_key),
        (pki.account_key, ec.generate_private_key(ec.SECP256R1())),
    ):
        path.touch(mode=0o600)
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
    return pki


def _paths(directory: Path) -> ServerPKI:
    names = ("ca.crt", "ca.key", "server.crt", "server.key", "sa.key")
    return ServerPKI(*(directory / name for name in names))


def _authority(key: EllipticCurvePrivateKey) -> x509.Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    name = _name("hotmap-local-ca")
    return (
        _unsigned(name, name, key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )


def _server_certificate(
    key: EllipticCurvePrivateKey, ca: x509.Certificate, ca_key: EllipticCurvePrivateKey
) -> x509.Certificate:
    from ipaddress import ip_address

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID

    names: list[x509.GeneralName] = [x509.DNSName(name) for name in SERVER_NAMES]
    names += [x509.IPAddress(ip_address(address)) for address in SERVER_ADDRESSES]
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    # OpenSSL's strict mode, the default of Python 3.13, insists on the key identifiers.
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    return (
        _unsigned(_name("kube-apiserver"), ca.subject, key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(usage, critical=False)
        .add_extension(authority, critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(ca_key, hashes.SHA256())
    )


def _unsigned(
    subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    from datetime import UTC, datetime, timedelta

    from cryptography import x509

    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # A little in the past, for clocks that disagree.
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=_VALID_DAYS))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _name(common_name: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=not signs_certificates,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
