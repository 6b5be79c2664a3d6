"""Certificates made on the spot by an authority that lives as long as a test session."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Pair(NamedTuple):
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """A certificate authority that signs whatever it is asked to."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._builder(self._name, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.pem = _pem(builder.sign(self._key, hashes.SHA256()))

    def issue(self, name: str, *, address: str | None = None, expired: bool = False) -> Pair:
        """Make a certificate for a DNS name, and for an IP address if one is given."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        names: list[x509.GeneralName] = [x509.DNSName(name)]
        if address:
            names.append(x509.IPAddress(ipaddress.ip_address(address)))
        builder = self._builder(subject, key, expired=expired).add_extension(
            x509.SubjectAlternativeName(names), critical=False
        )
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return Pair(_pem(builder.sign(self._key, hashes.SHA256())), private)

    def server_context(self, directory: Path, name: str, address: str) -> ssl.SSLContext:
        """Make the TLS settings of a server; `directory` takes its certificate and key."""
        pair = self.issue(name, address=address)
        pem = directory / "server.pem"
        pem.write_bytes(pair.certificate + pair.key)
        context = as_lenient_as_go(ssl.create_default_context(ssl.Purpose.CLIENT_AUTH))
        context.load_cert_chain(pem)
        return context

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, expired: bool = False
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=2 * expired)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
        )


def as_lenient_as_go(context: ssl.SSLContext) -> ssl.SSLContext:
    """Accept certificates without the extensions that Python requires since 3.13."""
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def encrypted(key: bytes) -> bytes:
    """Encrypt a private key with a password."""
    return serialization.load_pem_private_key(key, None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"password"),
    )
