"""Standard streams of one run of a container: its log, and the clients attached to it.

With `stdin` the container has a pipe for input, with `tty` a pseudo terminal for everything. The
input stays open when a client goes, unless `stdinOnce` is set (core/v1 Container).
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from hotmap.local.kubelet.session_streams import InputPipe, OutputQueue, set_terminal_size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotmap.local.kubelet.logs import ContainerLog
    from hotmap.local.kubelet.runtime import Process, Runtime
    from hotmap.local.kubelet.sandbox import ContainerSpec
    from hotmap.local.kubelet.session_streams import Chunk


class ContainerStreams:
    """Passes the output of one run to its log and to clients, and their input to it."""

    def __init__(self, container: Mapping[str, Any], log: ContainerLog) -> None:
        self._log = log
        self._has_input = bool(container.get("stdin"))
        self._once = bool(container.get("stdinOnce"))
        self._tty = bool(container.get("tty"))
        self._input: InputPipe | None = None
        self._terminal: int | None = None
        self._clients: set[OutputQueue] = set()
        self._process: Process | None = None
        self._ended = asyncio.Event()

    async def start(self, runtime: Runtime, spec: ContainerSpec) -> Process:
        """Start the container.

        Raises:
            StartFailed: it could not be started.
        """
        try:
            if self._tty:
                process = await self._start_in_terminal(runtime, spec)
            else:
                process = await self._start_with_pipes(runtime, spec)
        except BaseException:
            self.close()
            raise
        self._process = process
        return process

    async def _start_in_terminal(self, runtime: Runtime, spec: ContainerSpec) -> Process:
        self._terminal, inside = os.openpty()
        try:
            if self._has_input:
                self._input = await InputPipe.open(os.dup(self._terminal))
            return await runtime.run(spec, self._put, terminal=(self._terminal, inside))
        finally:
            os.close(inside)

    async def _start_with_pipes(self, runtime: Runtime, spec: ContainerSpec) -> Process:
        if not self._has_input:
            return await runtime.run(spec, self._put)
        reader, writer = os.pipe()
        try:
            self._input = await InputPipe.open(writer)
            return await runtime.run(spec, self._put, stdin=reader)
        finally:
            os.close(reader)

    def _put(self, stream: str, data: bytes) -> None:
        self._log.write(stream, data)
        for client in self._clients:
            client.put(stream, data)

    def close(self) -> None:
        """End the log and the clients: the run is over."""
        if self._ended.is_set():
            return
        self._ended.set()
        self._log.close()
        for client in self._clients:
            client.end()
        if self._input is not None:
            self._input.abort()
        if self._terminal is not None:
            os.close(self._terminal)
            self._terminal = None

    def attach(self, *, stdin: bool) -> AttachSession:
        """Join a client; it sees what is written from now on."""
        queue = OutputQueue()
        queue.process = self._process
        session = AttachSession(self, queue, self._input if stdin else None)
        self._clients.add(queue)
        if self._ended.is_set():
            queue.end()
        return session

    def detach(self, queue: OutputQueue) -> None:
        """Forget a client."""
        self._clients.discard(queue)
        queue.release()
        queue.end()

    def input_ended(self) -> None:
        """Record that a client with input has finished sending."""
        if self._once and self._input is not None and self._terminal is None:
            self._input.close()

    def resize(self, width: int, height: int) -> None:
        """Set for the container the size of its terminal, if it has one."""
        if self._terminal is not None:
            set_terminal_size(self._terminal, width, height)


class AttachSession:
    """A client attached to a container; implements `local.kubelet_api.RemoteSession`."""

    def __init__(
        self, streams: ContainerStreams, queue: OutputQueue, pipe: InputPipe | None
    ) -> None:
        self._streams = streams
        self._queue = queue
        self._input = pipe
        self._closed = False

    async def read(self) -> Chunk | None:
        """Wait for output; None when the run is over."""
        return await self._queue.get()

    async def write(self, data: bytes) -> None:
        """Pass input to the container."""
        if self._input is not None:
            await self._input.write(data)

    async def close_input(self) -> None:
        """Record that the client has finished sending."""
        if self._input is not None:
            self._input = None
            self._streams.input_ended()

    async def resize(self, width: int, height: int) -> None:
        """Set the size of the container's terminal, if it has one."""
        self._streams.resize(width, height)

    async def wait(self) -> int:
        """Return 0: the exit code of the container is not that of the session."""
        return 0

    async def close(self) -> None:
        """Leave the container; it goes on."""
        if not self._closed:
            self._closed = True
            await self.close_input()
            self._streams.detach(self._queue)
