"""What can keep a request from getting a complete response; each text says why, briefly."""

from __future__ import annotations

import ssl

__all__ = [
    "CertificateError",
    "ConnectError",
    "HttpError",
    "ProxyError",
    "TLSError",
    "describe_tls_failure",
]


class HttpError(Exception):
    """Raised when a connection ends before the response is complete, or it is not HTTP."""


class ConnectError(HttpError):
    """Raised when there is no connection: nothing of the request was sent."""


class ProxyError(ConnectError):
    """Raised when an HTTP proxy cannot be reached, or refuses."""


class TLSError(ConnectError):
    """Raised when the two sides cannot agree on a TLS connection."""


class CertificateError(TLSError):
    """Raised when the server's certificate cannot be trusted."""


def describe_tls_failure(error: ssl.SSLError) -> str:
    """Describe why a TLS connection failed or ended, without OpenSSL's file names."""
    reason = (error.reason or "without a reason").replace("_", " ").lower()
    return f"TLS failed, {reason}"
