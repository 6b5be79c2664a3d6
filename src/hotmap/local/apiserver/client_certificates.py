"""The certificates of clients: asked for in the handshake, verified with each request.

kubernetes: apiserver/pkg/authentication/request/x509. A foreign certificate must not end the
handshake, for its sender is answered 401. Python's ssl can either verify a client's certificate or
not ask for it; so each connection gets a context that trusts what this one client sends, and
whether the plane's authority has issued it is looked at here.
"""

from __future__ import annotations

import hashlib
import ssl
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from hotmap.local.access import UserInfo, user_named

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cryptography import x509

__all__ = ["ClientAuthority", "ask_for_certificates"]

_EXTRA = "authentication.kubernetes.io/credential-id"
# A record's type, and those of two messages in it (RFC 8446, B.1 and B.3).
_HANDSHAKE, _CERTIFICATE, _FINISHED = 22, 11, 20
_TLS_1_3 = 0x0304
# X509_V_FLAG_NO_CHECK_TIME, which ssl does not name.
_NO_CHECK_TIME = 0x200000
# Certificates of which the issuer is remembered.
_REMEMBERED = 1000


def ask_for_certificates(make: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
    """Return a server's context that takes any certificate of a client; *make* makes its base."""
    context, plain = make(), make()
    context.verify_mode = ssl.CERT_OPTIONAL
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | ssl.VerifyFlags(_NO_CHECK_TIME)

    def on_message(connection: ssl.SSLObject, direction: str, version: int, *record: Any) -> None:
        content, message, data = record
        if (direction, content) != ("read", _HANDSHAKE):
            return
        if message not in (_CERTIFICATE, _FINISHED):
            return
        sent = _first_certificate(version, data) if message == _CERTIFICATE else b""
        trusting = plain
        if sent:
            trusting = make()
            trusting.load_verify_locations(cadata=sent)
        # It has no such function, so nothing is called for the records that follow.
        connection.context = trusting

    # The only place that shows a certificate before it is verified; ssl has it for debugging.
    context._msg_callback = on_message  # type: ignore[attr-defined]
    return context


def _first_certificate(version: int, message: bytes) -> bytes:
    """Return the certificate of the sender of a message, b"" where it has none."""
    body = message[4:]
    if version >= _TLS_1_3:
        body = body[1 + body[0] :]
    size = int.from_bytes(body[3:6])
    return body[6 : 6 + size]


class _Issued(NamedTuple):
    user: UserInfo | None
    begin: datetime
    end: datetime


class ClientAuthority:
    """Reads the user of a certificate; *certificate* is the path of the authority's PEM file."""

    def __init__(self, certificate: Path) -> None:
        self._certificate = certificate
        self._read = lru_cache(_REMEMBERED)(self._read_issued)

    def user(self, certificate: bytes) -> UserInfo | None:
        """Return the user in a certificate (DER); None if it has none.

        Raises:
            ValueError: it is not one of this authority for clients, or not at this time.
        """
        issued = self._read(certificate)
        if issued is None or not issued.begin <= datetime.now(UTC) <= issued.end:
            raise ValueError("x509: certificate is not valid")
        return issued.user

    def _read_issued(self, certificate: bytes) -> _Issued | None:
        from cryptography import x509
        from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

        authority = x509.load_pem_x509_certificate(self._certificate.read_bytes())
        try:
            found = x509.load_der_x509_certificate(certificate)
            found.verify_directly_issued_by(authority)
            if not _is_for_clients(found):
                return None
        except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
            return None
        user = _user(found, certificate)
        return _Issued(user, found.not_valid_before_utc, found.not_valid_after_utc)


def _is_for_clients(certificate: x509.Certificate) -> bool:
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    try:
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    allowed = {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE}
    return bool(allowed.intersection(usages))


def _user(certificate: x509.Certificate, encoded: bytes) -> UserInfo | None:
    """Return the user in a certificate (CommonNameUserConversion)."""
    from cryptography.x509.oid import NameOID

    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if not names or not names[-1].value:
        return None
    organizations = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    groups = (*(str(each.value) for each in organizations), *user_named("").groups)
    extra = (_EXTRA, (f"X509SHA256={hashlib.sha256(encoded).hexdigest()}",))
    return UserInfo(str(names[-1].value), tuple(dict.fromkeys(groups)), extra=(extra,))
