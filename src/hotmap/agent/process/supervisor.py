"""The application as a child of the agent: never two instances, and none left behind.

    waiting → running → stopping → running …      a restart
                      → running                     a failed restart: with the previous arguments
                      → stopping → exited           SIGTERM, or the application exited by itself

The child has its own process group, which has the terminal while it runs. Signals go to the child
only (workers of nginx, postgres and gunicorn handle the same signals differently); once it has
exited, the rest of its group and of its descendants is killed before another instance starts.
"""

from __future__ import annotations

import os
import signal

from hotmap.agent.process.descendants import DescendantKiller
from hotmap.agent.process.process_table import identify, is_stopped
from hotmap.agent.process.spawn import (
    die_with_parent,
    execute_program,
    fork,
    kill_group,
    lead_group,
    pass_terminal,
    reset_signals,
)
from hotmap.core.value import Value

__all__ = ["Command", "Supervisor", "SupervisorReports"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from hotmap.agent.process.child_processes import ChildProcesses
    from hotmap.agent.process.process_table import Process
    from hotmap.agent.runtime.loop import Loop, Timer


#: Seconds to the next attempt to start, where there are too many processes.
_START_INTERVAL = 1.0


class Command(Value):
    """What an instance is started with."""

    words: list[str]
    environment: dict[str, str]


class SupervisorReports(Value):
    """What is called when something happens to the application.

    exited: it exited with this status, and is not to be started again
    start_delayed: there was no process for it; starting is retried
    start_failed: after a restart it exited with this status, this many seconds after its start; it
        is started with its previous command
    descendants_left: this many of its descendants could not be killed
    """

    exited: Callable[[int], None]
    start_delayed: Callable[[OSError], None]
    start_failed: Callable[[int, float], None]
    descendants_left: Callable[[int], None]


class Supervisor:
    """Starts, restarts and stops one application."""

    def __init__(
        self,
        loop: Loop,
        children: ChildProcesses,
        reports: SupervisorReports,
        *,
        grace: float,
        stop_signal: int = signal.SIGTERM,
        min_uptime: float = 0.0,
    ) -> None:
        """Start nothing yet.

        grace: seconds between the stop signal and SIGKILL
        min_uptime: seconds; a restart failed if the application exits with an error sooner
        """
        self._loop = loop
        self._children = children
        self._reports = reports
        self._grace = grace
        self._stop_signal = stop_signal
        self._min_uptime = min_uptime
        self._descendants = DescendantKiller(loop, children.pids)
        self.pid = 0
        self.starts = 0
        #: The current instance's command, and the last one that ran for long enough.
        self._command: Command | None = None
        self._proven: Command | None = None
        #: When the current instance was started, in seconds since boot.
        self.started_at = 0.0
        #: While the current instance is stopping: what to do once it has exited.
        self._then: Callable[[], None] | None = None
        self._waiting: list[Callable[[], None]] = []
        self._last = False
        #: Whether the rest of an instance that has exited is being killed.
        self._clearing = False
        self._timer: Timer | None = None
        self._start_timer: Timer | None = None
        self._uptime_timer: Timer | None = None

    @property
    def may_be_undone(self) -> bool:
        """Whether the current instance may still exit so soon that the one before is started."""
        return self._proven is not None and self._command != self._proven

    @property
    def running(self) -> bool:
        """Whether an instance exists, even one that is stopping."""
        return self.pid != 0 or self._clearing

    def runs_since(self, since: float, command: Command) -> bool:
        """Whether an instance that was started after `since` with a command runs undisturbed."""
        is_stopping = self._timer is not None or self._then is not None
        is_new = self.pid != 0 and self.started_at > since
        return is_new and not is_stopping and self._command == command

    def restart(self, command: Command, done: Callable[[], None]) -> None:
        """Stop the current instance, start another and then call `done`.

        An instance that does not exit within the grace period is killed. Called again before the
        next instance started, the newer command is used. Once the agent itself is stopping, nothing
        is started and `done` is not called.
        """
        self._waiting.append(done)
        self._then = lambda: self._start(command)
        if self.pid:
            self._stop(self._stop_signal)
        elif not self._clearing:
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
        if self.pid:
            if number == signal.SIGCONT:
                pass_terminal(os.getpgrp(), self.pid)  # a shell gives it to us before
            os.kill(self.pid, number)

    def process(self) -> Process | None:
        """Identify the current instance; None without one."""
        return identify(self.pid) if self.pid else None

    def _start(self, command: Command) -> None:
        """Start the application, now or as soon as there is a process for it."""
        if self._start_timer is not None:
            self._start_timer.cancel()
        if self._last:
            return
        group, agent, now = os.getpgrp(), os.getpid(), self._loop.now()
        try:
            pid = fork()
        except OSError as error:
            self._start_timer = self._loop.after(_START_INTERVAL, lambda: self._start(command))
            self._reports.start_delayed(error)
            return
        if pid == 0:
            try:
                lead_group(0)
                pass_terminal(group, os.getpid())
                die_with_parent(agent)
                reset_signals()
                execute_program(command.words, command.environment)
            finally:
                os._exit(126)
        lead_group(pid)
        self.pid = pid
        self.starts += 1
        self._command, self.started_at = command, now
        self._uptime_timer = self._loop.after(self._min_uptime, lambda: self._prove(command))
        self._children.adopt(pid, ended=self._exited, stopped=self._stopped)
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call()

    def _prove(self, command: Command) -> None:
        self._proven = command

    def _stop(self, number: int) -> None:
        if self._timer is None:
            self.forward(number)
            if self.pid and is_stopped(self.pid):
                os.kill(self.pid, signal.SIGCONT)  # otherwise it could not end by itself
            self._timer = self._loop.after(self._grace, self._kill)

    def _kill(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)  # by itself as well: it may have left its group
            kill_group(self.pid)

    def _stopped(self, number: int) -> None:
        """Stop as well when the terminal has stopped the application, as a shell expects of a job.

        Where no shell is above, as in a container, the kernel ignores that for us, since our group
        is orphaned (setpgid(2)); nothing could continue the application, so it continues at once.
        """
        if number == signal.SIGTSTP and pass_terminal(self.pid, os.getpgrp()):  # Ctrl-Z
            self._stop_with_application()
            # Forwarded from the loop, once with that of a shell.
            os.kill(os.getpid(), signal.SIGCONT)
        elif number in (signal.SIGTTIN, signal.SIGTTOU):  # it uses the terminal in the background
            if pass_terminal(os.getpgrp(), self.pid):
                os.kill(self.pid, signal.SIGCONT)
            else:
                self._stop_with_application()

    def _stop_with_application(self) -> None:
        handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(0, signal.SIGTSTP)  # returns when we are continued
        signal.signal(signal.SIGTSTP, handler)

    def _exited(self, status: int) -> None:
        pass_terminal(self.pid, os.getpgrp())
        self.pid = 0
        was_stopped = self._timer is not None
        for timer in (self._timer, self._uptime_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._uptime_timer = None
        uptime = self._loop.now() - self.started_at
        if was_stopped:
            # One that has not run for long enough may have been about to fail.
            self._proven = self._proven or self._command
        elif status and uptime < self._min_uptime:
            self._restore_previous_command(status, uptime)
        self._clearing = True
        self._descendants.kill(lambda left: self._cleared(status, left))

    def _restore_previous_command(self, status: int, uptime: float) -> None:
        """Start the last command that ran well, unless another command or a stop is pending."""
        proven = self._proven
        if proven is None or self._then is not None or self._last or self._command == proven:
            return
        self._then = lambda: self._start(proven)
        self._reports.start_failed(status, uptime)

    def _cleared(self, status: int, left: int) -> None:
        self._clearing = False
        if left:
            self._reports.descendants_left(left)
        self._continue(status)

    def _continue(self, status: int) -> None:
        then, self._then = self._then, None
        if then is not None and not self._last:
            then()
        else:
            self._reports.exited(status)
