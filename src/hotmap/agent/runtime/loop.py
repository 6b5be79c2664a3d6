"""One thread's poll loop: descriptors, timers and signals, and nothing that blocks.

A loop of its own because asyncio costs 11 MB, more than all the rest of the agent.
"""

from __future__ import annotations

import heapq
import os
import select
import signal

from hotmap.agent.runtime.clock import since_boot

__all__ = ["READ", "WRITE", "Alarm", "Loop", "Timer"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

READ = select.POLLIN
WRITE = select.POLLOUT

#: Milliseconds that one poll waits at most: it takes a C int, which a timer of a month exceeds.
_LONGEST_WAIT = 24 * 3600 * 1000


class Timer:
    """A call at one time, unless it is cancelled."""

    __slots__ = ("_call", "_loop", "at")

    def __init__(self, at: float, call: Callable[[], None], loop: Loop) -> None:
        self.at = at
        self._call: Callable[[], None] | None = call
        self._loop = loop

    def cancel(self) -> None:
        """Prevent the call; a second call does nothing."""
        if self._call is not None:
            self._call = None
            self._loop.count_cancelled()

    def fire(self) -> None:
        """Make the call, once."""
        call, self._call = self._call, None
        if call is not None:
            call()

    @property
    def cancelled(self) -> bool:
        """Whether the call was made or cancelled."""
        return self._call is None


class Loop:
    """Calls back when a descriptor is ready, a timer expires, or a signal arrives.

    Times are seconds since boot: setting the wall clock has no effect, and timers that expired
    while the machine was suspended fire at once.
    """

    def __init__(
        self, clock: Callable[[], float] = since_boot, poll: select.poll | None = None
    ) -> None:
        """Use a clock and a poll object: both or neither are the machine's."""
        #: Reads the clock that the timers go by.
        self.now = clock
        #: Gets what a call raised: one defect must not stop the loop.
        self.on_error: Callable[[Exception], None] = _raise
        self._poll = poll or select.poll()
        self._calls: dict[int, Callable[[], None]] = {}
        self._timers: list[tuple[float, int, Timer]] = []
        self._count = 0
        #: Upper bound of the cancelled timers in the heap.
        self._cancelled = 0
        self._signals: dict[int, Callable[[int], None]] = {}
        #: When no descriptor was ready last: what is ready now became so after that.
        self.quiet_at = 0.0
        self._wake_up, self._waker = -1, -1

    def watch(self, descriptor: int, events: int, call: Callable[[], None]) -> None:
        """Call each time the descriptor is ready for `events`, or hung up; replaces an earlier one.

        The caller closes the descriptor, after `forget`.
        """
        self._calls[descriptor] = call
        self._poll.register(descriptor, events)

    def forget(self, descriptor: int) -> None:
        """Stop watching a descriptor; one that is not watched is ignored."""
        if self._calls.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def at(self, when: float, call: Callable[[], None]) -> Timer:
        """Call once when the clock has reached `when`."""
        timer = Timer(when, call, self)
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, timer))
        return timer

    def after(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Call once after some seconds."""
        return self.at(self.now() + seconds, call)

    def count_cancelled(self) -> None:
        """Record that a timer was cancelled, and drop cancelled ones once they are the majority.

        A deadline is nearly always cancelled long before its time. Left in the heap until then,
        those of a minute of changes would take more memory than everything else that changes.
        """
        self._cancelled += 1
        if self._cancelled > 16 and self._cancelled > len(self._timers) // 2:
            self._timers = [each for each in self._timers if not each[2].cancelled]
            heapq.heapify(self._timers)
            self._cancelled = 0

    def on_signals(self, signals: Iterable[int], call: Callable[[int], None]) -> None:
        """Call with the signal's number, from the loop, soon after it arrived."""
        if self._wake_up < 0:
            self._wake_up, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
            # If the pipe is full the loop is about to wake up anyway.
            signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
            self.watch(self._wake_up, READ, self._read_signals)
        for number in signals:
            self._signals[number] = call
            signal.signal(number, _ignore)

    def turn(self) -> None:
        """Wait for the next event, and make the calls that are due."""
        now = self.now()
        ready = self._poll.poll(0)
        if not ready:
            self.quiet_at = now
            ready = self._poll.poll(self._wait())
        # Signals first: the other calls may take time.
        for descriptor, _ in sorted(ready, key=lambda each: each[0] != self._wake_up):
            # A call before it in this turn may have forgotten it.
            if call := self._calls.get(descriptor):
                self.guard(call)
        now = self.now()
        while self._timers and self._timers[0][0] <= now:
            self.guard(heapq.heappop(self._timers)[2].fire)

    def guard(self, call: Callable[[], None]) -> None:
        """Make a call; `on_error` gets what it raises."""
        try:
            call()
        except Exception as error:
            self.on_error(error)

    def close(self) -> None:
        """Close what the loop itself opened."""
        if self._wake_up >= 0:
            signal.set_wakeup_fd(-1)
            self.forget(self._wake_up)
            os.close(self._wake_up)
            os.close(self._waker)
            self._wake_up = self._waker = -1

    def _wait(self) -> float | None:
        while self._timers and self._timers[0][2].cancelled:
            heapq.heappop(self._timers)
        if not self._timers:
            return None
        # Rounded up: a turn that wakes before its timer would do nothing.
        left = self._timers[0][0] - self.now()
        return min(int(left * 1000) + 1, _LONGEST_WAIT) if left > 0 else 0

    def _read_signals(self) -> None:
        try:
            arrived = os.read(self._wake_up, 4096)
        except BlockingIOError:
            return
        for number in dict.fromkeys(arrived):
            if call := self._signals.get(number):
                self.guard(lambda call=call, number=number: call(number))  # type: ignore[misc]


class Alarm:
    """One call, at the time that was set last."""

    def __init__(self, loop: Loop, call: Callable[[], None]) -> None:
        self._loop = loop
        self._call = call
        self._timer: Timer | None = None

    def set(self, when: float) -> None:
        """Set the time, by the loop's clock; an earlier setting is dropped."""
        if self._timer is not None:
            if self._timer.at == when and not self._timer.cancelled:
                return
            self._timer.cancel()
        self._timer = self._loop.at(when, self._call)


def _raise(error: Exception) -> None:
    raise error


def _ignore(number: int, frame: object) -> None:
    """Do nothing: the pipe has the number already."""
