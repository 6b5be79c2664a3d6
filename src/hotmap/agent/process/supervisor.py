"""The application as a child of the agent: never two instances, and none left behind.

    waiting → running → stopping → running …      a restart
                      → stopping → exited           SIGTERM, or the application exited by itself

The child has its own process group. Signals go to the child only (workers of nginx, postgres and
gunicorn handle the same signals differently); what is left of its group after it exited is killed
before another instance starts.
"""

from __future__ import annotations

import os
import signal

from hotmap.agent.process.process_table import identify
from hotmap.agent.process.spawn import (
    die_with_parent,
    execute_program,
    fork,
    lead_group,
    reset_signals,
)

__all__ = ["Supervisor"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hotmap.agent.process.child_processes import ChildProcesses
    from hotmap.agent.process.process_table import Process
    from hotmap.agent.runtime.loop import Loop, Timer


#: Seconds to the next attempt to start, where there are too many processes.
_START_INTERVAL = 1.0


class Supervisor:
    """Starts, restarts and stops one application."""

    def __init__(
        self,
        loop: Loop,
        children: ChildProcesses,
        *,
        grace: float,
        on_exit: Callable[[int], None],
        on_start_error: Callable[[OSError], None],
    ) -> None:
        """`on_start_error`: there was no process for it; starting is retried."""
        self._loop = loop
        self._children = children
        self._grace = grace
        self._on_exit = on_exit
        self._on_start_error = on_start_error
        self.pid = 0
        self.starts = 0
        #: While the current instance is stopping: what to do once it has exited.
        self._then: Callable[[], None] | None = None
        self._waiting: list[Callable[[], None]] = []
        self._last = False
        self._timer: Timer | None = None
        self._start_timer: Timer | None = None

    @property
    def running(self) -> bool:
        """Whether an instance exists, even one that is stopping."""
        return self.pid != 0

    def start(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start the application, now or as soon as there is a process for it.

        No instance must exist.
        """
        assert not self.running
        if self._start_timer is not None:
            self._start_timer.cancel()
        if self._last:
            return
        try:
            pid = fork()
        except OSError as error:
            self._start_timer = self._loop.after(
                _START_INTERVAL, lambda: self.start(words, environment)
            )
            self._on_start_error(error)
            return
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
        self._children.adopt(pid, self._exited)
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call()

    def restart(
        self, words: Sequence[str], environment: Mapping[str, str], done: Callable[[], None]
    ) -> None:
        """Stop the current instance, start another and then call `done`.

        An instance that does not exit within the grace period is killed. Called again before the
        next instance started, the newer command is used. Once the agent itself is stopping, nothing
        is started and `done` is not called.
        """
        self._waiting.append(done)
        self._then = lambda: self.start(words, environment)
        if self.running:
            self._stop()
        else:
            self._continue(0)

    def stop(self, number: int) -> None:
        """Stop the application for good by a signal; a second call kills it."""
        self._then = None
        if self._start_timer is not None:
            self._start_timer.cancel()
        if self._last:
            self._kill()
            return
        self._last = True
        self._stop(number)

    def forward(self, number: int) -> None:
        """Forward a signal to the application, if it is running."""
        if self.running:
            os.kill(self.pid, number)

    def process(self) -> Process | None:
        """Identify the current instance; None without one."""
        return identify(self.pid) if self.running else None

    def _stop(self, number: int = signal.SIGTERM) -> None:
        if self._timer is None:
            self.forward(number)
            self._timer = self._loop.after(self._grace, self._kill)

    def _kill(self) -> None:
        if self.running:
            os.killpg(self.pid, signal.SIGKILL)

    def _exited(self, status: int) -> None:
        self.pid = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._continue(status)

    def _continue(self, status: int) -> None:
        then, self._then = self._then, None
        if then is not None and not self._last:
            then()
        else:
            self._on_exit(status)
