"""The agent: observe → decide → report → act, after each event of one poll loop."""

from __future__ import annotations

import os
import signal

from hotmap.agent.act.executor import Executor
from hotmap.agent.act.state_file import StateFile
from hotmap.agent.decide.facts import (
    ApplicationExited,
    Exit,
    ExitRequested,
    ReadDirectories,
    Transition,
    Unreadable,
)
from hotmap.agent.decide.reconciler import Reconciler
from hotmap.agent.decide.snapshot import Snapshot
from hotmap.agent.process.process_table import name_this_process, observe_wall_clock
from hotmap.agent.process.signals import signal_name
from hotmap.agent.report.reporter import Reporter
from hotmap.agent.runtime.log import Log
from hotmap.agent.runtime.loop import Alarm
from hotmap.agent.watch.observer import Observer
from hotmap.core.target import Target

__all__ = ["Agent"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hotmap.agent.act.executor import Result
    from hotmap.agent.decide.reconciler import Command, Fact
    from hotmap.agent.runtime.loop import Loop
    from hotmap.agent.settings.settings import Settings


#: Seconds to the next reading after an unexpected error.
_RECOVERY_DELAY = 1.0

#: Seconds between two reads of the result of a check that is still running.
_UNDECIDED_INTERVAL = 0.2


#: Signals that would end a process which does not expect them; the application may.
_OTHER_SIGNALS = (
    signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF, signal.SIGIO, signal.SIGPWR,
    signal.SIGUSR1, signal.SIGUSR2,
    *range(signal.SIGRTMIN, signal.SIGRTMAX + 1),
)  # fmt: skip


class Agent:
    """One start of the agent."""

    def __init__(self, settings: Settings, loop: Loop) -> None:
        self._settings = settings
        self._loop = loop
        self._log = Log(settings.reports.log_format, settings.reports.log_level)
        state = StateFile(settings.state_file)
        self._executor = Executor(loop, self._log, settings, state)
        self._observer = Observer(
            loop, self._log, settings.watch, state.key, polled=self._executor.check_stage
        )
        self._reconciler = Reconciler(settings, state.key, state.attempts, _random)
        self._reconciler.doubt_processes_since(state.saved_at, state.revisions)
        if self._executor.can_start_from_stage():
            self._reconciler.use_stage()
        self.reporter = Reporter(
            loop, self._log, settings.reports,
            observer=self._observer, reconciler=self._reconciler, executor=self._executor,
        )  # fmt: skip
        self._alarm = Alarm(loop, lambda: None)
        self._recovery = Alarm(loop, self._recover)
        #: Results that could not be recorded; those of them that are to be recorded again now.
        self._failed: list[Result] = []
        self._unrecorded: list[Result] = []
        self._stopping = False
        self._exit_status: int | None = None

    def run(self) -> int:
        """Work until told to stop; return the exit status."""
        try:
            self._loop.on_error = self._on_error
            self._start()
            self._loop.guard(self._step)
            while self._exit_status is None:
                self._loop.turn()
                self._loop.guard(self._step)
            return self._exit_status
        finally:
            self._executor.close()
            self.reporter.close()
            self._observer.close()
            self._loop.close()

    def _step(self) -> None:
        """Handle everything that has happened, until nothing is left to do now."""
        while True:
            # 1. Observe: what the directories hold, what was announced, the results of commands.
            results = (*self._unrecorded, *self._executor.take())
            self._unrecorded = []
            facts = (*self._observer.take(), *results)
            now = self._loop.now()
            for fact in facts:
                self._record(fact, now)
            # 2. Decide; kept before it is done, so that a kill at any moment repeats an attempt.
            changing = self._observer.is_changing
            commands = [] if self._stopping else self._reconciler.decide(now, is_changing=changing)
            self._executor.save(self._reconciler.attempts(), self._reconciler.revisions)
            # 3. Report
            self.reporter.log(self._reconciler.take_transitions())
            # 4. Act
            for command in commands:
                self._loop.guard(lambda command=command: self._execute(command))  # type: ignore[misc]
            if not facts and not commands:
                break
        self.reporter.listen()
        observe_wall_clock()
        due = self._reconciler.next_time()
        if due is not None and not self._stopping:
            self._alarm.set(due)

    def _record(self, fact: Fact | ApplicationExited | ExitRequested, now: float) -> None:
        """Record a fact; a result that could not be recorded is kept for another attempt.

        What was read is read again.
        """
        try:
            if isinstance(fact, ApplicationExited | ExitRequested):
                self._exit(fact)
            else:
                self._reconciler.record(fact, now)
        except Exception as error:
            self._on_error(error)
            if not isinstance(fact, Snapshot | Unreadable | Target):
                self._failed.append(fact)

    def _recover(self) -> None:
        """Repeat what an unexpected error interrupted."""
        self._unrecorded, self._failed = self._failed, []
        self._observer.recover()

    def _execute(self, command: Command) -> None:
        if isinstance(command, Exit):
            self._stopping = True
            self._exit_status = command.status
        elif isinstance(command, ReadDirectories):
            self._observer.read()
        else:
            self._executor.execute(command)

    def _start(self) -> None:
        name_this_process()
        self._loop.on_signals([signal.SIGHUP], self._on_sighup)
        self._loop.on_signals(_OTHER_SIGNALS, self._executor.application.forward)
        self._executor.application.prepare()
        stop_signal = self._settings.application.stop_signal
        self._loop.on_signals([signal.SIGTERM, signal.SIGINT, stop_signal], self._on_stop_signal)
        self.reporter.listen()
        for text in (*self._settings.warnings, *self.reporter.problems()):
            self._log.warning("start", text)
        self._log.info(
            "started",
            "watching",
            directories=",".join(self._settings.watch.directories),
            detector=self._observer.mode,
            port=self.reporter.port or None,
        )
        if self._settings.once:
            self._loop.after(self._settings.checks.timeout, self._end_undecided)
        self._loop.guard(self._observer.begin)

    def _end_undecided(self) -> None:
        """End with an error where an init container has nothing to check, or cannot check it."""
        reason, what = self._observer.status().unreadable, "nothing to check"
        gate = self._reconciler.gate
        if not reason and gate.state == "error":
            reason, what = gate.error, "not checked"
        if not reason or self._stopping:
            self._loop.after(_UNDECIDED_INTERVAL, self._end_undecided)  # a check is running
            return
        text = f"{what} after {self._settings.checks.timeout:g}s: {reason}"
        self.reporter.log([Transition("done", text, {}, is_warning=True)])
        self._stopping = True
        self._exit_status = 1

    def _on_stop_signal(self, number: int) -> None:
        name = signal_name(number)
        shown = name if name.startswith("signal") else f"SIG{name}"
        self._log.info("stopping", f"shutting down ({shown})")
        self._stopping = True
        if number == signal.SIGTERM:
            number = self._settings.application.stop_signal
        if not self._executor.stop(number):
            # A process that should have run did not: an init container has not published anything.
            unfinished = self._settings.application.command or self._settings.once
            self._exit_status = 128 + number if unfinished else 0

    def _on_sighup(self, number: int) -> None:
        application = self._executor.application
        if self._settings.application.forward_hup and application.running:
            application.forward(number)
            return
        self._log.info("check", "checking all directories (SIGHUP)")
        self._reconciler.retry_now()
        self._observer.poll()
        self._observer.read()

    def _on_error(self, error: Exception) -> None:
        """Count an unexpected error, and read everything again: what it interrupted is lost."""
        self.reporter.count_error(error)
        self._recovery.set(self._loop.now() + _RECOVERY_DELAY)

    def _exit(self, fact: ApplicationExited | ExitRequested) -> None:
        if isinstance(fact, ExitRequested):
            self._log.info(
                "restart",
                f"exiting with status {fact.status}: the kubelet restarts all containers",
            )
        elif not self._stopping:
            self._log.warning(
                "application", f"exited with status {fact.status}: shutting down as well"
            )
        self._stopping = True
        self._exit_status = fact.status


def _random() -> float:
    """Return a number from 0 to 1; importing random takes more memory than it is worth."""
    return int.from_bytes(os.urandom(4), "big") / 2**32
