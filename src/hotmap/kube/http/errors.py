"""What can keep a request from getting a complete response; each text says why, briefly."""

from __future__ import annotations

__all__ = ["CertificateError", "ConnectError", "HttpError", "ProxyError", "TLSError"]


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
