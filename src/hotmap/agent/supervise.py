"""The application as a child of the agent: never two copies, and never one left behind.

    waiting → running → stopping → running …      a restart
                      → stopping → ended           SIGTERM, or the application ended by itself

The child has a process group of its own. Signals go to the child alone (workers of nginx, postgres
and gunicorn take the same signals differently); what is left of its group after it ended is
killed before another copy starts.
"""

from __future__ import annotations

import os
import signal

from hotmap.agent.children import (
    die_with_parent,
    execute_program,
    fork,
    lead_group,
    reset_signals,
)
from hotmap.agent.processes import started_process

__all__ = ["Supervisor", "take_orphans"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hotmap.agent.children import Children
    from hotmap.agent.loop import Loop, Timer
    from hotmap.agent.processes import Process


class Supervisor:
    """Starts, restarts and ends one application."""

    def __init__(
        self,
        loop: Loop,
        children: Children,
        *,
        grace: float,
        ended: Callable[[int], None],
    ) -> None:
        self._loop = loop
        self._children = children
        self._grace = grace
        self._ended = ended
        self.pid = 0
        self.starts = 0
        #: Set while the present copy is being stopped: what to do once it is gone.
        self._then: Callable[[], None] | None = None
        self._waiting: list[Callable[[], None]] = []
        self._last = False
        self._timer: Timer | None = None

    @property
    def running(self) -> bool:
        """Whether a copy exists, also one that is being stopped."""
        return self.pid != 0

    def start(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start the application; there must be no copy."""
        assert not self.running
        pid = fork()
        if pid == 0:
            try:
                lead_group(0)
                die_with_parent()
                reset_signals()
                execute_program(words, environment)
            finally:
                os._exit(126)
        lead_group(pid)
        self.pid = pid
        self.starts += 1
        self._children.adopt(pid, self._gone)

    def restart(
        self, words: Sequence[str], environment: Mapping[str, str], done: Callable[[], None]
    ) -> None:
        """Stop the present copy, start another and then call `done`.

        A copy that does not end within the grace is killed. Called again before the next copy
        started, the newer words hold. Once the agent itself ends, nothing starts and nobody is
        called.
        """
        waiting = [done] if self._then is None else [*self._waiting, done]
        self._waiting = waiting

        def again() -> None:
            self.start(words, environment)
            for call in waiting:
                call()

        self._then = again
        if self.running:
            self._stop()
        else:
            self._go_on(0)

    def end(self) -> None:
        """Stop the application for good; a second call kills it."""
        self._then = None
        if self._last:
            self._kill()
            return
        self._last = True
        self._stop()

    def forward(self, number: int) -> None:
        """Pass a signal on to the application, if there is one."""
        if self.running:
            os.kill(self.pid, number)

    def process(self) -> Process | None:
        """Name the present copy; None while there is none."""
        return started_process(self.pid) if self.running else None

    def _stop(self) -> None:
        if self._timer is None:
            self.forward(signal.SIGTERM)
            self._timer = self._loop.after(self._grace, self._kill)

    def _kill(self) -> None:
        if self.running:
            os.killpg(self.pid, signal.SIGKILL)

    def _gone(self, status: int) -> None:
        self.pid = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._go_on(status)

    def _go_on(self, status: int) -> None:
        then, self._then = self._then, None
        if then is not None and not self._last:
            then()
        else:
            self._ended(status)


def take_orphans() -> bool:
    """Become the parent of what our children leave behind, as PID 1 is anyway (prctl(2)).

    False when the kernel or this Python cannot do that.
    """
    if os.getpid() == 1:
        return True
    try:
        import ctypes

        set_child_subreaper = 36  # linux: include/uapi/linux/prctl.h
        return bool(ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0) == 0)
    except (ImportError, AttributeError, OSError):
        return False
