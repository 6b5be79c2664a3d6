"""An event loop whose time jumps over every pause in which nothing can happen.

A controller that settles for 30 seconds is tested in milliseconds, and on a busy machine none of
its time-outs runs out early: time stands still (but for what the processor needs) while there is
anything to do. Sockets are real; both of their ends must be on this loop.

Time jumps only when the kernel has nothing for the loop, nothing is under way between two of the
loop's sockets (a busy machine delivers late), and no thread works for it. What another process does
cannot be known, so that no process can be started from here.

A folder's conftest imports `pytest_asyncio_loop_factories`, which gives this loop to all of the
folder's tests but those that are marked `real_time`.
"""

from __future__ import annotations

import asyncio
import fcntl
import selectors
import socket
import struct
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

__all__ = ["VirtualTimeLoop", "pytest_asyncio_loop_factories"]

_monotonic, _wall, _clock_gettime = time.monotonic, time.time, time.clock_gettime

#: Seconds that are waited before a jump, at least. What was sent on one socket of this machine is
#: there on the other at once, save that the kernel may be late with it under load.
_GRACE = 0.001

#: Jumps up to this length are made without it: they let nothing but polls and pauses end.
_SHORT = 0.02

#: The same as a share of the jump: a time-out of 30 s is given 30 ms to be none.
_SHARE = 0.001

#: Seconds between two looks at what threads do, and at what is under way.
_TICK = 0.005

#: Seconds without progress after which no jump waits for what is under way: its receiver does
#: not read.
_UNDER_WAY = 2.0

#: Of TCP_INFO (linux/tcp.h, struct tcp_info): its size, and the offsets of tcpi_unacked and of
#: tcpi_bytes_acked, tcpi_bytes_received.
_TCP_INFO_SIZE = 160
_UNACKED = struct.Struct("=24xI")
_BYTES = struct.Struct("=120xQQ")
_NOT_SENT = struct.Struct("=144xI")


class _Connections:
    """The registered TCP sockets, and what is under way between them.

    Both ends of a connection are on the loop: what one of them has written and the other has not
    received yet is under way. (That a receiver has not acknowledged it says nothing: it waits up to
    40 ms with that.)
    """

    def __init__(self) -> None:
        self._sockets: dict[int, socket.socket] = {}
        #: What stayed under way for too long, so that no jump waits for it again.
        self._stuck: frozenset[tuple[object, ...]] = frozenset()

    def add(self, fd: int) -> None:
        try:
            found = socket.socket(fileno=fd)
        except OSError:
            return  # a pipe
        if found.family == socket.AF_INET and found.type == socket.SOCK_STREAM:
            self._sockets[fd] = found
        else:
            found.detach()

    def remove(self, fd: int) -> None:
        if (found := self._sockets.pop(fd, None)) is not None:
            found.detach()

    def remove_all(self) -> None:
        for fd in tuple(self._sockets):
            self.remove(fd)

    def under_way(self, writing: frozenset[int]) -> frozenset[tuple[object, ...]]:
        """Return what is under way, apart from what is stuck; `writing` may be connecting."""
        sent: dict[tuple[object, object], int] = {}
        received: dict[tuple[object, object], int] = {}
        found: set[tuple[object, ...]] = set()
        for fd, sock in self._sockets.items():
            try:
                here, there = sock.getsockname(), sock.getpeername()
                info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_SIZE)
            except OSError:
                if fd in writing:
                    found.add((fd, "connecting"))
                continue
            acked, arrived = _BYTES.unpack_from(info)
            received[there, here] = arrived
            (unacked,), (not_sent,) = _UNACKED.unpack_from(info), _NOT_SENT.unpack_from(info)
            if unacked or not_sent:
                waiting = struct.unpack("i", fcntl.ioctl(fd, termios.TIOCOUTQ, b"\0" * 4))[0]
                sent[here, there] = acked + waiting
        for path, written in sent.items():
            # The begin of a connection counts as one byte of one end.
            if path not in received or written > received[path] + 1:
                found.add((*path, written, received.get(path)))
        return frozenset(found) - self._stuck

    def give_up(self, found: frozenset[tuple[object, ...]]) -> None:
        """Let no later jump wait for these."""
        self._stuck |= found


class _Selector(selectors.EpollSelector):
    """A selector that does not wait for what only time brings."""

    def __init__(self) -> None:
        super().__init__()
        self._connections = _Connections()
        #: Seconds by which time has jumped so far.
        self.jumped = 0.0
        #: Calls that threads have not returned from.
        self.working = 0

    def register(
        self, fileobj: FileDescriptorLike, events: int, data: Any = None
    ) -> selectors.SelectorKey:
        key = super().register(fileobj, events, data)
        self._connections.add(key.fd)
        return key

    def unregister(self, fileobj: FileDescriptorLike) -> selectors.SelectorKey:
        key = super().unregister(fileobj)
        self._connections.remove(key.fd)
        return key

    def close(self) -> None:
        self._connections.remove_all()
        super().close()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if timeout is None:
            return super().select(_TICK if self.working else None)
        if self.working:
            return super().select(min(timeout, _TICK))
        began = _monotonic()
        if timeout > _SHORT:
            ready = super().select(min(timeout, max(_GRACE, timeout * _SHARE)))
            ready = ready or self._wait_for_delivery(timeout)
        if not ready:
            self.jumped += max(0.0, timeout - (_monotonic() - began))
        return ready

    def _wait_for_delivery(self, timeout: float) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait until something is ready or nothing is under way."""
        writing = frozenset(
            key.fd for key in self.get_map().values() if key.events & selectors.EVENT_WRITE
        )
        before: frozenset[tuple[object, ...]] = frozenset()
        began = progressed = _monotonic()
        while found := self._connections.under_way(writing):
            if ready := super().select(_TICK):
                return ready
            now = _monotonic()
            if found != before:
                before, progressed = found, now
            elif now - progressed >= _UNDER_WAY:
                self._connections.give_up(found)
            if now - began >= timeout:
                break
        return super().select(0)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """The loop; while it runs, `time.time` and the clock since boot jump with it."""

    def __init__(self) -> None:
        self._selector_that_jumps = _Selector()
        super().__init__(self._selector_that_jumps)

    def time(self) -> float:
        return _monotonic() + self._selector_that_jumps.jumped

    def run_forever(self) -> None:
        with self._clocks_that_jump():
            super().run_forever()

    @contextmanager
    def _clocks_that_jump(self) -> Iterator[None]:
        time.time = lambda: _wall() + self._selector_that_jumps.jumped
        time.clock_gettime = self._clock_gettime
        try:
            yield
        finally:
            time.time, time.clock_gettime = _wall, _clock_gettime

    def _clock_gettime(self, clock: int) -> float:
        return _clock_gettime(clock) + self._selector_that_jumps.jumped

    def run_in_executor(  # type: ignore[override]  # what asyncio declares is not a method's type
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        selector = self._selector_that_jumps
        future = super().run_in_executor(executor, func, *args)
        selector.working += 1

        def returned(_: asyncio.Future[Any]) -> None:
            selector.working -= 1

        future.add_done_callback(returned)
        return future

    async def subprocess_exec(self, *args: Any, **options: Any) -> Any:
        raise RuntimeError("a process does not live in virtual time: mark the test real_time")

    subprocess_shell = subprocess_exec


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Choose the loop of a test; a hook of pytest-asyncio."""
    if item.get_closest_marker("real_time"):
        return {"real_time": asyncio.new_event_loop}
    return {"virtual_time": VirtualTimeLoop}
