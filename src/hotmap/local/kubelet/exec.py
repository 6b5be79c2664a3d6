"""A command that runs inside a container on somebody's behalf: the kubelet's end of `exec`."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING, Literal, cast

if TYPE_CHECKING:
    from hotmap.local.kubelet.runtime import Process, Runtime
    from hotmap.local.kubelet.sandbox import ContainerSpec

Chunk = tuple[Literal["stdout", "stderr"], bytes]


class Command:
    """A running command; implements `apiserver.kubelet_api.ExecSession`, without a terminal."""

    def __init__(self) -> None:
        self._chunks: asyncio.Queue[Chunk | None] = asyncio.Queue()
        self._input: asyncio.WriteTransport | None = None
        self._process: Process | None = None
        self._end: asyncio.Task[int] | None = None

    @classmethod
    async def start(
        cls, runtime: Runtime, container: Process, spec: ContainerSpec, *, stdin: bool
    ) -> Command:
        """Start `spec.argv` in the container's namespaces.

        Raises:
            StartFailed: the container has ended, or the command could not be executed.
        """
        command = cls()
        reader = await command._open_input() if stdin else None
        try:
            command._process = await runtime.execute(container, spec, command._take, stdin=reader)
        except BaseException:
            await command.close_input()
            raise
        finally:
            if reader is not None:
                os.close(reader)
        command._end = asyncio.create_task(command._finish(command._process))
        return command

    async def read(self) -> Chunk | None:
        """Wait for output; None when both streams have ended."""
        chunk = await self._chunks.get()
        if chunk is None:
            # Whoever reads on gets the same answer.
            self._chunks.put_nowait(None)
        return chunk

    async def write(self, data: bytes) -> None:
        """Pass on input; what the command no longer reads is dropped."""
        if self._input is not None and not self._input.is_closing():
            self._input.write(data)

    async def close_input(self) -> None:
        """End the command's input, once what was written is through."""
        if self._input is not None:
            self._input.close()

    async def resize(self, width: int, height: int) -> None:
        """Do nothing: there is no terminal."""

    async def wait(self) -> int:
        """Wait for the end; return the exit code, 128 + N after signal N."""
        assert self._end is not None
        return await asyncio.shield(self._end)

    async def close(self) -> None:
        """Kill the command if it still runs, and wait for its end."""
        assert self._process is not None
        if self._process.running:
            self._process.signal(signal.SIGKILL)
        await self.wait()

    def _take(self, stream: str, data: bytes) -> None:
        self._chunks.put_nowait((cast('Literal["stdout", "stderr"]', stream), data))

    async def _finish(self, process: Process) -> int:
        code = await process.wait()
        self._chunks.put_nowait(None)
        await self.close_input()
        return code

    async def _open_input(self) -> int:
        reader, writer = os.pipe()
        transport, _ = await asyncio.get_running_loop().connect_write_pipe(
            asyncio.Protocol, os.fdopen(writer, "wb", 0)
        )
        self._input = transport
        return reader
