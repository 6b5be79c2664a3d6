"""TLS on the port of the agent, without waiting. Imported only where it is configured."""

from __future__ import annotations

import socket
import ssl

from hotmap.agent.runtime.certificates import describe_certificate_error, load_certificate

__all__ = ["SecureSocket", "find_tls_error", "secure"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hotmap.agent.settings.settings import WebSettings

_CLIENT_AUTH = {
    "none": ssl.CERT_NONE,
    "optional": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}

_VERSIONS = {
    "TLS10": ssl.TLSVersion.TLSv1,
    "TLS11": ssl.TLSVersion.TLSv1_1,
    "TLS12": ssl.TLSVersion.TLSv1_2,
    "TLS13": ssl.TLSVersion.TLSv1_3,
}


class SecureSocket:
    """A connection with TLS that reads and writes as a non-blocking socket does."""

    def __init__(self, wrapped: ssl.SSLSocket) -> None:
        self._wrapped = wrapped
        self.family = wrapped.family

    def fileno(self) -> int:
        """Return the descriptor; -1 when it is closed."""
        return self._wrapped.fileno()

    def recv(self, size: int) -> bytes:
        """Read what has arrived.

        Raises:
            BlockingIOError: nothing has; the handshake may be under way.
            OSError: the connection is broken, or is not TLS.
        """
        try:
            data = self._wrapped.recv(size)
            while pending := self._wrapped.pending():  # no event would tell of these
                data += self._wrapped.recv(pending)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None
        return data

    def send(self, data: bytes) -> int:
        """Write as much as fits; raises as `recv` does."""
        try:
            return self._wrapped.send(data)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None

    def close(self) -> None:
        """Close the connection."""
        self._wrapped.close()


def find_tls_error(settings: WebSettings) -> str:
    """Return why no connection can be made with these files; "" when one can."""
    try:
        _make_context(settings)
    except OSError as error:
        places = (settings.certificate, settings.private_key, settings.client_ca)
        files = ", ".join(filter(None, places))
        return f"TLS cannot start with {files}: {describe_certificate_error(error)}"
    return ""


def secure(accepted: socket.socket, settings: WebSettings) -> SecureSocket:
    """Start TLS on a connection. Files are read each time, since certificates are renewed.

    Raises:
        OSError: a file cannot be read, or is not in PEM form.
    """
    context = _make_context(settings)
    wrapped = context.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False)
    return SecureSocket(wrapped)


def _make_context(settings: WebSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[settings.min_version]
    context.maximum_version = _VERSIONS[settings.max_version]
    load_certificate(context, settings.certificate, settings.private_key)
    context.verify_mode = _CLIENT_AUTH[settings.client_auth]
    if settings.client_ca:
        context.load_verify_locations(settings.client_ca)
    return context
