"""Carries out the reconciler's commands; results are kept until they are taken.

Results arrive from the loop, and some at once. They are returned by `take` instead of being
reported back by a call, so that everything is decided in one place and in one order.
"""

from __future__ import annotations

import errno
import os

from hotmap.agent.act.actions import ActionContext
from hotmap.agent.act.call_statistics import CallStatistics
from hotmap.agent.act.checker import Checker
from hotmap.agent.act.loads import Loads
from hotmap.agent.act.rule_attempts import RuleAttempts
from hotmap.agent.act.start_lookups import start_lookups
from hotmap.agent.decide.facts import (
    ERROR,
    PASSED,
    REFUSED,
    ApplicationExited,
    ApplicationStartFailed,
    CheckFinished,
    StageAltered,
    StartApplication,
    StartAttempt,
    StartCheck,
)
from hotmap.agent.process.application import Application
from hotmap.agent.process.child_processes import ChildProcesses
from hotmap.agent.runtime.errors import describe_unexpected
from hotmap.core.errors import HotmapError, os_reason

__all__ = ["Executor"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hotmap.agent.act.config_output import ConfigOutput
    from hotmap.agent.act.stage import Stage
    from hotmap.agent.act.state_file import StateFile
    from hotmap.agent.decide.facts import AttemptFinished, ExitRequested
    from hotmap.agent.decide.progress import KeptAttempt
    from hotmap.agent.decide.snapshot import Snapshot
    from hotmap.agent.runtime.log import Log
    from hotmap.agent.runtime.loop import Loop
    from hotmap.agent.settings.settings import Rule, Settings

    Result = (
        CheckFinished
        | AttemptFinished
        | ApplicationExited
        | ExitRequested
        | StageAltered
        | ApplicationStartFailed
    )


class Executor:
    """Checks, publishes, reloads processes, and supervises the application."""

    def __init__(self, loop: Loop, log: Log, settings: Settings, state_file: StateFile) -> None:
        self._loop = loop
        self._log = log
        self._state_file = state_file
        directories = settings.watch.directories
        self._results: list[Result] = []
        self._children = ChildProcesses(loop)
        self._checker = Checker(self._children, settings.checks, directories)
        self._stage_directory = settings.checks.stage
        self._checker.remove_remains()
        self._stage: Stage | None = None
        if settings.checks.stage:
            from hotmap.agent.act.stage import Stage  # which few agents use

            self._stage = Stage(settings.checks.stage, directories, settings.checks.stage_mode)
            self._stage.remove_remains()
        #: When it was as published.
        self._stage_intact_at = 0.0
        self._output: ConfigOutput | None = None
        if settings.render is not None:
            from hotmap.agent.act.config_output import ConfigOutput  # which few agents use

            self._output = ConfigOutput(settings.render, os.environb)
        self._application_settings = settings.application
        self.application = Application(
            loop, self._children, log, settings.application,
            grace=settings.actions.grace,
            on_exit=lambda status: self._results.append(ApplicationExited(status)),
            on_start_failed=self._on_start_failed,
        )  # fmt: skip
        self.calls = CallStatistics(
            action.call.url for rule in settings.rules for action in rule.actions if action.call
        )
        loads = Loads(loop, settings.rules, settings.actions.verify_timeout)
        context = ActionContext(
            loop, self._children, self.application, settings, self.calls, loads,
            self._results.append,
        )  # fmt: skip
        lookups = start_lookups(self.application)
        #: By rule.
        self._attempts = {
            rule.name: RuleAttempts(
                context, lookups, self._stage,
                is_loading=self._may_be_loading(rule), done=self._results.append,
            )
            for rule in settings.rules
        }  # fmt: skip

    def take(self) -> list[Result]:
        """Return the results since the last call, in order."""
        taken = list(self._results)
        self._results.clear()
        return taken

    @property
    def has_results(self) -> bool:
        """Whether there are results to take, which may contradict what was recorded before."""
        return bool(self._results)

    def execute(self, command: StartCheck | StartAttempt | StartApplication) -> None:
        """Start a command; its result is taken later."""
        if isinstance(command, StartCheck):
            try:
                self._check(command.snapshot)
            except Exception as error:
                text = describe_unexpected(error)
                self._results.append(CheckFinished(command.snapshot, ERROR, text))
        elif isinstance(command, StartAttempt):
            self._attempts[command.rule.name].begin(command)
        else:
            self.application.start()

    def can_start_from_stage(self) -> bool:
        """Whether the application can start with what an earlier agent has published.

        Not with variables of files, which are not published.
        """
        settings = self._application_settings
        if self._stage is None or not settings.command or settings.env_from:
            return False
        return self._stage.is_filled() and not self.application.find_error({})

    def check_stage(self) -> None:
        """Find out whether another program has changed what is published."""
        if self._stage is None:
            return
        if self._stage.is_altered():
            self._results.append(StageAltered(self._stage_intact_at))
        self._stage_intact_at = self._loop.now()

    def save(self, attempts: dict[str, KeptAttempt], revisions: dict[str, tuple[str, str]]) -> None:
        """Keep for the next start what was tried and loaded, and what was read last."""
        problem = self._state_file.problem
        self._state_file.save(attempts, revisions)
        if self._state_file.problem and self._state_file.problem != problem:
            self._log.warning("state", self._state_file.problem)

    @property
    def state_problem(self) -> str:
        """Why the state file cannot be used; "" while it can."""
        return self._state_file.problem

    @property
    def unknown_variables(self) -> int:
        """Number of references to variables that are not set, in the file that was rendered."""
        return self._output.unknown if self._output is not None else 0

    def stop(self, number: int) -> bool:
        """Kill children and stop the application by a signal; return whether to wait for one."""
        self._children.kill_all()
        if not self.application.running:
            return False
        self.application.stop(number)
        return True

    def close(self) -> None:
        """Kill what is left, and remove copies of content."""
        self._children.kill_all()
        self._checker.close()

    def _check(self, snapshot: Snapshot) -> None:
        def checked(result: str, error: str, exit_status: int | None) -> None:
            if result == PASSED:
                result, error = self._publish(snapshot)
            self._results.append(CheckFinished(snapshot, result, error, exit_status))

        # Before anything else: a program that cannot be started must not replace a running one.
        if error := self.application.find_error(snapshot.contents):
            checked(REFUSED, error, None)
        else:
            self._checker.check(snapshot, checked)

    def _publish(self, snapshot: Snapshot) -> tuple[str, str]:
        if self._stage is not None:
            try:
                self._stage.publish(snapshot)
                self._stage_intact_at = self._loop.now()
            except OSError as error:
                return (
                    ERROR,
                    f"cannot write {self._stage_directory}: {_describe_stage_error(error)}",
                )
            except HotmapError as error:
                return ERROR, f"cannot write {self._stage_directory}: {error}"
            except Exception as error:
                reason = describe_unexpected(error)
                return ERROR, f"cannot write {self._stage_directory}: {reason}"
        if self._output is not None:
            try:
                self._output.write(snapshot.contents)
            except (OSError, ValueError) as error:
                reason = str(error) if isinstance(error, ValueError) else describe_unexpected(error)
                return ERROR, f"cannot write {self._output.target}: {reason}"
        self.application.set_content(snapshot.contents)
        return PASSED, ""

    def _may_be_loading(self, rule: Rule) -> bool:
        """Whether an earlier agent has told a process to load, and any load confirms a probe.

        The end of that load would confirm newer content. The application ends with its agent.
        """
        kept = self._state_file.attempts.get(rule.name)
        if kept is None or kept.done or not self._state_file.saved_at or not rule.probes:
            return False
        is_supervised = bool(self._application_settings.command)
        return not is_supervised and any(probe.compares for probe in rule.probes)

    def _on_start_failed(self, error: str) -> None:
        awaited = tuple(name for name, each in self._attempts.items() if each.awaits_restart)
        self._results.append(ApplicationStartFailed(error, awaited))


def _describe_stage_error(error: OSError) -> str:
    """Describe why a stage cannot be written, and what it has to be."""
    reason = os_reason(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{reason}; --stage takes the size of the content twice while it is published"
    return f"{reason}; --stage has to be a directory that the agent may write, such as an emptyDir"
