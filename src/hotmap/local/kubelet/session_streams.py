"""The streams between a process of a container and a client: what either has not read waits.

Neither end can fill the memory: a process without a reader blocks in its writes, and a client
whose input is not read gets no more accepted.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import termios
from typing import TYPE_CHECKING, Literal, cast

if TYPE_CHECKING:
    from hotmap.local.kubelet.runtime import Process

Chunk = tuple[Literal["stdout", "stderr"], bytes]

#: Bytes of output that may wait for a client before the process has to.
OUTPUT_LIMIT = 1 << 20


class OutputQueue:
    """Output of a process that waits for one client."""

    def __init__(self) -> None:
        #: The process, once it is known; it is paused while too much waits.
        self.process: Process | None = None
        self._chunks: asyncio.Queue[Chunk | None] = asyncio.Queue()
        self._size = 0
        self._paused = False

    def put(self, stream: str, data: bytes) -> None:
        """Add output as it arrives."""
        self._chunks.put_nowait((cast('Literal["stdout", "stderr"]', stream), data))
        self._size += len(data)
        if self._size > OUTPUT_LIMIT and not self._paused and self.process is not None:
            self._paused = True
            self.process.pause_output()

    def end(self) -> None:
        """Record that nothing more comes."""
        self._chunks.put_nowait(None)

    async def get(self) -> Chunk | None:
        """Wait for output; None when it has ended, and after that."""
        chunk = await self._chunks.get()
        if chunk is None:
            self._chunks.put_nowait(None)
            return None
        self._size -= len(chunk[1])
        if self._size <= OUTPUT_LIMIT // 2:
            self.release()
        return chunk

    def release(self) -> None:
        """Let the process go on, even without a reader."""
        if self._paused and self.process is not None:
            self._paused = False
            self.process.resume_output()


class InputPipe(asyncio.Protocol):
    """The writing end of a process's standard input: a pipe or a terminal."""

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport | None = None
        self._writable = asyncio.Event()
        self._writable.set()

    @classmethod
    async def open(cls, fd: int) -> InputPipe:
        """Take over a descriptor."""
        loop = asyncio.get_running_loop()
        transport, pipe = await loop.connect_write_pipe(cls, os.fdopen(fd, "wb", 0))
        pipe._transport = transport
        return pipe

    async def write(self, data: bytes) -> None:
        """Pass on input, and wait while much is unread; drop what will not be read."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)
            await self._writable.wait()

    def close(self) -> None:
        """Close it after everything written has been delivered."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close it at once."""
        if self._transport is not None:
            self._transport.abort()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._writable.set()


def set_terminal_size(terminal: int, width: int, height: int) -> None:
    """Set the size of a pseudo terminal, in characters; its programs get SIGWINCH."""
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
