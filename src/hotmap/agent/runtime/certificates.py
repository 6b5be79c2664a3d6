"""Loads certificates for TLS. Imported only where it is used, since `ssl` takes memory."""

from __future__ import annotations

import errno
import ssl

from hotmap.core.errors import os_reason

__all__ = ["describe_certificate_error", "load_certificate"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def load_certificate(context: ssl.SSLContext, certificate: str, private_key: str) -> None:
    """Load a certificate and its private key, which may be in the same file.

    Raises:
        OSError: a file cannot be read, is not in PEM form or is encrypted, or they do not match.
    """
    context.load_cert_chain(certificate, private_key or None, _refuse_password)


def _refuse_password() -> NoReturn:
    # OpenSSL would ask for it on the terminal of the container, if it has one, and wait.
    raise OSError(errno.EACCES, "the private key is encrypted")


def describe_certificate_error(error: OSError) -> str:
    """Describe in some words why a certificate cannot be loaded."""
    if isinstance(error, ssl.SSLError):
        return error.reason.replace("_", " ").lower() if error.reason else "not in PEM form"
    return os_reason(error)
