"""What agents are measured with: volumes, agents as processes, and receivers of their webhooks."""

from __future__ import annotations

import shutil
import socket
import ssl
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, Popen

from hotmap.core.payload import PayloadFile
from hotmap.volume.atomic_writer import AtomicWriter

__all__ = [
    "TIMEOUT",
    "Receiver",
    "SignalReceiver",
    "Volume",
    "WebhookReceiver",
    "agent",
    "agent_process",
    "ask",
    "workplace",
]

#: Seconds that something may take before the run is given up.
TIMEOUT = 30.0


@contextmanager
def workplace() -> Iterator[Path]:
    """Make a folder for the length of a block."""
    with tempfile.TemporaryDirectory(prefix="hotmap-bench-") as name:
        yield Path(name)


class Volume:
    """A mounted ConfigMap, written as the kubelet writes it."""

    def __init__(self, path: Path, *, files: int) -> None:
        path.mkdir()
        self.path = path
        self._writer = AtomicWriter(str(path))
        self._files = {f"file-{number}": PayloadFile(b"x" * 100, 0o644) for number in range(files)}
        self._count = 0
        self.swap()

    def swap(self) -> None:
        """Publish other content."""
        self._count += 1
        self._files["file-0"] = PayloadFile(str(self._count).encode(), 0o644)
        self._writer.write(self._files)

    def republish(self) -> None:
        """Publish the same content as another revision, as projected volumes do for tokens."""
        link = self.path / "..data"
        revision = self.path / f"..2026_01_01_00_00_00.{time.monotonic_ns()}"
        shutil.copytree(link.resolve(), revision)
        draft = self.path / "..data_tmp"
        draft.symlink_to(revision.name)
        draft.rename(link)


class Receiver:
    """What an agent notifies of a change; records when."""

    def __init__(self) -> None:
        self._is_notified = threading.Event()
        self.at = 0.0

    def record_notification(self) -> None:
        self.at = time.perf_counter()
        self._is_notified.set()

    def clear(self) -> None:
        self._is_notified.clear()

    def wait(self) -> float:
        if not self._is_notified.wait(TIMEOUT):
            raise RuntimeError("the agent called no webhook; run it by hand to see why")
        return self.at


class SignalReceiver(Receiver):
    """A process that passes a signal on to us."""

    def __init__(self, place: Path) -> None:
        super().__init__()
        self._pidfile = place / "pid"

    def __enter__(self) -> SignalReceiver:
        self._process = Popen(
            [sys.executable, "-S", "-c", _RECEIVER], stdin=DEVNULL, stdout=-1, bufsize=0
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()
        self._pidfile.write_text(str(self._process.pid))
        self._thread = threading.Thread(target=self._receive, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._thread.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def flags(self) -> Sequence[str]:
        return ("--signal", "USR1", "--process", f"pidfile:{self._pidfile}")

    def _receive(self) -> None:
        assert self._process.stdout is not None
        while self._process.stdout.readline():
            self.record_notification()


#: Waits for the signal and passes it on by a pipe, which costs some 0.05 ms more.
_RECEIVER = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
signal.signal(signal.SIGUSR1, lambda *_: None)
os.write(1, b"ready\\n")
while signal.sigwait([signal.SIGUSR1]): os.write(1, b"told\\n")
"""


class WebhookReceiver(Receiver):
    """An endpoint: answers 200 at once, unless `status` is set."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__()
        self._tls = tls
        #: Answered with; None leaves the caller without an answer.
        self.status: int | None = 200
        #: Calls that were answered, and all.
        self.answered = self.calls = 0
        self._port = 0
        self._left: list[socket.socket] = []

    def __enter__(self) -> WebhookReceiver:
        self.listen()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def listen(self) -> None:
        """Listen, at the same port as before."""
        self._listening = socket.create_server(("127.0.0.1", self._port))
        self._port = self._listening.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Refuse connections from now on, and drop those that wait."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join()
        for connection in self._left:
            connection.close()
        self._left.clear()

    def flags(self) -> Sequence[str]:
        """Those of an agent that is to call it."""
        scheme = "https" if self._tls else "http"
        return ("--url", f"{scheme}://127.0.0.1:{self._port}/")

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            if self._tls:
                connection = self._tls.wrap_socket(connection, server_side=True)
            if connection.recv(4096):
                self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        self.calls += 1
        if self.status is None:
            self._left.append(connection)
            return
        with connection:
            if self.status == 200:
                self.answered += 1
                self.record_notification()
            connection.sendall(f"HTTP/1.1 {self.status} X\r\nContent-Length: 0\r\n\r\n".encode())


@contextmanager
def agent(place: Path, volume: Volume, flags: Sequence[str]) -> Iterator[int]:
    """Run an agent that is ready, with settle time 0 unless flags say another; gives its number."""
    with agent_process(place, volume, flags) as process:
        yield process.pid


@contextmanager
def agent_process(place: Path, volume: Volume, flags: Sequence[str]) -> Iterator[Popen[bytes]]:
    """Run such an agent; gives its process."""
    settle = () if "--settle" in flags else ("--settle", "0")
    command = (
        *(sys.executable, "-m", "hotmap", "agent", "--dir", str(volume.path), *settle),
        *("--listen", "none", "--socket", str(place / "socket"), *flags),
    )
    process = Popen(command, stdin=DEVNULL, stderr=DEVNULL)
    try:
        while ask(place / "socket", "/readyz") != 200:
            if process.poll() is not None:
                raise RuntimeError("the agent has ended; run it by hand to see why")
            time.sleep(0.0005)
        yield process
    finally:
        process.terminate()
        process.wait()


def ask(path: Path, page: str) -> int:
    """Ask an agent on its socket; gives the status, 0 while it does not answer."""
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(str(path))
            connection.sendall(f"GET {page} HTTP/1.1\r\n\r\n".encode())
            return int(connection.recv(64).split()[1])
        except (OSError, IndexError):
            return 0
