"""One connection of a client: a request, then its response, then maybe the next request."""

from __future__ import annotations

import asyncio
import os
import ssl
import zlib
from collections import deque
from collections.abc import Callable
from typing import Any, Final, cast

import httptools

from hotmap.kube.http.errors import HttpError, describe_tls_failure

__all__ = ["CLOSED", "Connection", "Response"]

#: Bytes of a response that wait to be read, beyond which the server has to wait: fewer wake-ups on
#: bursts of watch events, and still bounded.
MOST_UNREAD: Final = 1 << 18

#: Bytes of the names and values of a response's headers.
MOST_HEADERS: Final = 1 << 16

#: Why there is no response, where nothing else is known.
CLOSED: Final = "it closed the connection"
_INCOMPLETE = "the response is incomplete"
_NOT_HTTP = "its response is not HTTP"


class Response:
    """The response to one request: the head, and the body as it arrives."""

    def __init__(self, connection: Connection) -> None:
        self.status = 0
        self.reason = ""
        #: The last value of each header, by its name in lower case.
        self.headers: dict[str, str] = {}
        self._connection = connection
        self._unread: deque[bytes] = deque()
        self._unread_bytes = 0
        self._gzip: _Gzip | None = None
        #: Whether nothing more will arrive.
        self._ended = False
        self._error: HttpError | None = None
        self._waiter: asyncio.Future[None] | None = None

    async def read_any(self) -> bytes:
        """Return the bytes that have arrived since the last call, or wait for some; b"" at the end.

        Raises:
            HttpError: the connection ended before the response did, or it is compressed wrongly.
        """
        while not self._unread:
            if self._gzip is not None and self._gzip.has_more:
                self._inflate(b"")
                continue
            if self._error is not None:
                raise self._error
            if self._ended:
                if self._gzip is not None and not self._gzip.is_complete:
                    raise HttpError(_INCOMPLETE)
                return b""
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        chunk = self._unread.popleft() if len(self._unread) == 1 else b"".join(self._unread)
        self._unread.clear()
        self._unread_bytes = 0
        if self._gzip is None or not self._gzip.has_more:
            self._connection.resume_reading(self)
        return chunk

    def close(self) -> None:
        """Give up the rest of the body, and with it the connection."""
        if not self._ended:
            self._connection.abort()

    # -- for the connection --------------------------------------------------------------------

    def start(self) -> None:
        """Get ready for the body; the head is complete."""
        encoding = self.headers.get("content-encoding", "identity").strip().lower()
        if encoding == "gzip":
            self._gzip = _Gzip()
        elif encoding != "identity":
            raise ValueError(f"the content encoding {encoding}")

    def add(self, chunk: bytes) -> bool:
        """Add bytes of the body; returns whether more than enough wait to be read."""
        if self._gzip is not None:
            self._inflate(chunk)
        elif chunk:
            self._keep(chunk)
        return self._unread_bytes > MOST_UNREAD

    def end(self, error: HttpError | None = None) -> None:
        """End the body; `error` is why it is not complete."""
        if not self._ended:
            self._ended, self._error = True, error
            self._wake()

    def _inflate(self, chunk: bytes) -> None:
        """Decompress as much as may wait to be read; the rest follows when that has been read."""
        assert self._gzip is not None, "only a compressed body is"
        try:
            self._gzip.add(chunk)
            while self._unread_bytes <= MOST_UNREAD and (found := self._gzip.read(MOST_UNREAD)):
                self._keep(found)
        except zlib.error as error:
            raise HttpError(_NOT_HTTP) from error

    def _keep(self, chunk: bytes) -> None:
        self._unread.append(chunk)
        self._unread_bytes += len(chunk)
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class _Gzip:
    """Decompresses a body step by step: a few hundred bytes may become a megabyte."""

    def __init__(self) -> None:
        self._stream = _new_stream()
        self._compressed = b""
        self._was_given = False

    @property
    def has_more(self) -> bool:
        """Whether bytes were added that are not decompressed yet."""
        return bool(self._compressed)

    @property
    def is_complete(self) -> bool:
        """Whether the last member has its end, or there is no body."""
        return self._stream.eof or not self._was_given

    def add(self, chunk: bytes) -> None:
        """Add compressed bytes."""
        self._compressed += chunk
        self._was_given |= bool(chunk)

    def read(self, most: int) -> bytes:
        """Return at most so many decompressed bytes; b"" if more has to be added first.

        Raises:
            zlib.error: that is not gzip.
        """
        found = b""
        while self._compressed and not found:
            if self._stream.eof:  # another member follows (RFC 1952, 2.2)
                self._stream = _new_stream()
            found = self._stream.decompress(self._compressed, most)
            self._compressed = self._stream.unconsumed_tail or self._stream.unused_data
        return bytes(found)


def _new_stream() -> Any:
    return zlib.decompressobj(16 + zlib.MAX_WBITS)


class Connection(asyncio.Protocol):
    """A connection; `on_idle` is called with it when it can be used for another request."""

    def __init__(self, on_idle: Callable[[Connection], None]) -> None:
        self._on_idle = on_idle
        self._transport: asyncio.Transport | None = None
        self._parser: Any = httptools.HttpResponseParser(self)
        #: The response that is awaited or arrives; None between two requests.
        self._response: Response | None = None
        #: Set once its head is complete.
        self._started: asyncio.Future[None] | None = None
        self._header_bytes = 0
        #: Bytes that arrived since a part of a response was complete.
        self._unparsed = 0
        #: Whether the response has a head alone, and whether the body ends with the connection.
        self._is_head_only = self._until_close = False
        self._is_paused = False
        #: Done once the connection is closed.
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def is_usable(self) -> bool:
        """Whether a request can be sent."""
        transport = self._transport
        return self._response is None and transport is not None and not transport.is_closing()

    @property
    def has_response(self) -> bool:
        """Whether any part of the response to the last request has arrived."""
        return self._header_bytes > 0

    async def send(self, request: bytes, *, head_only: bool = False) -> Response:
        """Send a request, and return its response once the head is complete.

        A cancelled request closes the connection. `head_only`: it is a HEAD request.

        Raises:
            HttpError: there is no response.
        """
        self._header_bytes = self._unparsed = 0
        self._is_head_only = head_only
        if self._transport is None or self._transport.is_closing():
            raise HttpError(CLOSED)  # what is written to it is dropped without a word
        response = self._response = Response(self)
        self._started = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        try:
            await self._started
        except BaseException:
            if self._response is response:  # else the connection is another request's by now
                self.abort()
            raise
        return response

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def resume_reading(self, response: Response) -> None:
        """Let the server go on, after what had arrived was read."""
        if self._is_paused and response is self._response and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()

    # -- asyncio.Protocol ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Use a transport from now on."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Parse what has arrived."""
        if self._response is None:  # unasked: whatever it is, no later response can be trusted
            self.abort()
            return
        self._unparsed += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade, ValueError, HttpError):
            self._fail(HttpError(_NOT_HTTP))
            return
        if self._unparsed > MOST_HEADERS and self._response is not None:
            self._fail(HttpError(_NOT_HTTP))  # a line without end

    def connection_lost(self, exc: Exception | None) -> None:
        """End the request in progress."""
        if not self.lost.done():
            self.lost.set_result(None)
        if self._response is not None and self._is_started and self._until_close and exc is None:
            self._finish()
        elif self._response is not None:
            self._fail(HttpError(_INCOMPLETE if self._is_started else _describe_loss(exc)))

    # -- httptools -----------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Refuse a second response to one request: the next request would get it."""
        if self._response is None:
            raise ValueError("a response without a request")

    def on_status(self, status: bytes) -> None:
        """Add to the reason phrase."""
        if self._response is not None:
            self._response.reason += status.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add one header."""
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > MOST_HEADERS:
            raise ValueError("too many headers")
        if self._response is not None:
            self._response.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Hand the response over, unless it is an interim one."""
        response, status = self._response, self._parser.get_status_code()
        self._header_bytes += 1
        self._unparsed = 0
        if response is None or status < 200:
            return
        response.status = status
        headers = response.headers
        self._until_close = "content-length" not in headers and not headers.get(
            "transfer-encoding", ""
        ).strip().lower().endswith("chunked")
        response.start()
        if self._started is not None and not self._started.done():
            self._started.set_result(None)
        if self._is_head_only:  # the parser waits for a body that does not come
            self._response = None
            response.end()
            self.abort()

    def on_body(self, body: bytes) -> None:
        """Add to the body."""
        response, transport = self._response, self._transport
        self._unparsed = 0
        if response is not None and response.add(body) and not self._is_paused and transport:
            self._is_paused = True
            transport.pause_reading()

    def on_message_complete(self) -> None:
        """End the response; the connection is free for another request."""
        response = self._response
        if response is None:
            return
        if self._parser.get_status_code() < 200:
            response.reason, response.headers = "", {}
            return
        self._finish()

    # ------------------------------------------------------------------------------------------

    @property
    def _is_started(self) -> bool:
        return self._started is not None and self._started.done()

    def _finish(self) -> None:
        response, self._response = self._response, None
        assert response is not None, "only a response ends"
        response.end()
        transport = self._transport
        if self.lost.done() or transport is None or not self._parser.should_keep_alive():
            self.abort()
            return
        if transport.get_write_buffer_size():  # answered before the request was sent completely
            self.abort()
            return
        if self._is_paused:
            self._is_paused = False
            transport.resume_reading()
        self._on_idle(self)

    def _fail(self, error: HttpError) -> None:
        response, self._response = self._response, None
        if self._started is not None and not self._started.done():
            self._started.set_exception(error)
        elif response is not None:
            response.end(error)
        self.abort()


def _describe_loss(error: Exception | None) -> str:
    """Describe why a connection ended; asyncio's own texts repeat the address."""
    if isinstance(error, ssl.SSLError):
        return describe_tls_failure(error)
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno).lower()
    return CLOSED
