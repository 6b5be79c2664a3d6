"""A command that runs inside a container: the kubelet's end of `exec`.

Without a terminal there are three pipes; with one, the streams are the two ends of a pseudo
terminal, and all output is "stdout".
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

from hotmap.local.kubelet.session_streams import InputPipe, OutputQueue, set_terminal_size

if TYPE_CHECKING:
    from hotmap.core.errors import ApiError
    from hotmap.local.kubelet.runtime import Process, Runtime
    from hotmap.local.kubelet.sandbox import ContainerSpec
    from hotmap.local.kubelet.session_streams import Chunk


class Command:
    """A running command; implements `local.kubelet_api.RemoteSession`."""

    def __init__(self) -> None:
        self._output = OutputQueue()
        self._input: InputPipe | None = None
        self._terminal: int | None = None
        self._process: Process | None = None
        self._end: asyncio.Task[int] | None = None

    @classmethod
    async def start(
        cls, runtime: Runtime, container: Process, spec: ContainerSpec, *, stdin: bool, tty: bool
    ) -> Command:
        """Start `spec.argv` in the container's namespaces.

        Raises:
            StartFailed: the container has ended, or the command could not be executed.
        """
        command = cls()
        try:
            if tty:
                await command._start_in_terminal(runtime, container, spec)
            else:
                await command._start_with_pipes(runtime, container, spec, stdin=stdin)
        except BaseException:
            command._release()
            raise
        assert command._process is not None
        command._output.process = command._process
        command._end = asyncio.create_task(command._finish(command._process))
        return command

    async def read(self) -> Chunk | None:
        """Wait for output; None when both streams have ended."""
        return await self._output.get()

    async def write(self, data: bytes) -> None:
        """Pass on input; what the command no longer reads is dropped."""
        if self._input is not None:
            await self._input.write(data)

    async def close_input(self) -> None:
        """Close the command's input after everything written has been delivered.

        A terminal stays open: its end-of-file character ends the input.
        """
        if self._input is not None and self._terminal is None:
            self._input.close()

    async def resize(self, width: int, height: int) -> None:
        """Set for the command the size of its terminal, if it has one."""
        if self._terminal is not None:
            set_terminal_size(self._terminal, width, height)

    async def wait(self) -> int:
        """Wait for the end; return the exit code, 128 + N after signal N."""
        assert self._end is not None
        return await asyncio.shield(self._end)

    async def close(self) -> None:
        """Kill the command if it still runs, and wait for its end."""
        assert self._process is not None
        self._output.release()
        if self._process.running:
            self._process.signal(signal.SIGKILL)
        await self.wait()

    async def _finish(self, process: Process) -> int:
        code = await process.wait()
        self._output.end()
        self._release()
        return code

    def _release(self) -> None:
        if self._input is not None:
            self._input.abort()
        if self._terminal is not None:
            os.close(self._terminal)
            self._terminal = None

    async def _start_with_pipes(
        self, runtime: Runtime, container: Process, spec: ContainerSpec, *, stdin: bool
    ) -> None:
        if not stdin:
            self._process = await runtime.execute(container, spec, self._output.put)
            return
        reader, writer = os.pipe()
        try:
            self._input = await InputPipe.open(writer)
            self._process = await runtime.execute(container, spec, self._output.put, stdin=reader)
        finally:
            os.close(reader)

    async def _start_in_terminal(
        self, runtime: Runtime, container: Process, spec: ContainerSpec
    ) -> None:
        self._terminal, inside = os.openpty()
        try:
            self._input = await InputPipe.open(os.dup(self._terminal))
            terminal = (self._terminal, inside)
            self._process = await runtime.execute(
                container, spec, self._output.put, terminal=terminal
            )
        finally:
            os.close(inside)


class FailedCommand:
    """A command that could not be executed; implements `local.kubelet_api.RemoteSession`.

    The client learns it as it learns how a command ended, not as an answer to its request.
    """

    def __init__(self, error: ApiError) -> None:
        self._error = error

    async def read(self) -> Chunk | None:
        """There is no output."""
        return None

    async def write(self, data: bytes) -> None:
        """Discard input; there is no reader."""

    async def close_input(self) -> None:
        """There is none."""

    async def resize(self, width: int, height: int) -> None:
        """There is no terminal."""

    async def wait(self) -> int:
        """Raise why it could not be executed."""
        raise self._error

    async def close(self) -> None:
        """Nothing is held."""
