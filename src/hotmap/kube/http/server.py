"""A small HTTP/1.1 server for probes, scrapers and status queries: it reads, and has no bodies.

It takes GET and HEAD on fixed paths, and answers everything else with an error. A client that is
slow, or sends more than a request needs, loses its connection.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from itertools import islice
from typing import Any, Final, NamedTuple, cast
from urllib.parse import parse_qsl, unquote, urlsplit

import httptools

__all__ = ["Answer", "Handler", "HttpServer", "Question", "describe_listen_error"]

#: Bytes of one request; a token of a user is a few KB.
MOST_BYTES: Final = 1 << 16

#: Bytes of its URL, and parameters in that: it is parsed on the event loop before anything is known
#: of the client. `hotmap preview` sends 12 KB at most.
MOST_URL_BYTES: Final = 1 << 14
MOST_PARAMETERS: Final = 32

#: Headers of one request: a dictionary takes many times the bytes of short ones.
MOST_HEADERS: Final = 100

#: Requests of one connection that wait for the one before.
MOST_WAITING: Final = 4

#: Connections; beyond them one of the older half closes: the one whose client has asked for
#: nothing, or has taken no answer, for longest; where there is none, the one whose request has
#: waited for longest. Newer ones may not have had the time to ask: asyncio accepts 100 at once.
MOST_CONNECTIONS: Final = 256

#: Bytes of answers that clients have not taken yet, of all connections; beyond them the one whose
#: client has not taken its answer for longest closes, but never the last one.
MOST_UNREAD: Final = 32 << 20

#: Seconds in which a client has to send a request, or to take an answer; Prometheus asks every 15
#: to 60 s on one connection.
CLIENT_TIMEOUT: Final = 75.0

#: Seconds that requests get to be answered when the server is closed.
GRACE: Final = 0.5

_log = logging.getLogger(__name__)


def describe_listen_error(error: OSError) -> str:
    """Return why an address cannot be listened on, in lower case.

    asyncio's text for a number of the operating system repeats the address, so that number is
    described. Those of name resolution are negative, and have a text of their own. Since Python
    3.13 it gives no number for an address that the machine does not have.
    """
    number = errno.EADDRNOTAVAIL if error.errno is None else error.errno
    return (os.strerror(number) if number > 0 else error.strerror or str(error)).lower()


class Question(NamedTuple):
    """A request: what handlers need of it."""

    path: str
    #: The first value of each parameter.
    query: Mapping[str, str]
    #: The last value of each header, by its name in lower case.
    headers: Mapping[str, str]
    #: The parameters that are given more than once.
    repeated: tuple[str, ...] = ()


class Answer(NamedTuple):
    """A response."""

    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    #: Methods that are allowed instead, for the status 405.
    allow: str = ""
    #: Further headers.
    headers: tuple[tuple[str, str], ...] = ()


Handler = Callable[[Question], Awaitable[Answer]]


class HttpServer:
    """Serves some paths until it is closed."""

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._handlers = handlers
        self._server: asyncio.Server | None = None
        #: The last used is last.
        self._connections: dict[_Connection, None] = {}

    async def listen(self, host: str, port: int) -> int:
        """Listen; returns the port, a free one for 0.

        No host, or `::` as in Go's programs, means every address of the machine.

        Raises:
            OSError: the address cannot be listened on.
        """
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            self._accept, None if host in ("", "::") else host, port
        )
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def close(self) -> None:
        """Stop listening; requests that are being answered get half a second."""
        if self._server is None:
            return
        self._server.close()
        busy = [task for each in self._connections if (task := each.task) is not None]
        if busy:
            await asyncio.wait(busy, timeout=GRACE)
        lost = [connection.lost for connection in self._connections]
        for connection in list(self._connections):
            connection.abort()
        if lost:
            with suppress(TimeoutError):
                async with asyncio.timeout(GRACE):
                    await asyncio.wait(lost)
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                await self._server.wait_closed()
        self._server = None

    def _accept(self) -> _Connection:
        connection = _Connection(self._answer, self._on_use, self._bound_unread)
        if len(self._connections) >= MOST_CONNECTIONS:
            count = len(self._connections)
            older = list(islice(self._connections, count - count // 2))
            oldest = next((each for each in older if each.waits_for_client), older[0])
            del self._connections[oldest]
            oldest.abort()
        self._connections[connection] = None
        connection.lost.add_done_callback(lambda _: self._connections.pop(connection, None))
        return connection

    def _on_use(self, connection: _Connection) -> None:
        if connection in self._connections:
            self._connections[connection] = self._connections.pop(connection)

    def _bound_unread(self, last: _Connection) -> None:
        """Close connections whose clients do not take their answers, if these are too large."""
        unread = {each: size for each in self._connections if (size := each.unread)}
        total = sum(unread.values())
        for connection, size in unread.items():
            if total <= MOST_UNREAD:
                return
            if connection is not last:
                connection.abort()
                total -= size

    async def _answer(self, method: str, question: Question) -> Answer:
        handler = self._handlers.get(question.path)
        if handler is None:
            return _failure(HTTPStatus.NOT_FOUND)
        if method not in ("GET", "HEAD"):
            return _failure(HTTPStatus.METHOD_NOT_ALLOWED, allow="GET, HEAD")
        try:
            return await handler(question)
        except Exception:  # one request must not end the connection of others
            _log.exception("internal error answering %s", question.path)
            return _failure(HTTPStatus.INTERNAL_SERVER_ERROR)


class _TooLarge(Exception):
    """Raised when a part of a request is too large; the parser's error has it as context."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


class _Request(NamedTuple):
    method: str
    question: Question
    keeps_alive: bool


class _Connection(asyncio.Protocol):
    """One connection of a client, whose requests are answered in their order."""

    def __init__(
        self,
        answer: Callable[[str, Question], Awaitable[Answer]],
        on_use: Callable[[_Connection], None],
        on_unread: Callable[[_Connection], None],
    ) -> None:
        """`on_use` is called with each request, `on_unread` with an answer that is not taken."""
        self._answer = answer
        self._on_use = on_use
        self._on_unread = on_unread
        self._is_aborted = False
        self._transport: asyncio.Transport | None = None
        self._parser: Any = httptools.HttpRequestParser(self)
        self._url = b""
        self._headers: dict[str, str] = {}
        #: Bytes since the last complete request.
        self._received = 0
        self._waiting: deque[_Request] = deque()
        #: Answered after what waits, before the connection is closed; None: it may go on.
        self._refusal: HTTPStatus | None = None
        self._timer: asyncio.TimerHandle | None = None
        #: Answers the requests that wait; None while there are none.
        self.task: asyncio.Task[None] | None = None
        #: Set while the client takes what is sent.
        self._may_write = asyncio.Event()
        self._may_write.set()
        #: Done once the connection is closed.
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def waits_for_client(self) -> bool:
        """Whether it is the client's turn: to send a request, or to take an answer."""
        return self.task is None or not self._may_write.is_set()

    @property
    def unread(self) -> int:
        """Bytes of answers that the client has not taken."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def abort(self) -> None:
        """Close the connection at once, also one that is only about to be made."""
        self._is_aborted = True
        if self._transport is not None:
            self._transport.abort()

    # -- asyncio.Protocol ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._is_aborted:
            self._transport.abort()
            return
        self._restart_timer()

    def data_received(self, data: bytes) -> None:
        if self._refusal is not None:
            return
        self._received += len(data)
        if self._received > MOST_BYTES:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:  # which a server may ignore (RFC 9110, 7.8)
            if self._waiting:
                self._waiting.append(self._waiting.pop()._replace(keeps_alive=False))
        except httptools.HttpParserError as error:
            cause = error.__context__
            self._refuse(cause.status if isinstance(cause, _TooLarge) else HTTPStatus.BAD_REQUEST)

    def pause_writing(self) -> None:
        self._may_write.clear()
        self._on_unread(self)

    def resume_writing(self) -> None:
        self._may_write.set()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.task is not None:
            self.task.cancel()
        if not self.lost.done():
            self.lost.set_result(None)

    # -- httptools -----------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._url, self._headers = b"", {}

    def on_url(self, url: bytes) -> None:
        self._url += url
        if len(self._url) > MOST_URL_BYTES:
            raise _TooLarge(HTTPStatus.REQUEST_URI_TOO_LONG)

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self._headers) >= MOST_HEADERS:
            raise _TooLarge(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_message_complete(self) -> None:
        self._received = 0
        parts = urlsplit(self._url.decode("ascii"))
        query: dict[str, str] = {}
        repeated = []
        for name, value in parse_qsl(
            parts.query, keep_blank_values=True, max_num_fields=MOST_PARAMETERS
        ):
            if name in query:
                repeated.append(name)
            else:
                query[name] = value
        request = _Request(
            self._parser.get_method().decode("ascii"),
            Question(unquote(parts.path), query, self._headers, tuple(repeated)),
            self._parser.should_keep_alive(),
        )
        self._headers = {}
        if len(self._waiting) >= MOST_WAITING:
            raise ValueError("too many requests at once")
        self._waiting.append(request)
        self._on_use(self)
        if self.task is None:
            self.task = asyncio.get_running_loop().create_task(self._answer_all())

    # ------------------------------------------------------------------------------------------

    async def _answer_all(self) -> None:
        try:
            while self._waiting:
                method, question, keeps_alive = self._waiting.popleft()
                answer = await self._answer(method, question)
                self._restart_timer()
                self._write(answer, keeps_alive=keeps_alive, with_body=method != "HEAD")
                await self._may_write.wait()
                if not keeps_alive and self._transport is not None:
                    self._transport.close()
                    return
            if self._refusal is not None:
                self._write_refusal(self._refusal)
        finally:
            self.task = None

    def _write(self, answer: Answer, *, keeps_alive: bool, with_body: bool) -> None:
        assert self._transport is not None, "it was connected"
        lines = [
            f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}",
            f"Content-Type: {answer.content_type}",
            f"Content-Length: {len(answer.body)}",
            f"Date: {time.strftime('%a, %d %b %Y %H:%M:%S GMT', time.gmtime())}",
        ]
        lines += [f"{name}: {value}" for name, value in answer.headers]
        if answer.allow:
            lines.append(f"Allow: {answer.allow}")
        if not keeps_alive:
            lines.append("Connection: close")
        head = ("\r\n".join(lines) + "\r\n\r\n").encode()
        self._transport.write(head + answer.body if with_body else head)

    def _refuse(self, status: HTTPStatus) -> None:
        """Answer what cannot be read, after what waits, and close the connection."""
        if self._transport is None or self._transport.is_closing() or self._refusal is not None:
            return
        self._refusal = status
        self._transport.pause_reading()
        if self.task is None:
            self._write_refusal(status)

    def _write_refusal(self, status: HTTPStatus) -> None:
        assert self._transport is not None, "it was connected"
        self._write(_failure(status), keeps_alive=False, with_body=True)
        self._transport.close()

    def _restart_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(CLIENT_TIMEOUT, self._time_out)

    def _time_out(self) -> None:
        if self.waits_for_client:
            self.abort()
        else:  # the handler takes its time
            self._restart_timer()


def _failure(status: HTTPStatus, *, allow: str = "") -> Answer:
    return Answer(status, f"{status}: {status.phrase}\n".encode(), allow=allow)
