"""A small TCP proxy that makes a connection bad: late, cut, half-open or stalled.

It forwards bytes and understands none of them, so TLS passes through unharmed. It runs in a
thread of its own and is driven from any test, asynchronous or not.
"""

import asyncio
import socket
import struct
import threading
from collections.abc import Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

CHUNK = 65536
# How many chunks of one direction may be on their way; beyond, the sender is held back.
IN_FLIGHT = 64
# Closing then sends a reset instead of an orderly end (socket(7), SO_LINGER).
RESET = struct.pack("ii", 1, 0)

T = TypeVar("T")


class Statistics(NamedTuple):
    """What a proxy has seen."""

    open: int  # connections now
    accepted: int  # connections since the start
    forwarded: int  # bytes, both directions
    lost: int  # bytes swallowed by half-open connections


class FaultProxy:
    """Listens on a port of 127.0.0.1 and forwards to another one; well until told otherwise.

    Use it in a with block: the end of the block closes every connection and the port.
    """

    def __init__(self, target_port: int) -> None:
        self.port = 0  # known inside the with block
        self._target = ("127.0.0.1", target_port)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name=f"fault proxy to {target_port}", daemon=True
        )
        self._links: set[_Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._faults = _Faults()
        self._accepted = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._run(self._listen())
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def delay(self, seconds: float) -> None:
        """Deliver every byte `seconds` late, in each direction; order and bandwidth stay."""
        self._run(self._change(delay=seconds))

    def cut(self) -> None:
        """Reset every connection, and reset new ones at once, until `heal`."""
        self._run(self._cut())

    def stall(self) -> None:
        """Carry nothing, in new connections neither, until `heal` delivers what was held back.

        As a cable that is pulled out and put in again: TCP loses nothing.
        """
        self._run(self._change(stalled=True))

    def half_open(self) -> None:
        """Let the present connections carry nothing ever again without closing them.

        As when a firewall forgets them or the peer's machine vanishes. New connections work.
        """
        self._run(self._half_open())

    def heal(self) -> None:
        """Undo delay, stall and cut. Connections that are half open stay so."""
        self._run(self._change(delay=0.0, stalled=False, cutting=False))

    def statistics(self) -> Statistics:
        """Return the counters at this moment."""
        return self._run(self._count())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=10)

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._accept, "127.0.0.1", 0)

    async def _close(self) -> None:
        # Before the server closes, or what is being accepted would never be closed (asyncio 3.11).
        for listening in self._server.sockets:
            self._loop.remove_reader(listening)
        await self._cut()
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(others)
        self._server.close()
        await self._server.wait_closed()

    async def _change(self, **changed: Any) -> None:
        self._faults.change(**changed)

    async def _cut(self) -> None:
        self._faults.change(cutting=True)
        for link in list(self._links):
            link.reset()

    async def _half_open(self) -> None:
        for link in self._links:
            link.silent = True

    async def _count(self) -> Statistics:
        faults = self._faults
        return Statistics(len(self._links), self._accepted, faults.forwarded, faults.lost)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._accepted += 1
        link = _Link(self._faults, [writer])
        self._links.add(link)
        task = asyncio.ensure_future(self._serve(reader, link))
        self._tasks.add(task)

        # Not by the task itself, which may be cancelled before its first step.
        def served(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            self._links.discard(link)
            link.close()

        task.add_done_callback(served)

    async def _serve(self, reader: asyncio.StreamReader, link: "_Link") -> None:
        [writer] = link.writers
        if self._faults.cutting:
            link.reset()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            link.reset()  # the target is gone: what a refused connection comes closest to
            return
        link.writers.append(far_writer)
        async with asyncio.TaskGroup() as pumps:
            pumps.create_task(link.pump(reader, far_writer))
            pumps.create_task(link.pump(far_reader, writer))


class _Faults:
    """What is wrong at present; shared by all connections of a proxy."""

    def __init__(self) -> None:
        self.delay = 0.0
        self.cutting = False
        self.forwarded = 0
        self.lost = 0
        self._flowing = asyncio.Event()
        self._flowing.set()

    def change(
        self,
        *,
        delay: float | None = None,
        stalled: bool | None = None,
        cutting: bool | None = None,
    ) -> None:
        if delay is not None:
            self.delay = delay
        if cutting is not None:
            self.cutting = cutting
        if stalled is not None:
            (self._flowing.clear if stalled else self._flowing.set)()

    async def wait_flowing(self) -> None:
        await self._flowing.wait()


class _Link:
    """One connection: the client's side and the target's."""

    def __init__(self, faults: _Faults, writers: list[asyncio.StreamWriter]) -> None:
        self.silent = False
        self.writers = writers
        self._faults = faults

    async def pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one direction until its end; an end is carried too, as late as the bytes."""
        waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(IN_FLIGHT)
        async with asyncio.TaskGroup() as ends:
            ends.create_task(self._take(reader, waiting))
            ends.create_task(self._deliver(waiting, writer))

    def close(self) -> None:
        """Close both sides in an orderly way, once what was written is sent."""
        for writer in self.writers:
            writer.close()

    def reset(self) -> None:
        """Close both sides with a reset; again is harmless."""
        for writer in self.writers:
            if (raw := writer.get_extra_info("socket")) is not None and raw.fileno() >= 0:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            writer.transport.abort()

    async def _take(
        self, reader: asyncio.StreamReader, waiting: asyncio.Queue[tuple[float, bytes]]
    ) -> None:
        clock = asyncio.get_running_loop().time
        data = b"-"
        while data:
            try:
                data = await reader.read(CHUNK)
            except OSError:
                self.reset()
                data = b""
            await waiting.put((clock() + self._faults.delay, data))

    async def _deliver(
        self, waiting: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter
    ) -> None:
        clock = asyncio.get_running_loop().time
        data = b"-"
        while data:
            due, data = await waiting.get()
            await asyncio.sleep(max(0.0, due - clock()))
            await self._faults.wait_flowing()
            if self.silent:
                self._faults.lost += len(data)
                continue
            with suppress(OSError, RuntimeError):  # the other direction was reset
                if data:
                    writer.write(data)
                    await writer.drain()
                    self._faults.forwarded += len(data)
                elif writer.can_write_eof():
                    writer.write_eof()
