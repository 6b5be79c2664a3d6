"""The agent's small web server: GET requests on a TCP port and on a unix socket.

Each connection is closed after its response. A port that is in use must not stop reloads, so it is
tried again and reported in the status.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
import time

from hotmap.agent.runtime.loop import READ, WRITE

__all__ = ["Server", "is_in_use"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from hotmap.agent.report.basic_auth import BasicAuth
    from hotmap.agent.report.secure_sockets import SecureSocket
    from hotmap.agent.runtime.loop import Loop, Timer
    from hotmap.agent.settings.settings import WebSettings
    from hotmap.agent.settings.values import Address

    class Respond(Protocol):
        def __call__(self, path: str, *, is_local: bool) -> tuple[int, str, bytes]: ...


#: Environment variable with the address that `:PORT` means where pods share a network.
_LISTEN_HOST = "HOTMAP_LISTEN_HOST"

_REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found",
            405: "Method Not Allowed", 429: "Too Many Requests",
            500: "Internal Server Error", 503: "Service Unavailable"}  # fmt: skip

#: Connections at the same time, bytes of a request, seconds for request and response. The oldest
#: connection is dropped for a new one, so that idle clients block no others.
_MAX_CONNECTIONS, _MAX_REQUEST, _TIMEOUT = 32, 8192, 5.0

#: Seconds before each attempt to connect to a socket. A forked child of a killed agent has all that
#: the agent had open, until it executes its program. Few attempts: each waits in the queue of an
#: agent that is stopped.
_CONNECT_DELAYS = (0.0, 0.05, 0.2, 0.75)

#: Seconds without accepting, where there is no descriptor for a connection.
_ACCEPT_PAUSE = 0.5


class Server:
    """Listens on a TCP port and a unix socket, each as soon as it can."""

    def __init__(
        self,
        loop: Loop,
        address: Address | None,
        path: str,
        respond: Respond,
        *,
        web: WebSettings | None = None,
    ) -> None:
        """`path`: of the unix socket; `web`: TLS, users and headers of the TCP port."""
        self._web = web
        self._auth = _basic_auth(web)
        self._loop = loop
        self._respond = respond
        self._wanted: dict[str, Callable[[], socket.socket]] = {}
        self._names = {"socket": f"socket {path}"}
        if address is not None:
            host = address.host or os.environ.get(_LISTEN_HOST, "")
            self._wanted["port"] = lambda: _tcp(address._replace(host=host))
            self._names["port"] = f"port {address.port}"
        if path:
            self._wanted["socket"] = lambda: _unix(path)
        self._path = path
        self._listening: dict[str, socket.socket] = {}
        self._connections: dict[int, _Connection] = {}
        self._listen_problem = self._tls_problem = ""

    @property
    def port(self) -> int:
        """The TCP port that is listened on; 0 for none."""
        listening = self._listening.get("port")
        return int(listening.getsockname()[1]) if listening else 0

    @property
    def problem(self) -> str:
        """Why there is no answer on an address; "" where there is one on each."""
        return self._listen_problem or self._tls_problem

    def listen(self) -> None:
        """Listen on each address that is not open yet; a failure is kept in `problem`."""
        self._listen_problem = ""
        for name, make in self._wanted.items():
            if name in self._listening:
                continue
            try:
                found = make()
            except OSError as error:
                # If a name does not resolve, the number is negative: it is not one of the system.
                number = error.errno or 0
                reason = os.strerror(number) if number > 0 else error.strerror or str(error)
                self._listen_problem = f"cannot listen on {self._names[name]}: {reason.lower()}"
                continue
            found.setblocking(False)
            self._listening[name] = found
            self._watch(found)
            self._check_tls()

    def close(self) -> None:
        """Stop listening, drop connections and remove the socket's file."""
        for connection in list(self._connections.values()):
            self._drop(connection)
        for listening in self._listening.values():
            self._loop.forget(listening.fileno())
            listening.close()
        if "socket" in self._listening:
            _remove(self._path)
        self._listening.clear()

    def _watch(self, listening: socket.socket) -> None:
        self._loop.watch(listening.fileno(), READ, lambda: self._accept(listening))

    def _accept(self, listening: socket.socket) -> None:
        try:
            accepted, _ = listening.accept()
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS):
                # It would be ready again at once, for as long as there is none.
                self._loop.forget(listening.fileno())
                self._loop.after(_ACCEPT_PAUSE, lambda: self._resume(listening))
            return
        if len(self._connections) >= _MAX_CONNECTIONS:
            self._drop(next(iter(self._connections.values())))
        accepted.setblocking(False)
        is_local = accepted.family == socket.AF_UNIX
        try:
            connection = _Connection(self._secured(accepted), is_local=is_local)
        except OSError:
            accepted.close()
            self._check_tls()
            return
        connection.timer = self._loop.after(_TIMEOUT, lambda: self._drop(connection))
        number = connection.socket.fileno()
        self._connections[number] = connection
        self._loop.watch(number, READ, lambda: self._receive(connection))
        self._receive(connection)  # most requests have arrived already

    def _secured(self, accepted: socket.socket) -> socket.socket | SecureSocket:
        web = self._web
        if web is None or not web.certificate or accepted.family == socket.AF_UNIX:
            return accepted
        from hotmap.agent.report.secure_sockets import secure

        secured = secure(accepted, web)
        self._tls_problem = ""
        return secured

    def _check_tls(self) -> None:
        if self._web is not None and self._web.certificate:
            from hotmap.agent.report.secure_sockets import find_tls_error

            self._tls_problem = find_tls_error(self._web)

    def _resume(self, listening: socket.socket) -> None:
        if listening.fileno() >= 0:
            self._watch(listening)

    def _receive(self, connection: _Connection) -> None:
        try:
            data = connection.socket.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        connection.request += data
        if not data or len(connection.request) > _MAX_REQUEST:
            self._drop(connection)
        elif b"\r\n\r\n" in connection.request or b"\n\n" in connection.request:
            connection.response = self._make_response(connection)
            self._loop.watch(connection.socket.fileno(), WRITE, lambda: self._send(connection))
            self._send(connection)

    def _make_response(self, connection: _Connection) -> bytes:
        words = connection.request.split(b"\n", 1)[0].decode("latin-1").split()
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            status, kind, body = 400, "text/plain", b"not an HTTP request\n"
        elif words[0] not in ("GET", "HEAD"):
            status, kind, body = 405, "text/plain", b"only GET is supported\n"
        elif (denied := self._denied(connection)) != 200:
            status, kind, body = denied, "text/plain", f"{_REASONS[denied]}\n".encode()
        else:
            try:
                status, kind, body = self._respond(
                    words[1].partition("?")[0], is_local=connection.is_local
                )
            except Exception as error:
                self._loop.on_error(error)
                status, kind, body = 500, "text/plain", b"internal error\n"
        head = (
            f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {kind}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n"
        )
        if status == 401:
            head += "WWW-Authenticate: Basic\r\n"
        for name, text in self._web.headers if self._web else ():
            head += f"{name}: {text}\r\n"
        head += "\r\n"
        return head.encode() + (b"" if words[:1] == ["HEAD"] else body)

    def _denied(self, connection: _Connection) -> int:
        """Return 200, or the status of a request on the TCP port without a user's password."""
        if self._auth is None or connection.is_local:
            return 200
        return self._auth.status(connection.request)

    def _send(self, connection: _Connection) -> None:
        try:
            sent = connection.socket.send(connection.response)
        except BlockingIOError:
            return
        except OSError:
            sent = len(connection.response)
        connection.response = connection.response[sent:]
        if not connection.response:
            self._drop(connection)

    def _drop(self, connection: _Connection) -> None:
        number = connection.socket.fileno()
        if number < 0:
            return
        self._loop.forget(number)
        self._connections.pop(number, None)
        if connection.timer is not None:
            connection.timer.cancel()
        connection.socket.close()


def _basic_auth(web: WebSettings | None) -> BasicAuth | None:
    if web is None or not web.users:
        return None
    from hotmap.agent.report.basic_auth import BasicAuth

    return BasicAuth(web.users)


class _Connection:
    def __init__(self, accepted: socket.socket | SecureSocket, *, is_local: bool) -> None:
        self.socket = accepted
        self.is_local = is_local
        self.request = b""
        self.response = b""
        self.timer: Timer | None = None


def _tcp(address: Address) -> socket.socket:
    # As in Go's programs, `[::]` means every address, not those of IPv6 alone.
    host = "" if address.host == "::" else address.host
    if not host and socket.has_dualstack_ipv6():
        try:
            return socket.create_server(
                ("", address.port), family=socket.AF_INET6, dualstack_ipv6=True
            )
        except OSError:
            pass  # IPv6 is compiled in but switched off here
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, address.port), family=family)


def is_in_use(path: str) -> bool:
    """Return whether a process keeps listening on a unix socket; takes a second if it does."""
    for pause in _CONNECT_DELAYS:
        time.sleep(pause)
        if not _is_listened_on(path):
            return False
    return True


def _is_listened_on(path: str) -> bool:
    """Return whether a process listens on a unix socket; the file of one that ended remains."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.setblocking(False)
        try:
            connection.connect(path)
        except BlockingIOError:
            return True  # as many connections wait as it permits
        except OSError:
            return False
        return True


def _unix(path: str) -> socket.socket:
    if _is_listened_on(path):
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
    _remove(path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(path)
        os.chmod(path, 0o600)
        listening.listen(8)
    except OSError:
        listening.close()
        raise
    return listening


def _remove(path: str) -> None:
    """Remove the socket of an earlier agent; anything but a socket is kept."""
    try:
        if stat.S_ISSOCK(os.lstat(path).st_mode):
            os.remove(path)
    except OSError:
        return
