"""The supervised application: what it is started with, and its restarts."""

from __future__ import annotations

import os
import signal

from hotmap.agent.process.environment import find_impossible_values, make_environment
from hotmap.agent.process.exec_limits import find_exec_error
from hotmap.agent.process.spawn import take_orphans
from hotmap.agent.process.supervisor import Command, Supervisor, SupervisorReports
from hotmap.core.errors import os_reason
from hotmap.core.expansion import expand
from hotmap.core.value import Value

__all__ = ["Application", "ApplicationStatus"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hotmap.agent.process.child_processes import ChildProcesses
    from hotmap.agent.process.process_table import Process
    from hotmap.agent.runtime.log import Log
    from hotmap.agent.runtime.loop import Loop
    from hotmap.agent.settings.settings import ApplicationSettings

#: Signals that are forwarded to the application.
_FORWARDED = (
    signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH, signal.SIGCONT,
    signal.SIGTSTP,
)  # fmt: skip


class ApplicationStatus(Value):
    """The reported state of the application; pid 0 while it is not running.

    may_be_undone: it was restarted, and has not run for long enough to keep what it has loaded
    """

    pid: int
    starts: int
    may_be_undone: bool = False


class Application:
    """The program after `--`; without one, nothing is ever started."""

    def __init__(
        self,
        loop: Loop,
        children: ChildProcesses,
        log: Log,
        settings: ApplicationSettings,
        *,
        grace: float,
        on_exit: Callable[[int], None],
        on_start_failed: Callable[[str], None],
    ) -> None:
        """Start nothing yet.

        grace: seconds
        on_exit: gets the exit status when it is not to be started again
        on_start_failed: gets a sentence when it could not run with what it was restarted with, and
            is started with what it had before
        """
        self._loop = loop
        self._log = log
        self._settings = settings
        self._report_failure = on_start_failed
        reports = SupervisorReports(
            on_exit, self._on_start_error, self._on_start_failed, self._on_descendants_left
        )
        self._supervisor = Supervisor(
            loop, children, reports,
            grace=grace, stop_signal=settings.stop_signal, min_uptime=settings.min_uptime,
        )  # fmt: skip
        #: Number of the start that was logged last: several restarts may wait for the same one.
        self._logged_start = 0
        #: Why it cannot be started now; "" while it can.
        self.problem = ""
        #: Which variables of its environment are not set, and why; "" while all are.
        self.unset_variables = ""
        #: Contents of the directories that its environment is made of.
        self._contents: dict[str, Mapping[str, bytes]] = {}

    def prepare(self) -> None:
        """Become subreaper and forward signals, if there is an application."""
        if not self._settings.command:
            return
        self._loop.on_signals(_FORWARDED, self._supervisor.forward)
        # The application has the terminal, and may have set that no other process may write to it
        # (stty tostop): the log would stop the agent.
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        if not take_orphans():
            self._log.warning("start", "cannot reap orphaned processes of the application")

    @property
    def running(self) -> bool:
        """Whether an instance exists, even one that is stopping."""
        return self._supervisor.running

    def process(self) -> Process | None:
        """Identify the current instance; None without one."""
        return self._supervisor.process()

    @property
    def started_at(self) -> float:
        """When the current instance was started, in seconds since boot."""
        return self._supervisor.started_at

    def set_content(self, contents: Mapping[str, Mapping[str, bytes]]) -> None:
        """Set the content for the environment of the next instance."""
        self._contents = {
            source.directory: contents[source.directory] for source in self._settings.env_from
        }
        names = ", ".join(find_impossible_values(self._contents, self._settings.env_from))
        problem = names and (
            f"--env-from: not set, since the value contains a NUL byte, which no variable can "
            f"hold: {names}"
        )
        if problem and problem != self.unset_variables:
            self._log.warning("application", problem)
        self.unset_variables = problem

    def find_error(self, contents: Mapping[str, Mapping[str, bytes]]) -> str:
        """Return why it cannot be started with this content; "" when it can, or there is none."""
        if not self._settings.command:
            return ""
        command = self._command(contents)
        return find_exec_error(command.words, command.environment)

    def start(self) -> None:
        """Start it for the first time."""
        command = self._command(self._contents)
        self._supervisor.restart(command, lambda: self._on_start("started"))

    def is_current(self, since: float) -> bool:
        """Whether it was started after `since` with what a restart would start it with now."""
        return self._supervisor.runs_since(since, self._command(self._contents))

    def restart(self, done: Callable[[], None]) -> None:
        """Stop it, start it with the current content and call `done`."""

        def restarted() -> None:
            self._on_start("restarted")
            done()

        self._supervisor.restart(self._command(self._contents), restarted)

    def stop(self, number: int) -> None:
        """Stop it for good by a signal; a second call kills it."""
        self._supervisor.stop(number)

    def forward(self, number: int) -> None:
        """Forward a signal to it."""
        self._supervisor.forward(number)

    def status(self) -> ApplicationStatus:
        """Return what is reported."""
        supervisor = self._supervisor
        return ApplicationStatus(supervisor.pid, supervisor.starts, supervisor.may_be_undone)

    def _on_start(self, event: str) -> None:
        self.problem = ""
        if self._logged_start != self._supervisor.starts:
            self._logged_start = self._supervisor.starts
            self._log.info("application", event, pid=self._supervisor.pid)

    def _on_start_error(self, error: OSError) -> None:
        problem = f"cannot start the application: {os_reason(error)}; retrying"
        if problem != self.problem:
            self.problem = problem
            self._log.warning("application", problem)

    def _on_start_failed(self, status: int, seconds: float) -> None:
        self._report_failure(
            f"the application exited with status {status} {seconds:.1f}s after its restart; it was "
            "started with its previous environment and arguments"
        )

    def _on_descendants_left(self, count: int) -> None:
        self._log.warning("application", f"{count} descendants could not be killed")

    def _command(self, contents: Mapping[str, Mapping[str, bytes]]) -> Command:
        settings = self._settings
        environment = make_environment(os.environ, contents, settings.env_from, settings.env)
        return Command([expand(word, environment.get) for word in settings.command], environment)
