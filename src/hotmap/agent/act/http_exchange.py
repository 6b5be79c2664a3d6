"""A plain HTTP call on the loop, without a child process, so it starts at once.

For endpoints that need nothing that blocks, which are nearly all of them in a pod: a numeric
address or a unix socket, without TLS. A fork takes some milliseconds, the call itself one.
"""

from __future__ import annotations

import errno
import os
import socket

from hotmap.agent.act.http import EndpointError, encode_request, parse_response
from hotmap.agent.runtime.loop import READ, WRITE

__all__ = ["Exchange", "is_plain"]

#: Bytes of a response that are read. Only its status counts, and several may arrive at once.
_MAX_RECEIVED = 128 << 10

#: Seconds that a body may take, once its status is there.
_BODY_TIMEOUT = 5.0

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from hotmap.agent.act.http import Response
    from hotmap.agent.runtime.loop import Loop
    from hotmap.agent.settings.settings import Call


def is_plain(call: Call) -> bool:
    """Whether a call can be made without blocking."""
    return bool(call.url.socket) or (call.url.scheme == "http" and _family(call.url.host) != 0)


def _family(host: str) -> int:
    """Return the family of a numeric address; 0 for a name."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return family
    return 0


class Exchange:
    """One request and its response."""

    def __init__(
        self,
        loop: Loop,
        call: Call,
        *,
        seconds: float,
        done: Callable[[Response | None, str], None],
    ) -> None:
        """Start; `done` is called once, with the response, or None and an error."""
        self._loop = loop
        self._call = call
        self._done = done
        self._received = b""
        self._has_status = False
        self._socket: socket.socket | None = None
        self._timer = loop.after(
            seconds, lambda: self._end(None, f"no response from {call.url} within {seconds:g}s")
        )
        # From the loop, so that the caller has returned before `done` is called.
        self._first = loop.after(0, self._begin)

    def _begin(self) -> None:
        url = self._call.url
        try:
            self._unsent = encode_request(self._call)
            family = socket.AF_UNIX if url.socket else _family(url.host)
            self._socket = socket.socket(family, socket.SOCK_STREAM)
            self._socket.setblocking(False)
            failed = self._socket.connect_ex(url.socket or (url.host, url.port))
        except EndpointError as error:
            self._end(None, str(error))
        except OSError as error:
            self._fail(error.errno or errno.EIO)
        else:
            if failed in (0, errno.EINPROGRESS):
                self._loop.watch(self._socket.fileno(), WRITE, self._send)
            else:
                self._fail(failed)

    def _send(self) -> None:
        assert self._socket is not None
        try:
            if failed := self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self._fail(failed)
                return
            sent = self._socket.send(self._unsent)
        except BlockingIOError:
            return
        except OSError as error:
            self._fail(error.errno or errno.EIO)
            return
        self._unsent = self._unsent[sent:]
        if not self._unsent:
            self._loop.watch(self._socket.fileno(), READ, self._receive)

    def _receive(self) -> None:
        assert self._socket is not None
        try:
            piece = self._socket.recv(65536)
            self._received += piece
            ended = not piece or len(self._received) > _MAX_RECEIVED
            response = parse_response(self._received, self._call, ended=ended)
        except BlockingIOError:
            return
        except EndpointError as error:
            self._end(None, str(error))
        except OSError as error:
            # A server that has not read all of the request resets the connection at its close.
            if response := self._status():
                self._end(response, "")
            else:
                self._fail(error.errno or errno.EIO)
        else:
            if response is not None:
                self._end(response, "")
            elif not self._has_status and self._status() is not None:
                self._has_status = True
                self._timer.cancel()
                self._timer = self._loop.after(_BODY_TIMEOUT, self._end_without_body)

    def _status(self) -> Response | None:
        """Parse what has arrived as if the body were complete; None while there is no status."""
        try:
            return parse_response(self._received, self._call, ended=True)
        except EndpointError:
            return None

    def _end_without_body(self) -> None:
        response = self._status()
        self._end(response, "" if response else f"no complete response from {self._call.url}")

    def abandon(self) -> None:
        """Close the connection without a callback."""
        self._done = _ignore_response
        self._end(None, "")

    def _fail(self, number: int) -> None:
        self._end(None, f"cannot reach {self._call.url}: {os.strerror(number).lower()}")

    def _end(self, response: Response | None, error: str) -> None:
        self._timer.cancel()
        self._first.cancel()
        if self._socket is not None:
            self._loop.forget(self._socket.fileno())
            self._socket.close()
        self._done(response, error)


def _ignore_response(response: Response | None, error: str) -> None:
    """Drop the outcome of a call that newer content has superseded."""
