"""HTTP requests to endpoints of the application: what is sent, what an answer is, and who waits.

`request` blocks, so it runs in a child process; TLS and names that have to be resolved need that.
A plain call of an address or a unix socket is made by `exchange` on the loop, without a child.
Plain sockets: `http.client` costs 6 MB. Nothing of an answer but its status line is ever shown,
since its body may hold anything; redirects are not followed, so credentials go where a person
wrote that they go.
"""

from __future__ import annotations

import socket
from collections import namedtuple

__all__ = ["Answer", "Call", "EndpointError", "answer_of", "head_of", "request"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple

    from hotmap.agent.values import Url

    class Call(NamedTuple):
        url: Url
        method: str = "POST"
        headers: tuple[tuple[str, str], ...] = ()
        body: str = ""
        statuses: tuple[int, ...] = (200,)
        ca: str = ""
        certificate: str = ""
        private_key: str = ""
        credentials: str = ""
        token: str = ""

    class Answer(NamedTuple):
        status: int
        reason: str
        body: bytes

else:
    Call = namedtuple(
        "Call",
        "url method headers body statuses ca certificate private_key credentials token",
        defaults=["POST", (), "", (200,), "", "", "", "", ""],
    )
    Call.__doc__ = """What to ask. ca, certificate, private_key: PEM files; credentials: a file
    with user:password; token: a file with a bearer token. Files are read anew for each call."""

    Answer = namedtuple("Answer", "status reason body")

#: Bytes of an answer that are read.
_MOST = 1 << 20

#: Bytes of status line and headers that are read.
_MOST_HEADERS = 64 << 10


class EndpointError(Exception):
    """Raised when there is no answer, or not one of HTTP; one sentence, no credentials."""


def request(call: Call, *, seconds: float) -> Answer:
    """Send a request and read the answer; `seconds` bound each wait, the caller bounds the sum.

    Raises:
        EndpointError: it could not be reached, is not trusted, or does not speak HTTP.
    """
    head = head_of(call)
    try:
        with _connection(call, seconds) as connection:
            connection.sendall(head)
            data, answer = b"", None
            while answer is None:
                piece = connection.recv(65536)
                data += piece
                answer = answer_of(data, call, ended=not piece)
            return answer
    except TimeoutError:
        raise EndpointError(f"{call.url} gave no answer within {seconds:g} s") from None
    except socket.gaierror:
        raise EndpointError(f"{call.url} names a host that does not resolve") from None
    except OSError as error:
        text = error.strerror or str(error)
        raise EndpointError(f"{call.url} cannot be reached: {text.lower()}") from None


def _connection(call: Call, seconds: float) -> socket.socket:
    url = call.url
    if url.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(seconds)
        connection.connect(url.socket)
        return connection
    connection = socket.create_connection((url.host, url.port), timeout=seconds)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return _encrypted(connection, call) if url.scheme == "https" else connection


def _encrypted(connection: socket.socket, call: Call) -> socket.socket:
    import ssl

    try:
        context = ssl.create_default_context(cafile=call.ca or None)
        if call.certificate:
            context.load_cert_chain(call.certificate, call.private_key or None)
    except (OSError, ssl.SSLError) as error:
        reason = getattr(error, "reason", None) or error.strerror or "it is no PEM"
        raise EndpointError(f"a certificate for {call.url} cannot be read: {reason}") from None
    try:
        return context.wrap_socket(connection, server_hostname=call.url.host)
    except ssl.SSLCertVerificationError as error:
        raise EndpointError(f"{call.url} is not trusted: {error.verify_message}") from None


def head_of(call: Call) -> bytes:
    """Write a request: everything that is sent.

    Raises:
        EndpointError: a file with credentials cannot be read.
    """
    url = call.url
    host = f"[{url.host}]" if ":" in url.host else url.host
    if url.port not in (0, {"http": 80, "https": 443}[url.scheme]):
        host = f"{host}:{url.port}"
    headers = {"Host": host, "User-Agent": "hotmap-agent", "Accept": "*/*", "Connection": "close"}
    headers.update(call.headers)
    if authorization := _authorization(call):
        headers["Authorization"] = authorization
    body = call.body.encode()
    if body or call.method in ("POST", "PUT", "PATCH"):
        headers["Content-Length"] = str(len(body))
    lines = [f"{call.method} {url.path} HTTP/1.1", *(f"{n}: {v}" for n, v in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape") + body


def _authorization(call: Call) -> str:
    if call.token:
        return f"Bearer {_secret(call.token)}"
    if call.credentials:
        pair = _secret(call.credentials)
    elif call.url.user or call.url.password:
        pair = f"{call.url.user}:{call.url.password}"
    else:
        return ""
    from binascii import b2a_base64

    encoded = b2a_base64(pair.encode("utf-8", "surrogateescape"), newline=False)
    return f"Basic {encoded.decode()}"


def _secret(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().strip().replace("\r", "").replace("\n", "")
    except OSError as error:
        raise EndpointError(f"{path} cannot be read: {(error.strerror or '').lower()}") from None


def answer_of(data: bytes, call: Call, *, ended: bool) -> Answer | None:
    """Read what an endpoint has sent so far; None while the answer is not complete.

    `ended` says that nothing more will come.

    Raises:
        EndpointError: this is no answer of HTTP.
    """
    head, found, body = data.partition(b"\r\n\r\n")
    while found and head.startswith((b"HTTP/1.1 100", b"HTTP/1.1 102", b"HTTP/1.1 103")):
        head, found, body = body.partition(b"\r\n\r\n")
    if not found:
        if not data and ended:
            raise EndpointError(f"{call.url} gave no answer")
        if ended or len(data) > _MOST_HEADERS:
            raise EndpointError(f"{call.url} does not speak HTTP")
        return None
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ", 2)
    if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdecimal():
        raise EndpointError(f"{call.url} does not speak HTTP")
    fields = (line.partition(":") for line in lines[1:])
    headers = {name.strip().lower(): value.strip() for name, _, value in fields}
    status = int(words[1])
    if call.method == "HEAD" or status in (204, 304):
        body, complete = b"", True
    elif "chunked" in headers.get("transfer-encoding", "").lower():
        complete = body.endswith(b"0\r\n\r\n")
        body = _joined(body)
    else:
        length = headers.get("content-length", "")
        wanted = min(int(length), _MOST) if length.isdecimal() else _MOST
        complete = len(body) >= wanted
        body = body[:wanted]
    if not complete and not ended:
        return None
    return Answer(status, words[2].strip()[:80] if len(words) > 2 else "", body)


def _joined(data: bytes) -> bytes:
    """Join the chunks of RFC 9112 §7.1, as far as they came."""
    body = b""
    while data:
        size, _, data = data.partition(b"\r\n")
        try:
            length = int(size.split(b";")[0], 16)
        except ValueError:
            break
        if length == 0:
            break
        body += data[:length]
        data = data[length + 2 :]
    return body
