"""Containers as processes: start, execute, signal, wait. The asyncio end of `zygote`.

`environment` and `mounts` compute a container's command, environment and mounts; `actions` decides
when it is started or killed. Standard library only.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hotmap
from hotmap.core.errors import HotmapError, SettingsError
from hotmap.local.kubelet.images import Images
from hotmap.local.kubelet.zygote import MAX_PACKET

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotmap.local.kubelet.sandbox import ContainerSpec

#: Seconds within which the zygote must answer; it takes about 0.05.
START_LIMIT = 10.0
#: Seconds within which a zygote must end; it takes about 0.02.
STOP_LIMIT = 5.0
#: Seconds that output may still come after a process has ended; a descendant may hold the pipe.
OUTPUT_LIMIT = 1.0
#: Exit code of a process that was killed (containerd: 128 + signal number).
KILLED = 128 + signal.SIGKILL
_STOPPED = "the container runtime has stopped"


class StartFailed(HotmapError):
    """Raised when a command could not be executed in its container; the text says why."""


class Process:
    """A container's main process, or a command executed in a container."""

    def __init__(self, id: int, runtime: Runtime) -> None:
        loop = asyncio.get_running_loop()
        self.id = id
        self._runtime = runtime
        #: Why it could not be started, "" if it was. No exception: its traceback would refer to
        #: the environment, and it to the traceback, until the garbage collector comes by.
        self._started: asyncio.Future[str] = loop.create_future()
        self._exited: asyncio.Future[int] = loop.create_future()
        self._outputs: list[_Output] = []

    @property
    def running(self) -> bool:
        return not self._exited.done()

    async def wait(self) -> int:
        """Wait for the end and for all output; return the exit code, 128 + N after signal N."""
        code = await asyncio.shield(self._exited)
        read = -1
        while pending := [output.ended for output in self._outputs if not output.ended.done()]:
            now = sum(output.size for output in self._outputs)
            # What a slow reader has paused is not lost.
            if now == read and not any(output.paused for output in self._outputs):
                break
            read = now
            await asyncio.wait(pending, timeout=OUTPUT_LIMIT)
        return code

    def pause_output(self) -> None:
        """Read no output for now; once its pipes are full the process waits."""
        for output in self._outputs:
            output.pause()

    def resume_output(self) -> None:
        """Read output again."""
        for output in self._outputs:
            output.resume()

    def signal(self, number: int) -> None:
        """Send a signal; does nothing if the process has ended already.

        A container's main process is process 1 of its namespace: KILL ends all of the
        container, and a signal that it has no handler for does nothing, KILL and STOP excepted.
        """
        self._runtime.post({"op": "signal", "id": self.id, "signal": number})


class Runtime:
    """One zygote and the processes it has forked.

    `workspace` is a directory that containers hide under their own mounts; it stays empty. `images`
    says what images stand for.
    """

    def __init__(self, workspace: Path, images: Images | None = None) -> None:
        self.images = images or Images()
        self._workspace = workspace
        self._ids = itertools.count(1)
        self._processes: dict[int, Process] = {}
        self._outputs: set[asyncio.Future[None]] = set()
        self._zygote: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._ready: asyncio.Future[dict[str, Any]] | None = None
        #: How containers get their root: "overlay" or "bind" (see `sandbox`).
        self.root = ""
        #: True when an unprivileged user namespace replaces root privileges.
        self.rootless = False

    async def start(self) -> None:
        """Start the zygote and detect what this machine allows.

        Raises:
            SettingsError: neither root privileges nor user namespaces are available.
        """
        self._workspace.mkdir(parents=True, exist_ok=True)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._zygote = _start_zygote(theirs.fileno(), self._workspace)
        ours.setblocking(False)
        self._socket = ours
        loop = asyncio.get_running_loop()
        self._ready = loop.create_future()
        loop.add_reader(ours, self._receive)
        try:
            async with asyncio.timeout(START_LIMIT):
                answer = await self._ready
        except TimeoutError:
            answer = {"op": "refused", "message": f"no answer within {START_LIMIT:g} s"}
        if answer["op"] != "ready":
            await self.close()
            raise SettingsError(_refusal(answer["message"]))
        self.root, self.rootless = answer["root"], answer["rootless"]

    async def close(self) -> None:
        """Kill every process that was started here, and wait until all have ended."""
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None
        if self._zygote is not None:
            await asyncio.to_thread(_wait_or_kill, self._zygote)
            self._zygote = None
        self._forget_all()
        if self._outputs:
            # No writer is left, so all of them have ended already.
            await asyncio.wait(self._outputs)

    async def run(
        self,
        spec: ContainerSpec,
        output: Callable[[str, bytes], None],
        *,
        stdin: int | None = None,
        terminal: tuple[int, int] | None = None,
    ) -> Process:
        """Start a container and return once its command is executed.

        `output` gets ("stdout" or "stderr", bytes) as they come; the rest is as for `execute`.

        Raises:
            StartFailed: the root could not be made, or the command could not be executed.
        """
        return await self._launch({"op": "start"}, spec, output, stdin, terminal)

    async def execute(
        self,
        container: Process,
        spec: ContainerSpec,
        output: Callable[[str, bytes], None],
        *,
        stdin: int | None = None,
        terminal: tuple[int, int] | None = None,
    ) -> Process:
        """Run another command in a container's namespaces.

        `stdin` is a descriptor to read from; `terminal` is the outer and the inner end of a
        pseudo terminal in place of all three streams. The caller keeps ownership of all of them.

        Raises:
            StartFailed: the container has ended, or the command could not be executed.
        """
        message = {"op": "exec", "container": container.id}
        return await self._launch(message, spec, output, stdin, terminal)

    async def _launch(
        self,
        message: dict[str, Any],
        spec: ContainerSpec,
        output: Callable[[str, bytes], None],
        stdin: int | None = None,
        terminal: tuple[int, int] | None = None,
    ) -> Process:
        process = Process(next(self._ids), self)
        self._processes[process.id] = process
        with contextlib.ExitStack() as descriptors:

            def closing(fd: int) -> int:
                descriptors.callback(os.close, fd)
                return fd

            specification = closing(os.memfd_create("container"))
            os.write(specification, json.dumps(spec).encode())
            os.lseek(specification, 0, os.SEEK_SET)
            if terminal is not None:
                outside, inside = terminal
                await self._read_output(process, os.dup(outside), "stdout", output)
                streams = [inside, inside, inside]
            else:
                source = closing(os.open(os.devnull, os.O_RDONLY)) if stdin is None else stdin
                streams = [source]
                for name in ("stdout", "stderr"):
                    reader, writer = os.pipe()
                    streams.append(closing(writer))
                    await self._read_output(process, reader, name, output)
            await self._send({**message, "id": process.id}, [specification, *streams])
        failure = await process._started
        if failure:
            raise StartFailed(failure)
        return process

    async def _read_output(
        self, process: Process, fd: int, name: str, output: Callable[[str, bytes], None]
    ) -> None:
        stream = await _Output.open(fd, name, output)
        process._outputs.append(stream)
        self._outputs.add(stream.ended)
        stream.ended.add_done_callback(self._outputs.discard)

    def post(self, message: dict[str, Any]) -> None:
        """Send a small message without waiting; the end of the zygote is not reported."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.send(json.dumps(message).encode())

    async def _send(self, message: dict[str, Any], fds: list[int]) -> None:
        data = json.dumps(message).encode()
        while True:
            if self._socket is None:
                self._processes.pop(message["id"], None)
                raise StartFailed(_STOPPED)
            try:
                socket.send_fds(self._socket, [data], fds)
            except BlockingIOError:
                await _writable(self._socket)
            else:
                return

    def _receive(self) -> None:
        assert self._socket is not None
        try:
            data = self._socket.recv(MAX_PACKET)
        except BlockingIOError:
            return
        except ConnectionResetError:
            data = b""
        if not data:
            self._lost()
            return
        self._dispatch(json.loads(data))

    def _dispatch(self, message: dict[str, Any]) -> None:
        operation = message["op"]
        if operation in ("ready", "refused"):
            if self._ready is not None and not self._ready.done():
                self._ready.set_result(message)
            return
        process = self._processes.get(message["id"])
        if process is None:
            return
        if operation == "started":
            _settle(process._started, "")
            return
        del self._processes[process.id]
        if operation == "failed":
            _settle(process._exited, KILLED)
            _settle(process._started, message["message"])
        else:
            _settle(process._exited, message["code"])

    def _lost(self) -> None:
        """Mark every process as ended, since the zygote has ended."""
        assert self._socket is not None
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
        self._socket = None
        if self._ready is not None and not self._ready.done():
            self._ready.set_result(
                {"op": "refused", "message": "it exited without an error message"}
            )
        self._forget_all()

    def _forget_all(self) -> None:
        for process in self._processes.values():
            _settle(process._exited, KILLED)
            _settle(process._started, _STOPPED)
        self._processes.clear()


class _Output(asyncio.Protocol):
    """One pipe from a process; `ended` completes when the last writer has closed it."""

    def __init__(self, name: str, sink: Callable[[str, bytes], None]) -> None:
        self._name = name
        self._sink = sink
        self._transport: asyncio.ReadTransport | None = None
        self.paused = False
        #: Bytes read so far.
        self.size = 0
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @classmethod
    async def open(cls, fd: int, name: str, sink: Callable[[str, bytes], None]) -> _Output:
        loop = asyncio.get_running_loop()
        transport, output = await loop.connect_read_pipe(
            lambda: cls(name, sink), os.fdopen(fd, "rb", 0)
        )
        output._transport = transport
        return output

    def pause(self) -> None:
        if self._transport is not None and not self.paused:
            self.paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None and self.paused:
            self.paused = False
            self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        self.size += len(data)
        self._sink(self._name, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport, self.paused = None, False
        _settle(self.ended, None)


def _start_zygote(control: int, workspace: Path) -> subprocess.Popen[bytes]:
    """Start the helper without site packages, which it does not need and which take 20 ms."""
    return subprocess.Popen(
        [sys.executable, "-S", "-m", "hotmap.local.kubelet.zygote", str(control), str(workspace)],
        env={"PYTHONPATH": str(Path(hotmap.__file__).parent.parent)},
        pass_fds=[control],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        # In its own session: an interrupt typed at the terminal goes to the kubelet only.
        start_new_session=True,
    )


def _wait_or_kill(zygote: subprocess.Popen[bytes]) -> None:
    """Wait for the zygote to end after its socket is closed; kill it if it hangs."""
    try:
        zygote.wait(STOP_LIMIT)
    except subprocess.TimeoutExpired:
        zygote.kill()
        zygote.wait()


def _refusal(message: str) -> str:
    return (
        f"pods cannot be isolated on this machine ({message}): run as root, or allow unprivileged "
        "user namespaces (sysctl user.max_user_namespaces above 0; on Debian "
        "kernel.unprivileged_userns_clone=1; on Ubuntu "
        "kernel.apparmor_restrict_unprivileged_userns=0; in Docker --privileged)"
    )


async def _writable(sock: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    writable = loop.create_future()
    loop.add_writer(sock, _settle, writable, None)
    try:
        await writable
    finally:
        loop.remove_writer(sock)


def _settle(future: asyncio.Future[Any], value: object) -> None:
    if not future.done():
        future.set_result(value)
