"""GET requests of probes and hooks, and what is said of those that fail.

kubernetes: pkg/probe/http; the words are those of Go's net/http.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from http import HTTPStatus
from typing import TYPE_CHECKING, Literal, NamedTuple
from urllib.parse import urljoin, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Purpose", "connect", "get"]

Header = tuple[str, str]
#: What a request is for.
Purpose = Literal["probe", "lifecycle"]

_REDIRECTS = (
    HTTPStatus.MOVED_PERMANENTLY,
    HTTPStatus.FOUND,
    HTTPStatus.SEE_OTHER,
    HTTPStatus.TEMPORARY_REDIRECT,
    HTTPStatus.PERMANENT_REDIRECT,
)
_MOST_REDIRECTS = 10


class _Response(NamedTuple):
    """The status of an answer, and where it redirects to, "" for nowhere."""

    status: int
    location: str


async def get(url: str, headers: Iterable[Header], *, purpose: Purpose) -> int:
    """Return the status of an answer, after redirects to the same host.

    Raises:
        OSError: there is none.
    """
    sent, host = _with_defaults(headers, purpose), urlsplit(url).hostname
    for _ in range(_MOST_REDIRECTS):
        try:
            response = await _request(url, sent)
        except (OSError, ValueError) as error:
            raise OSError(f'Get "{url}": {error}') from error
        if response.status not in _REDIRECTS or not response.location:
            return response.status
        target = urljoin(url, response.location)
        if urlsplit(target).hostname != host:
            return response.status
        url = target
    raise OSError(f'Get "{url}": stopped after {_MOST_REDIRECTS} redirects')


def _with_defaults(headers: Iterable[Header], purpose: Purpose) -> list[Header]:
    """Add the headers of the kubelet; an empty Accept is left out, as there."""
    given = list(headers)
    names = {name.lower() for name, _ in given}
    defaults = (("User-Agent", f"kube-{purpose}/1.36"), ("Accept", "*/*"))
    given += [header for header in defaults if header[0].lower() not in names]
    return [header for header in given if header[0].lower() != "accept" or header[1]]


async def _request(url: str, headers: list[Header]) -> _Response:
    """Send a request and read the head of its answer.

    Raises:
        OSError: there is no connection, or no answer.
        ValueError: the answer is not HTTP.
    """
    parts = urlsplit(url)
    is_tls = parts.scheme == "https"
    host, port = parts.hostname or "", parts.port or (443 if is_tls else 80)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    sent = [f"GET {path} HTTP/1.1"]
    if all(name.lower() != "host" for name, _ in headers):
        sent.append(f"Host: {parts.netloc}")
    sent += [f"{name}: {value}" for name, value in headers]
    reader, writer = await connect(host, port, _unverified() if is_tls else None)
    try:
        writer.write("\r\n".join([*sent, "Connection: close", "", ""]).encode())
        return await _read_head(reader)
    finally:
        writer.close()


async def _read_head(reader: asyncio.StreamReader) -> _Response:
    line = (await reader.readline()).decode("latin-1").rstrip("\r\n")
    if not line:
        raise OSError("EOF")
    version, _, rest = line.partition(" ")
    if not version.startswith("HTTP/") or not rest:
        raise ValueError(_broken(f'malformed HTTP response "{line}"'))
    code = rest.partition(" ")[0]
    if len(code) != 3 or not code.isdigit():
        raise ValueError(_broken(f'malformed HTTP status code "{code}"'))
    location = ""
    while header := (await reader.readline()).decode("latin-1").strip():
        name, _, value = header.partition(":")
        if name.lower() == "location":
            location = value.strip()
    return _Response(int(code), location)


def _broken(why: str) -> str:
    return f"net/http: HTTP/1.x transport connection broken: {why}"


def _unverified() -> ssl.SSLContext:
    """A probe checks for a response, not for an identity."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def connect(
    host: str, port: int, context: ssl.SSLContext | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a connection.

    Raises:
        OSError: it is refused; the text is Go's.
    """
    try:
        return await asyncio.open_connection(host, port, ssl=context)
    except ssl.SSLError as error:
        if error.reason == "WRONG_VERSION_NUMBER":
            raise OSError("http: server gave HTTP response to HTTPS client") from error
        raise
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno else str(error)
        raise OSError(f"dial tcp {host}:{port}: connect: {reason}") from error
