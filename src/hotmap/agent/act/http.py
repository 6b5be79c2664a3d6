"""HTTP requests to endpoints of the application, and their responses.

`send_request` blocks, so it runs in a child process; TLS and name resolution need that. A plain
call to an address or a unix socket is made by `http_exchange` on the loop, without a child.
Plain sockets, since `http.client` takes 6 MB. Only the status line of a response is ever shown,
since its body may contain anything. Redirects are followed only where a call says so.
"""

from __future__ import annotations

import os
import socket
import time

from hotmap.agent.settings.values import InvalidValue, parse_url
from hotmap.core.errors import os_reason
from hotmap.core.text import parse_number
from hotmap.core.value import Value

__all__ = [
    "EndpointError", "Response", "encode_request", "parse_response", "redirect", "send_request",
]  # fmt: skip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hotmap.agent.settings.settings import Call
    from hotmap.agent.settings.values import Url


class Response(Value):
    """The response of an endpoint.

    is_cut: the body has an end that was not read, or that the endpoint never sent
    """

    status: int
    reason: str
    body: bytes
    location: str = ""
    is_cut: bool = False


#: Bytes of a response body that are read.
_MAX_BODY = 1 << 20

#: Bytes of status line and headers that are read.
_MAX_HEAD = 64 << 10

#: Bytes of everything that is read; what an endpoint sends beyond that is not waited for.
_MAX_RESPONSE = _MAX_BODY + _MAX_HEAD


#: Seconds that each address of a name may take at least.
_SHORTEST_WAIT = 0.1


class EndpointError(Exception):
    """Raised when there is no response, or it is not HTTP; one sentence, without credentials."""


def send_request(call: Call, *, seconds: float, head_only: bool = False) -> Response:
    """Send a request and read the response; `seconds` limits each wait, the caller the sum.

    `head_only`: without the body, which some endpoints never end.

    Raises:
        EndpointError: the endpoint cannot be reached, is not trusted, or does not speak HTTP.
    """
    head = encode_request(call)
    connection = None
    try:
        connection = _connect(call, seconds)
        connection.sendall(head)
        data, response = b"", None
        while response is None:
            piece = connection.recv(65536)
            data += piece
            response = parse_response(data, call, ended=not piece, head_only=head_only)
        return response
    except TimeoutError:
        raise EndpointError(f"no response from {call.url} within {seconds:g}s") from None
    except socket.gaierror as error:
        reason = os_reason(error)
        raise EndpointError(f"cannot resolve the host of {call.url}: {reason}") from None
    except UnicodeError:  # of getaddrinfo: a part of the name is empty or too long
        raise EndpointError(f"cannot resolve the host of {call.url}: invalid name") from None
    except OSError as error:
        raise EndpointError(f"cannot reach {call.url}: {_reason(error)}") from None
    finally:
        if connection is not None:
            connection.close()


def _reason(error: OSError) -> str:
    """Describe an error; one of TLS has a reason in capitals, and its text a line of OpenSSL."""
    reason = getattr(error, "reason", None)
    if reason == "WRONG_VERSION_NUMBER":
        return "it does not speak TLS; use http:// for such an endpoint"
    return str(reason or error.strerror or error).replace("_", " ").lower()


def _connect(call: Call, seconds: float) -> socket.socket:
    """Connect to an endpoint, to the first of its addresses that accepts.

    An address that does not answer gets its share of the time that is left, so that it does not
    take that of the others; as Go's dialer has it (go: src/net/dial.go, partialDeadline).
    """
    url = call.url
    if url.socket:
        return _connect_to(socket.AF_UNIX, url.socket, seconds)
    deadline = time.monotonic() + seconds
    found = socket.getaddrinfo(url.host, url.port, 0, socket.SOCK_STREAM)
    addresses = list(dict.fromkeys((family, address) for family, _, _, _, address in found))
    failed: OSError = TimeoutError()
    for number, (family, address) in enumerate(addresses):
        share = (deadline - time.monotonic()) / (len(addresses) - number)
        try:
            connection = _connect_to(family, address, max(share, _SHORTEST_WAIT))
        except OSError as error:
            failed = error
            continue
        connection.settimeout(seconds)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return _encrypted(connection, call) if url.scheme == "https" else connection
    raise failed


def _connect_to(family: int, address: object, seconds: float) -> socket.socket:
    connection = socket.socket(family, socket.SOCK_STREAM)
    try:
        connection.settimeout(seconds)
        connection.connect(address)  # type: ignore[arg-type]
    except OSError:
        connection.close()
        raise
    return connection


def _encrypted(connection: socket.socket, call: Call) -> socket.socket:
    import ssl

    from hotmap.agent.runtime.certificates import describe_certificate_error, load_certificate

    place = call.ca or "the system's CA certificates"
    try:
        context = ssl.create_default_context(cafile=call.ca or None)
        # Python 3.13 requires extensions that many private authorities do not have.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if not call.verify:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if call.certificate:
            place = " and ".join(filter(None, (call.certificate, call.private_key)))
            load_certificate(context, call.certificate, call.private_key)
    except OSError as error:
        reason = describe_certificate_error(error)
        raise EndpointError(f"cannot call {call.url}: cannot read {place}: {reason}") from None
    try:
        return context.wrap_socket(connection, server_hostname=call.url.host)
    except ssl.SSLCertVerificationError as error:
        raise EndpointError(
            f"certificate of {call.url} is not trusted: {error.verify_message}"
        ) from None


#: By their names in lower case, the headers that we write ourselves: names are case-insensitive
#: (RFC 9110, section 5.1).
_OWN_HEADERS = {
    name.lower(): name
    for name in ("Host", "User-Agent", "Accept", "Connection", "Authorization", "Content-Length")
}


def encode_request(call: Call) -> bytes:
    """Encode a request: everything that is sent.

    Raises:
        EndpointError: a file with credentials cannot be read.
    """
    url = call.url
    host = f"[{url.host}]" if ":" in url.host else url.host
    if url.port not in (0, {"http": 80, "https": 443}[url.scheme]):
        host = f"{host}:{url.port}"
    headers = {"Host": host, "User-Agent": "hotmap-agent", "Accept": "*/*", "Connection": "close"}
    for name, value in call.headers:
        headers[_OWN_HEADERS.get(name.lower(), name)] = value
    if authorization := _authorization(call):
        headers["Authorization"] = authorization
    body = call.body.encode("utf-8", "surrogateescape")
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
    if os.path.exists(path) and not os.path.isfile(path):  # to open a pipe would wait for a writer
        raise EndpointError(f"cannot read {path}: it is not a regular file")
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().strip().replace("\r", "").replace("\n", "")
    except OSError as error:
        raise EndpointError(f"cannot read {path}: {os_reason(error)}") from None


def parse_response(
    data: bytes, call: Call, *, ended: bool, head_only: bool = False
) -> Response | None:
    """Parse what an endpoint has sent so far; None while the response is not complete.

    `ended`: the endpoint has closed the connection. `head_only`: the body is not needed.

    Raises:
        EndpointError: this is not an HTTP response.
    """
    rest = data
    head, body = _split_head(rest)
    while head.startswith((b"HTTP/1.1 100", b"HTTP/1.1 102", b"HTTP/1.1 103")):
        rest = body  # the response itself is still to come
        head, body = _split_head(rest)
    if not head:
        if not rest and ended:
            raise EndpointError(f"no response from {call.url}")
        if ended or len(data) > _MAX_HEAD:
            raise EndpointError(f"{call.url} does not speak HTTP")
        return None
    lines = [line.rstrip("\r") for line in head.decode("latin-1").split("\n")]
    words = lines[0].split(" ", 2)
    status = parse_number(words[1]) if len(words) > 1 else None
    if status is None or not words[0].startswith("HTTP/1."):
        raise EndpointError(f"{call.url} does not speak HTTP")
    fields = (line.partition(":") for line in lines[1:])
    headers = {name.strip().lower(): value.strip() for name, _, value in fields}
    is_cut = False
    if head_only or call.method == "HEAD" or status in (204, 304):
        body, complete = b"", True
    elif "chunked" in headers.get("transfer-encoding", "").lower():
        body, complete = _join_chunks(body)
        is_cut = not complete
    else:
        length = parse_number(headers.get("content-length", ""))
        wanted = _MAX_BODY if length is None else min(length, _MAX_BODY)
        complete = len(body) >= wanted
        is_cut = complete if length is None else len(body[:wanted]) < length
        body = body[:wanted]
    if not complete and not ended and len(data) <= _MAX_RESPONSE:
        return None
    reason = words[2].strip()[:80] if len(words) > 2 else ""
    return Response(status, reason, body, headers.get("location", ""), is_cut)


def _split_head(data: bytes) -> tuple[bytes, bytes]:
    """Split status line and headers from the body; both empty while the headers have no end.

    Lines may end in LF alone, as RFC 9112 §2.2 permits and most clients accept.
    """
    ends = [(place, len(mark)) for mark in (b"\n\r\n", b"\n\n") if (place := data.find(mark)) >= 0]
    if not ends:
        return b"", b""
    place, length = min(ends)
    return data[:place], data[place + length :]


def redirect(call: Call, status: int, location: str) -> Call | None:
    """Return the call that a redirect asks for; None for any other response.

    As Go's HTTP client: 301, 302 and 303 turn into GET without a body, 307 and 308 keep both, and
    credentials go to the same host only. Never to a unix socket, which only this container has.
    """
    if call.redirects < 1 or status not in (301, 302, 303, 307, 308) or not location:
        return None
    if " " in location or not location.isprintable():
        return None
    url = call.url
    if location.startswith("//"):
        location = f"{url.scheme}:{location}"
    elif "://" not in location:
        folder = url.path.partition("?")[0].rpartition("/")[0]
        path = location if location.startswith("/") else f"{folder}/{location}"
        target = url._replace(path=path.partition("#")[0])
        return _redirected(call, status, target)
    try:
        target = parse_url(location)
    except InvalidValue:
        return None
    if target.socket:
        return None
    if (target.host, target.port, target.scheme) != (url.host, url.port, url.scheme):
        call = call._replace(credentials="", token="")
    elif not target.user:
        target = target._replace(user=url.user, password=url.password)
    return _redirected(call, status, target)


def _redirected(call: Call, status: int, target: Url) -> Call:
    if status in (301, 302, 303) and call.method not in ("GET", "HEAD"):
        call = call._replace(method="GET", body="")
    return call._replace(url=target, redirects=call.redirects - 1)


def _join_chunks(data: bytes) -> tuple[bytes, bool]:
    """Join the chunks of RFC 9112 §7.1, as far as they have arrived; return whether all have."""
    chunks, offset, is_whole = [], 0, False
    while (end := data.find(b"\r\n", offset)) >= 0:
        try:
            length = int(data[offset:end].split(b";")[0], 16)
        except ValueError:
            break
        if length <= 0:
            is_whole = length == 0 and data.find(b"\r\n\r\n", end) >= 0
            break
        chunks.append(data[end + 2 : end + 2 + length])
        offset = end + 2 + length + 2
    return b"".join(chunks), is_whole
