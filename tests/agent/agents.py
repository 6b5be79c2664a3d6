"""Runs agents as processes and observes them from outside: status, signals, webhooks."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from hotmap.core.payload import PayloadFile, downward_map
from hotmap.volume.atomic_writer import AtomicWriter

#: Seconds that anything may take before a test gives up.
TIMEOUT = 60.0


def eventually(condition: Callable[[], Any], what: str = "it") -> Any:
    """Wait until a condition holds and give its value."""
    deadline = time.monotonic() + TIMEOUT
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {TIMEOUT:g} s")
        time.sleep(0.005)


def tick() -> None:
    """Let so much time pass that what begins now began later than what was, in clock ticks."""
    began = time.clock_gettime(time.CLOCK_BOOTTIME)
    eventually(lambda: time.clock_gettime(time.CLOCK_BOOTTIME) > began + 0.02)


class Volume:
    """A mounted ConfigMap, written as the kubelet writes it."""

    def __init__(self, path: Path, /, **files: str) -> None:
        self.path = path
        path.mkdir()
        self._writer = AtomicWriter(str(path))
        if files:
            self.write(**files)

    def __str__(self) -> str:
        return str(self.path)

    def write(self, /, **files: str) -> None:
        """Publish files; `nginx__conf` stands for nginx.conf."""
        self.publish({name.replace("__", "."): text.encode() for name, text in files.items()})

    def publish(self, files: dict[str, bytes]) -> None:
        """Publish files by name."""
        self._writer.write({name: PayloadFile(data, 0o644) for name, data in files.items()})

    def swap(self) -> None:
        """Publish the same content as another revision, as projected volumes do for tokens."""
        old = self.path / (self.path / "..data").readlink()
        new = self.path / f"..2026_01_01_00_00_00.{time.monotonic_ns()}"
        subprocess.run(["cp", "-a", old, new], check=True)
        link = self.path / "..data_tmp"
        link.symlink_to(new.name)
        link.rename(self.path / "..data")


class PodFile:
    """A downwardAPI volume with the pod's annotations."""

    def __init__(self, path: Path) -> None:
        self._volume = Volume(path)
        self.file = path / "annotations"
        self.annotate(None)

    def annotate(self, target: str | None) -> None:
        """Let the pod have a target, or none, beside another annotation."""
        annotations = {"example.com/note": 'hotmap.dev/target="9/x/y"'}
        if target is not None:
            annotations["hotmap.dev/target"] = target
        self._volume.publish({"annotations": downward_map(annotations).encode()})


class Agent:
    """A running `hotmap agent`."""

    def __init__(self, process: subprocess.Popen[bytes], socket_path: Path, log: Path) -> None:
        self.process = process
        self.pid = process.pid
        self._socket = socket_path
        self._log = log

    @property
    def log(self) -> str:
        """What it has written so far."""
        return self._log.read_text(errors="replace")

    def get(self, path: str) -> tuple[int, str]:
        """Ask it on its unix socket."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(TIMEOUT)
            connection.connect(str(self._socket))
            connection.sendall(f"GET {path} HTTP/1.1\r\n\r\n".encode())
            data = b""
            while piece := connection.recv(65536):
                data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        return int(head.split()[1]), body.decode()

    def status(self) -> dict[str, Any]:
        """Read its status; an empty one while it does not answer yet."""
        try:
            document: dict[str, Any] = json.loads(self.get("/status")[1])
        except (FileNotFoundError, ConnectionError, IndexError):
            if self.process.poll() is not None:
                raise AssertionError(f"the agent has ended:\n{self.log}") from None
            return {}
        return document

    @property
    def message(self) -> str:
        """What its status says is wrong, "" while nothing is or it does not answer yet."""
        return str(self.status().get("message", ""))

    def reaches(self, state: str) -> dict[str, Any]:
        """Wait until its status is in one state."""

        def check() -> dict[str, Any]:
            status = self.status()
            return status if status.get("state") == state else {}

        try:
            found: dict[str, Any] = eventually(check, f"state {state}")
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.status()}\n{self.log}") from None
        return found

    def rests(self) -> None:
        """Wait until it sleeps, so it has handled everything that happened before."""
        stat = Path(f"/proc/{self.pid}/stat")
        eventually(lambda: ") S " in stat.read_text(), "sleep")

    def rule(self, name: str = "default") -> dict[str, Any]:
        """Read what it says of one rule."""
        return next(rule for rule in self.status()["rules"] if rule["name"] == name)

    def end(self) -> int:
        """Send TERM and wait for the end."""
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(TIMEOUT)


@contextmanager
def agent(folder: Path, *flags: object, **options: Any) -> Iterator[Agent]:
    """Run an agent with some flags; quick to settle and to retry unless set otherwise."""
    given = [str(flag) for flag in flags]
    folder.mkdir(exist_ok=True)
    socket_path, log = folder / "agent.sock", folder / "agent.log"
    defaults = {
        "--settle": "5ms", "--listen": "none", "--retry-first": "20ms", "--retry-max": "200ms",
        "--socket": str(socket_path),
        # Longer than TIMEOUT: what waits for one of these ends without success.
        "--check-timeout": "10m", "--action-timeout": "10m",
    }  # fmt: skip
    own = {word.partition("=")[0] for word in given}
    words = [word for flag, text in defaults.items() if flag not in own for word in (flag, text)]
    command = [*options.pop("before", ()), sys.executable, "-m", "hotmap", "agent", *words, *given]
    with log.open("ab") as output:
        process = subprocess.Popen(command, stderr=output, stdin=subprocess.DEVNULL, **options)
    running = Agent(process, socket_path, log)
    try:
        yield running
    finally:
        if process.poll() is None:
            process.terminate()  # first, so that it ends its application with all of its family
        try:
            process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Webhook:
    """An endpoint that records its calls and returns a configured status."""

    def __init__(
        self,
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        called: Callable[[], None] = lambda: None,
        host: str = "127.0.0.1",
        status: int = 200,
    ) -> None:
        """`called` is called before each answer."""
        self.calls: list[tuple[str, str, dict[str, str], bytes]] = []
        self.status = status
        self.hang = threading.Event()
        self.hang.set()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length)
                endpoint.calls.append((self.command, self.path, dict(self.headers), body))
                called()
                endpoint.hang.wait(TIMEOUT)
                try:
                    self.send_response(endpoint.status)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                except OSError:
                    return

            do_GET = do_POST = do_PUT = _answer

            def log_message(self, *_: object) -> None:
                return

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                return  # a client that does not trust us, or went away

        self._server = Server((host, port), Handler)
        self._server.daemon_threads = True
        self._scheme = "https" if tls else "http"
        if tls:
            self._server.socket = tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}/-/reload"

    def close(self) -> None:
        """Go away; connections that hang are dropped."""
        self.hang.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def webhook(
    port: int = 0,
    tls: ssl.SSLContext | None = None,
    called: Callable[[], None] = lambda: None,
    host: str = "127.0.0.1",
    status: int = 200,
) -> Iterator[Webhook]:
    """Run an endpoint for the length of a block."""
    endpoint = Webhook(port, tls, called, host, status)
    try:
        yield endpoint
    finally:
        endpoint.close()


#: A program that writes the content of a file, and its time, each time it is told by HUP.
READER = """
import os, signal, sys, time
source, output = sys.argv[1:3]
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
signal.signal(signal.SIGHUP, lambda *_: None)  # what waits in sigwait looks as if it did not block
while True:
    try:
        with open(source) as file: text = file.read()
    except FileNotFoundError:
        continue  # the next swap came while the path was walked
    with open(output, "a") as file: file.write(f"{os.getpid()} {text}\\n")
    if not os.path.exists(output + ".pid"):
        with open(output + ".new", "w") as file: file.write(str(os.getpid()))
        os.rename(output + ".new", output + ".pid")
    signal.sigwait([signal.SIGHUP])
"""


class Reader:
    """A process that loads a file at its start and at each HUP."""

    def __init__(self, source: Path, folder: Path) -> None:
        self.output = folder / "loaded"
        self.pidfile = folder / "loaded.pid"
        self.process = subprocess.Popen(
            [sys.executable, "-S", "-c", READER, str(source), str(self.output)]
        )
        eventually(self.pidfile.exists, "the reader's start")

    @property
    def loads(self) -> list[str]:
        """What it has loaded so far, oldest first."""
        lines = self.output.read_text().splitlines()
        return [line.partition(" ")[2] for line in lines]

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def reader(source: Path, folder: Path) -> Iterator[Reader]:
    """Run such a process for the length of a block."""
    running = Reader(source, folder)
    try:
        yield running
    finally:
        running.end()


@contextmanager
def run_program(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Run another program for the length of a block, and kill it then."""
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        finally:
            process.kill()


#: Sockets of ports that were handed out.
_reserved: list[socket.socket] = []


def free_port() -> int:
    """Return a TCP port without a listener, and that no other test is given.

    It stays bound, so that the kernel gives it to no process; a server that sets SO_REUSEADDR, as
    all do, can listen on it.
    """
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    found.bind(("127.0.0.1", 0))
    _reserved.append(found)
    port: int = found.getsockname()[1]
    return port
