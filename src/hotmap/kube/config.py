"""The address of the API server and the credentials for it; the in-cluster configuration.

Reads files and the environment, sends nothing (client-go: rest.InClusterConfig). Secrets stay
inside `ClusterConfig`: no text made here shows one. Kubeconfig files are read in `kubeconfig`.
"""

from __future__ import annotations

import logging
import os
import ssl
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from hotmap.core.errors import SettingsError, os_reason
from hotmap.kube.log_throttle import LogThrottle

__all__ = [
    "TLS",
    "BearerToken",
    "ClusterConfig",
    "Credentials",
    "TokenFile",
    "error_text",
    "in_cluster_config",
    "is_token",
    "read_file",
]

#: Where a pod finds its service account (client-go: rest/config.go, InClusterConfig).
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

#: Seconds after which a token file is read again; projected tokens are renewed at 80 % of their
#: life, so a minute is early enough (client-go: transport/token_source.go).
TOKEN_PERIOD = 60.0

#: MiB of a kubeconfig, certificate, key or token; a pipe or a device may never end.
_LARGEST_FILE = 16

_log = logging.getLogger(__name__)


# -- credentials -----------------------------------------------------------------------------


class Credentials:
    """The credentials of a request; this one has none."""

    async def prepare(self) -> None:
        """Get the credentials where that takes time; called before each request.

        Raises:
            SettingsError: there are none.
        """

    def authorization(self) -> str:
        """Return the Authorization header's value, "" for none."""
        return ""

    def client_certificate(self) -> tuple[bytes, bytes] | None:
        """Return a certificate chain and its key as PEM; None: the ones in the TLS settings."""
        return None

    async def renew(self, refused: str) -> bool:
        """Get newer credentials after a 401; return True if they differ from the refused ones.

        `refused` is what `authorization` returned for the refused request: another call may have
        renewed them since.
        """
        return False


class BearerToken(Credentials):
    """A token that never changes; "" for none."""

    def __init__(self, token: str = "") -> None:
        self._token = token

    def authorization(self) -> str:
        return f"Bearer {self._token}" if self._token else ""


def is_token(text: str) -> bool:
    """Return whether a text can be sent as a token: one word of visible ASCII (RFC 6750)."""
    return all("!" <= sign <= "~" for sign in text)


class TokenFile(Credentials):
    """A token file that is renewed by others, read again every minute and after a 401.

    If the file cannot be read later, the last token stays in use, since the server decides whether
    it is still valid (client-go: transport/token_source.go).
    """

    def __init__(self, path: Path, *, fallback: str = "") -> None:
        self._path = path
        self._token = fallback
        self._read_at = float("-inf")
        self._log_throttle = LogThrottle()

    def authorization(self) -> str:
        """Return the header's value.

        Raises:
            SettingsError: the file cannot be read and no token was read before.
        """
        if time.monotonic() - self._read_at >= TOKEN_PERIOD:
            self._read()
        return f"Bearer {self._token}"

    async def renew(self, refused: str) -> bool:
        self._read()
        return self.authorization() != refused

    def _read(self) -> None:
        problem = "it is empty"
        try:
            token = _read_bounded(self._path).decode("ascii").strip()
        except (OSError, ValueError) as error:
            token, problem = "", error_text(error)
        if token and not is_token(token):
            token, problem = "", "it contains white space"
        if token:
            self._token = token
            self._read_at = time.monotonic()
            self._log_throttle.end("token")
        elif self._token:
            self._read_at = time.monotonic()  # a minute until the next attempt
            # While the last token is refused, each request reads the file again.
            if self._log_throttle.should_log("token", problem, now=self._read_at):
                _log.warning(
                    "token file %s cannot be used (%s); using the last token",
                    self._path,
                    problem,
                )
        else:
            raise SettingsError(f"token file {self._path} cannot be used: {problem}")


# -- TLS -------------------------------------------------------------------------------------


class TLS(NamedTuple):
    """Settings of a TLS connection; PEM data, already read from its files."""

    #: certificates to trust; None trusts those of the system
    ca: bytes | None = None
    #: client certificate chain and its key, both or neither
    certificate: bytes | None = None
    key: bytes | None = None
    #: trust any server; only for experiments
    insecure: bool = False
    #: the name expected in the server's certificate, "" for that of the URL
    server_name: str = ""

    def __repr__(self) -> str:
        return f"TLS(server_name={self.server_name!r}, insecure={self.insecure}, …)"


class ClusterConfig(NamedTuple):
    """How to reach one API server, and as which user."""

    #: URL without a trailing slash; may have a path
    server: str
    #: the source of these settings, for error messages, e.g. "kubeconfig /x, context y"
    origin: str
    credentials: Credentials
    tls: TLS = TLS()
    #: the default namespace
    namespace: str = "default"
    #: URL of an HTTP or SOCKS proxy, "" for none; may hold a password
    proxy: str = ""
    #: file of the trusted certificates if it may change: it is read again
    ca_file: Path | None = None
    #: files of the client certificate and its key, in the same case
    certificate_files: tuple[Path, Path] | None = None
    #: impersonation headers, in order; a name may repeat
    impersonate: tuple[tuple[str, str], ...] = ()

    def with_current_ca(self) -> ClusterConfig:
        """Return these settings with the current content of the CA file; self if it is unchanged.

        Raises:
            SettingsError: the file cannot be read, or holds no certificate.
        """
        if self.ca_file is None or self.tls.insecure:
            return self
        ca = read_file(self.ca_file, "certificate authority")
        if self.tls.ca and not ca.strip():  # without any, those of the system would be trusted
            raise SettingsError(f"certificate authority {self.ca_file} cannot be used: it is empty")
        return self._with_tls(self.tls._replace(ca=ca))

    def with_current_certificate(self) -> ClusterConfig:
        """Do the same for the files of the client certificate and its key.

        Raises:
            SettingsError: one cannot be read, or they do not belong together.
        """
        if self.certificate_files is None:
            return self
        certificate, key = self.certificate_files
        return self._with_tls(
            self.tls._replace(
                certificate=read_file(certificate, "client certificate"),
                key=read_file(key, "client key"),
            )
        )

    def _with_tls(self, tls: TLS) -> ClusterConfig:
        if tls == self.tls:
            return self
        changed = self._replace(tls=tls)
        changed.ssl_context()
        return changed

    def ssl_context(self) -> ssl.SSLContext | None:
        """Make the TLS settings, or None for a plain http server.

        Raises:
            SettingsError: a certificate or key is not usable PEM data.
        """
        if urlsplit(self.server).scheme != "https":
            return None
        tls = self.tls
        try:
            context = ssl.create_default_context(
                cadata=tls.ca.decode("ascii") if tls.ca is not None else None
            )
        except (ssl.SSLError, ValueError) as error:
            raise SettingsError(
                f"certificate authority in {self.origin} is not valid PEM: {error_text(error)}"
            ) from error
        # Python 3.13 requires extensions that many clusters' CAs do not have; client-go does not
        # require them either.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if tls.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if tls.certificate is not None and tls.key is not None:
            self._load_client_certificate(context, tls.certificate, tls.key)
        return context

    def _load_client_certificate(
        self, context: ssl.SSLContext, certificate: bytes, key: bytes
    ) -> None:
        # OpenSSL reads a chain from a file only; the directory is private (mode 0700) and removed
        # before this returns.
        with tempfile.TemporaryDirectory(prefix="hotmap-") as directory:
            pem = Path(directory, "client.pem")
            pem.touch(mode=0o600)
            pem.write_bytes(certificate + b"\n" + key)
            try:
                context.load_cert_chain(pem)
            except (ssl.SSLError, ValueError) as error:
                raise SettingsError(
                    f"client certificate or key in {self.origin} is not usable PEM data,"
                    " or the two do not belong together"
                ) from error


# -- in a pod --------------------------------------------------------------------------------


def in_cluster_config(
    *, directory: Path = SERVICE_ACCOUNT, environ: Mapping[str, str] | None = None
) -> ClusterConfig:
    """Read the settings of a pod with a service account.

    Raises:
        SettingsError: this does not run in a pod, or its service account is not mounted.
    """
    environ = os.environ if environ is None else environ
    host = environ.get("KUBERNETES_SERVICE_HOST", "")
    port = environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise SettingsError(
            "not in a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set"
        )
    origin = f"the service account in {directory}"
    credentials = TokenFile(directory / "token")
    credentials.authorization()  # report a missing token now, not at the first request
    namespace = "default"
    if (directory / "namespace").is_file():
        namespace = read_file(directory / "namespace", origin).decode().strip() or namespace
    return ClusterConfig(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        origin=origin,
        credentials=credentials,
        tls=TLS(ca=read_file(directory / "ca.crt", origin)),
        ca_file=directory / "ca.crt",
        namespace=namespace,
    )


def read_file(path: Path, title: str) -> bytes:
    """Read a file that settings name; `title` describes it in the error.

    Raises:
        SettingsError: it cannot be read, or is too large.
    """
    try:
        return _read_bounded(path)
    except (OSError, ValueError) as error:
        raise SettingsError(f"{title} {path} cannot be read: {error_text(error)}") from error


def _read_bounded(path: Path) -> bytes:
    with path.open("rb") as file:
        content = file.read((_LARGEST_FILE << 20) + 1)
    if len(content) > _LARGEST_FILE << 20:
        raise ValueError(f"it has more than {_LARGEST_FILE} MiB")
    return content


def error_text(error: Exception) -> str:
    """Return why a file cannot be read or used, without its content."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror if isinstance(error, ssl.SSLError) else os_reason(error)
    if isinstance(error, UnicodeError):
        return "it is not text"
    return str(error)
