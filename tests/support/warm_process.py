"""hotmap as a process of its own that has imported everything already.

A process that serves a test run imports hotmap once; each command is a fork of it, with its own
arguments, environment, streams, signals and exit status. It starts in a few milliseconds instead of
half a second. What an interpreter does at its own start is the walkthroughs' to test, which start
`python -m hotmap` as a person does.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

__all__ = ["WarmProcess", "run_warm"]

#: Serves one command per connection: reads its arguments and streams, writes its pid, and how it
#: ended as `subprocess` has it. It ends with its parent, when standard input is closed.
_SERVER = """
import importlib, json, os, pkgutil, select, socket, sys
import hotmap.__main__

# The agent starts without most of these modules, so it is not started from here.
for wing in ("cli", "controller", "core", "kube"):
    package = importlib.import_module(f"hotmap.{wing}")
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)


def serve(connection):
    message, streams, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    while not message.endswith(b"\\n"):
        message += connection.recv(1 << 20)
    request = json.loads(message)
    pid = os.fork()
    if pid == 0:
        connection.close()
        run(streams, request)
    connection.sendall(b"%d\\n" % pid)
    for stream in streams:
        os.close(stream)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    try:
        connection.sendall(b"%d\\n" % status)
    except OSError:
        pass
    os._exit(0)


def run(streams, request):
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, 256)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = ["hotmap", *request["arguments"]]
    status = 1
    try:
        hotmap.__main__.main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else bool(end.code)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                pass
        os._exit(status)


listening = socket.socket(fileno=int(sys.argv[1]))
running = set()
while True:
    ready, _, _ = select.select([0, listening], [], [])
    running -= {pid for pid in running if os.waitpid(pid, os.WNOHANG)[0]}
    if 0 in ready:
        os._exit(0)
    connection, _ = listening.accept()
    pid = os.fork()
    if pid == 0:
        listening.close()
        serve(connection)
    running.add(pid)
    connection.close()
"""


class _Server:
    """The process that forks, started when it is needed first."""

    def __init__(self) -> None:
        self._address = ""
        self._process: subprocess.Popen[bytes] | None = None

    def connect(self) -> socket.socket:
        if self._process is None:
            self._start()
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self._address)
        return connection

    def _start(self) -> None:
        folder = tempfile.mkdtemp(prefix="hotmap-tests-")
        self._address = f"{folder}/server"
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(self._address)
            listening.listen(64)
            self._process = subprocess.Popen(
                [sys.executable, "-c", _SERVER, str(listening.fileno())],
                stdin=subprocess.PIPE,
                pass_fds=[listening.fileno()],
                cwd="/",
                env={"PATH": os.environ["PATH"]},
            )
        atexit.register(self._end, Path(folder))

    def _end(self, folder: Path) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        (folder / "server").unlink()
        folder.rmdir()


_server = _Server()


class WarmProcess:
    """A command that runs, with the names that `asyncio.subprocess.Process` has."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        env: Mapping[str, str],
        stdout: IO[Any],
        stderr: IO[Any],
        stdin: IO[Any] | None = None,
        cwd: str = "/",
    ) -> None:
        self._status: int | None = None
        self._received = b""
        self._connection = _server.connect()
        request = {"arguments": list(arguments), "env": dict(env), "cwd": cwd}
        with Path(os.devnull).open("rb") as nothing:
            streams = [(stdin or nothing).fileno(), stdout.fileno(), stderr.fileno()]
            message = json.dumps(request).encode() + b"\n"
            sent = socket.send_fds(self._connection, [message], streams)
            self._connection.sendall(message[sent:])
        while b"\n" not in self._received:
            self._receive()
        number, _, self._received = self._received.partition(b"\n")
        self.pid = int(number)

    @property
    def returncode(self) -> int | None:
        """Its status as `subprocess` has it, None while it runs."""
        if self._status is None:
            self._connection.setblocking(False)
            try:
                return self._finish()
            except BlockingIOError:
                return None
        return self._status

    async def wait(self) -> int:
        """Wait for its end."""
        while (status := self.returncode) is None:  # noqa: ASYNC110  its connection is not polled
            await asyncio.sleep(0.01)
        return status

    def join(self) -> int:
        """Wait for its end, and let no other task run meanwhile."""
        if self._status is None:
            self._connection.setblocking(True)
            return self._finish()
        return self._status

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _finish(self) -> int:
        while not self._received.endswith(b"\n"):
            self._receive()
        self._status = int(self._received)
        self._connection.close()
        return self._status

    def _receive(self) -> None:
        received = self._connection.recv(64)
        if not received:
            raise EOFError("the process that starts commands has ended")
        self._received += received


def run_warm(
    *arguments: str, env: Mapping[str, str], stdin: bytes = b""
) -> tuple[int, bytes, bytes]:
    """Run a command to its end; return its status, its output and its errors."""
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as problems,
    ):
        given.write(stdin)
        given.seek(0)
        status = WarmProcess(
            arguments, env=env, stdin=given, stdout=out, stderr=problems, cwd=str(Path.cwd())
        ).join()
        for stream in (out, problems):
            stream.seek(0)
        return status, out.read(), problems.read()
