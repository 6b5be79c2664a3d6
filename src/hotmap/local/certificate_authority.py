"""Certificate signing requests, and the certificates that the plane's authority makes of them.

kubernetes: pkg/apis/certificates/helpers.go, pkg/controller/certificates/authority.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime
    from pathlib import Path

    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

__all__ = [
    "USAGES",
    "CertificateAuthority",
    "CertificateRequest",
    "certificate_error",
    "parse_request",
]

_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----\s(.*?)-----END \1-----", re.DOTALL)
# Bits of the extension "key usage", by the names of cryptography's arguments.
_KEY_USAGES = {
    "signing": "digital_signature",
    "digital signature": "digital_signature",
    "content commitment": "content_commitment",
    "key encipherment": "key_encipherment",
    "key agreement": "key_agreement",
    "data encipherment": "data_encipherment",
    "cert sign": "key_cert_sign",
    "crl sign": "crl_sign",
    "encipher only": "encipher_only",
    "decipher only": "decipher_only",
}
# Extended usages, in the order in which Go writes them.
_EXTENDED_USAGES = {
    "any": "2.5.29.37.0",
    "server auth": "1.3.6.1.5.5.7.3.1",
    "client auth": "1.3.6.1.5.5.7.3.2",
    "code signing": "1.3.6.1.5.5.7.3.3",
    "email protection": "1.3.6.1.5.5.7.3.4",
    "s/mime": "1.3.6.1.5.5.7.3.4",
    "ipsec end system": "1.3.6.1.5.5.7.3.5",
    "ipsec tunnel": "1.3.6.1.5.5.7.3.6",
    "ipsec user": "1.3.6.1.5.5.7.3.7",
    "timestamping": "1.3.6.1.5.5.7.3.8",
    "ocsp signing": "1.3.6.1.5.5.7.3.9",
    "microsoft sgc": "1.3.6.1.4.1.311.10.3.3",
    "netscape sgc": "2.16.840.1.113730.4.1",
}
#: What a certificate may be for.
USAGES = tuple(sorted({*_KEY_USAGES, *_EXTENDED_USAGES}))


class CertificateRequest(NamedTuple):
    """What a request wants to be certified."""

    common_name: str
    organizations: tuple[str, ...]
    dns_names: tuple[str, ...]
    addresses: tuple[str, ...]
    emails: tuple[str, ...]
    uris: tuple[str, ...]
    #: Why the request is not signed by its key; "" if it is.
    signature_error: str


def parse_request(pem: bytes) -> CertificateRequest:
    """Read a request (PKCS #10 in PEM).

    Raises:
        ValueError: it is malformed; the text is upstream's where there is one.
    """
    from cryptography import exceptions, x509

    try:
        return _read_request(_load_request(pem))
    except (
        TypeError,
        exceptions.UnsupportedAlgorithm,
        x509.DuplicateExtension,
        x509.InvalidVersion,
        x509.UnsupportedGeneralNameType,
    ) as error:
        raise ValueError(f"x509: {error}") from None


def _read_request(request: x509.CertificateSigningRequest) -> CertificateRequest:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    try:
        names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        names = x509.SubjectAlternativeName([])
    common = [
        str(each.value) for each in request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    ]
    organizations = request.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return CertificateRequest(
        common[-1] if common else "",
        tuple(str(each.value) for each in organizations),
        tuple(names.get_values_for_type(x509.DNSName)),
        tuple(map(str, names.get_values_for_type(x509.IPAddress))),
        tuple(names.get_values_for_type(x509.RFC822Name)),
        tuple(names.get_values_for_type(x509.UniformResourceIdentifier)),
        "" if request.is_signature_valid else _signature_error(request),
    )


def _load_request(pem: bytes) -> x509.CertificateSigningRequest:
    from cryptography import x509

    found = _BLOCK.search(pem)
    if found is None or found[1] != b"CERTIFICATE REQUEST":
        raise ValueError("PEM block type must be CERTIFICATE REQUEST")
    try:
        return x509.load_der_x509_csr(base64.b64decode(found[2]))
    except (ValueError, binascii.Error) as error:
        raise ValueError(f"asn1: structure error: {error}") from None


def _signature_error(request: x509.CertificateSigningRequest) -> str:
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    key = request.public_key()
    if isinstance(key, rsa.RSAPublicKey):
        return "crypto/rsa: verification error"
    algorithm = "ECDSA" if isinstance(key, ec.EllipticCurvePublicKey) else "Ed25519"
    return f"x509: {algorithm} verification failure"


def certificate_error(pem: bytes) -> str:
    """Return the error of a chain of certificates in PEM; "" for none."""
    from cryptography import x509

    blocks = list(_BLOCK.finditer(pem))
    for block in blocks:
        if block[1] != b"CERTIFICATE":
            return f'only CERTIFICATE PEM blocks are allowed, found "{block[1].decode()}"'
        if b":" in block[2]:
            return "no PEM block headers are permitted"
        try:
            x509.load_der_x509_certificate(base64.b64decode(block[2]))
        except (ValueError, binascii.Error):
            return "x509: malformed certificate"
    return "" if blocks or not pem else "must contain at least one CERTIFICATE PEM block"


class CertificateAuthority:
    """Signs requests; *certificate* and *key* are the paths of the authority's PEM files."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._certificate = certificate
        self._key = key
        self._loaded: tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None = None

    def sign(self, pem: bytes, usages: Collection[str], *, begin: datetime, end: datetime) -> str:
        """Make the certificate of a request, in PEM; it ends with the authority at the latest.

        The subject and the alternative names are those of the request, its other extensions are
        left out (authority: PermissiveSigningPolicy).
        """
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization

        authority, key = self._load()
        request = _load_request(pem)
        builder = (
            x509.CertificateBuilder()
            .subject_name(request.subject)
            .issuer_name(authority.subject)
            .public_key(request.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(min(end, authority.not_valid_after_utc))
        )
        bits = {_KEY_USAGES[usage] for usage in usages if usage in _KEY_USAGES}
        if bits:
            builder = builder.add_extension(_key_usage(bits), critical=True)
        extended = {number for usage, number in _EXTENDED_USAGES.items() if usage in usages}
        if extended:
            numbers = dict.fromkeys(n for n in _EXTENDED_USAGES.values() if n in extended)
            identifiers = [x509.ObjectIdentifier(number) for number in numbers]
            builder = builder.add_extension(x509.ExtendedKeyUsage(identifiers), critical=False)
        constraints = x509.BasicConstraints(ca=False, path_length=None)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
        builder = builder.add_extension(constraints, critical=True)
        builder = builder.add_extension(issuer, critical=False)
        try:
            names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        except x509.ExtensionNotFound:
            pass
        else:
            builder = builder.add_extension(names.value, critical=False)
        signed = builder.sign(key, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.PEM).decode()

    def _load(self) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
        from cryptography import x509
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        if self._loaded is None:
            key = serialization.load_pem_private_key(self._key.read_bytes(), None)
            assert isinstance(key, ec.EllipticCurvePrivateKey)
            certificate = x509.load_pem_x509_certificate(self._certificate.read_bytes())
            self._loaded = certificate, key
        return self._loaded


def _key_usage(bits: set[str]) -> x509.KeyUsage:
    from cryptography import x509

    # Both mean something beside the agreement of keys only (RFC 5280, 4.2.1.3).
    if "key_agreement" not in bits:
        bits = bits - {"encipher_only", "decipher_only"}
    return x509.KeyUsage(**{name: name in bits for name in _KEY_USAGES.values()})
