"""How fast does the agent tell a process, and what does it cost while nothing happens?

Volumes are written by the kubelet's protocol. The clock starts before the writer begins, so the
time includes its writing, and stops in the process that is told. All of it runs on one machine,
and what is told is asleep in between.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, Popen

from benchmarks.figures import Figure, Table, at_most
from benchmarks.machine import cpu_seconds, resident_mb
from benchmarks.scope import Scope, measured
from hotmap.agent.detect import Detector
from hotmap.core.payload import PayloadFile
from hotmap.volume.atomic_writer import AtomicWriter

__all__ = ["run"]

#: Seconds that one swap may take to be noticed before the run is given up.
_PATIENCE = 30.0


async def run(scope: Scope) -> AsyncIterator[Table]:
    """Measure in a thread: nothing here waits for an event loop."""
    with measured("Agent") as result:
        result.figures = await asyncio.to_thread(_figures, scope)
        result.notes = [
            "Settle time 0; from before the volume is written to the telling.",
            "Resident: the whole process (VmRSS) after all swaps.",
        ]
    yield result.table()


def _figures(scope: Scope) -> list[Figure]:
    swaps, starts, idle = scope.count(500), scope.count(20), scope.count(20)
    figures = []
    with _workplace() as place:
        volume = _Volume(place / "volume", files=1)
        with _Signalled(place) as told, _agent(place, volume, told.flags()) as pid:
            figures.append(Figure("swap → signal", _delays(volume, told, swaps), "ms", at_most(5)))
            figures.append(
                Figure("signals, resident", [resident_mb(pid)], "MB", at_most(16, "max"))
            )
            wakes, cpu = _idle(pid, idle)
            figures.append(Figure(f"wake-ups in {idle} s without a swap", [wakes]))
            figures.append(Figure("CPU in that time", [cpu], "ms"))
    with _workplace() as place:
        volume = _Volume(place / "volume", files=1)
        with _Called() as told, _agent(place, volume, told.flags()) as pid:
            figures.append(Figure("swap → webhook", _delays(volume, told, swaps), "ms", at_most(5)))
            figures.append(Figure("HTTP, resident", [resident_mb(pid)], "MB", at_most(16, "max")))
    with _workplace() as place:
        volume = _Volume(place / "volume", files=1000)
        with _Called() as told, _agent(place, volume, told.flags()):
            delays = _delays(volume, told, scope.count(50))
            figures.append(Figure("swap → webhook, 1,000 files written", delays, "ms"))
        reads = _reads(volume, scope.count(50))
        figures.append(Figure("1,000 files read and digested", reads, "ms", at_most(30)))
        figures.append(Figure("start → ready", _starts(place, starts), "ms", at_most(80)))
    return figures


@contextmanager
def _workplace() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="hotmap-bench-") as name:
        yield Path(name)


class _Volume:
    def __init__(self, path: Path, *, files: int) -> None:
        path.mkdir()
        self.path = path
        self._writer = AtomicWriter(str(path))
        self._files = {f"file-{one}": PayloadFile(b"x" * 100, 0o644) for one in range(files)}
        self._count = 0
        self.swap()

    def swap(self) -> None:
        self._count += 1
        self._files["file-0"] = PayloadFile(str(self._count).encode(), 0o644)
        self._writer.write(self._files)


class _Told:
    """Something that is told by the agent, and notes when."""

    def __init__(self) -> None:
        self._told = threading.Event()
        self.at = 0.0

    def note(self) -> None:
        self.at = time.perf_counter()
        self._told.set()

    def expect(self) -> None:
        self._told.clear()

    def wait(self) -> float:
        if not self._told.wait(_PATIENCE):
            raise RuntimeError("the agent told nobody; run it by hand to see why")
        return self.at


class _Signalled(_Told):
    """A process that passes a signal on to us."""

    def __init__(self, place: Path) -> None:
        super().__init__()
        self._pidfile = place / "pid"

    def __enter__(self) -> _Signalled:
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
            self.note()


#: Waits for the signal and passes it on by a pipe, which costs some 0.05 ms more.
_RECEIVER = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
signal.signal(signal.SIGUSR1, lambda *_: None)
os.write(1, b"ready\\n")
while signal.sigwait([signal.SIGUSR1]): os.write(1, b"told\\n")
"""


class _Called(_Told):
    """An endpoint that answers 200 at once."""

    def __enter__(self) -> _Called:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join()

    def flags(self) -> Sequence[str]:
        return ("--url", f"http://127.0.0.1:{self._listening.getsockname()[1]}/")

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection:
                if connection.recv(4096):
                    self.note()
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


@contextmanager
def _agent(place: Path, volume: _Volume, flags: Sequence[str]) -> Iterator[int]:
    with _started(place, volume, flags) as process:
        yield process.pid


@contextmanager
def _started(place: Path, volume: _Volume, flags: Sequence[str]) -> Iterator[Popen[bytes]]:
    command = (
        *(sys.executable, "-m", "hotmap", "agent", "--dir", str(volume.path), "--settle", "0"),
        *("--listen", "none", "--socket", str(place / "socket"), *flags),
    )
    process = Popen(command, stdin=DEVNULL, stderr=DEVNULL)
    try:
        while _ask(place / "socket", "/readyz") != 200:
            if process.poll() is not None:
                raise RuntimeError("the agent has ended; run it by hand to see why")
            time.sleep(0.0005)
        yield process
    finally:
        process.terminate()
        process.wait()


def _ask(path: Path, page: str) -> int:
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(str(path))
            connection.sendall(f"GET {page} HTTP/1.1\r\n\r\n".encode())
            return int(connection.recv(64).split()[1])
        except (OSError, IndexError):
            return 0


def _delays(volume: _Volume, told: _Told, swaps: int) -> list[float]:
    """Swap again and again; returns the milliseconds until somebody was told."""
    delays = []
    for _ in range(swaps):
        time.sleep(0.02)  # everybody is asleep again
        told.expect()
        began = time.perf_counter()
        volume.swap()
        delays.append((told.wait() - began) * 1e3)
    return delays


def _idle(pid: int, seconds: int) -> tuple[float, float]:
    """Watch the agent do nothing; returns its wake-ups and its milliseconds of CPU."""
    before, used = _switches(pid), cpu_seconds(pid)
    time.sleep(seconds)
    return _switches(pid) - before, (cpu_seconds(pid) - used) * 1e3


def _switches(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("\nvoluntary_ctxt_switches:")[2].split()[0])


def _reads(volume: _Volume, times: int) -> list[float]:
    detector = Detector([str(volume.path)], b"0" * 16)
    try:
        taken = []
        for _ in range(times):
            began = time.perf_counter()
            detector.read()
            taken.append((time.perf_counter() - began) * 1e3)
        return taken
    finally:
        detector.close()


def _starts(place: Path, times: int) -> list[float]:
    with _workplace() as other:
        volume = _Volume(other / "volume", files=1)
        taken = []
        for _ in range(times):
            began = time.perf_counter()
            with _started(place, volume, ()):
                taken.append((time.perf_counter() - began) * 1e3)
        return taken
