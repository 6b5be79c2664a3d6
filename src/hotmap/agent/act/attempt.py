"""One attempt of a rule: its actions in order, then its probes.

    1. read the probes, to compare with later
    2. perform the actions, starting with the first that has not succeeded for this content
    3. wait until the probes confirm them

An attempt ends once. When an action fails, the next attempt starts with it; when a probe does not
confirm, with the first action.
"""

from __future__ import annotations

from hotmap.agent.act.actions import perform
from hotmap.agent.act.probes import confirm, read_before
from hotmap.agent.decide.facts import AttemptFinished
from hotmap.agent.process.process_table import ProcessError, find, started_at
from hotmap.agent.runtime.clock import wall
from hotmap.agent.runtime.errors import describe_unexpected

__all__ = ["Attempt", "is_loaded_at_start"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from hotmap.agent.act.actions import ActionContext
    from hotmap.agent.decide.facts import StartAttempt
    from hotmap.agent.process.child_processes import Outcome


#: Seconds by which the start of a process may be rounded down.
_TICK = 0.01


class Attempt:
    """One attempt to make a process load what changed."""

    def __init__(self, command: StartAttempt, context: ActionContext) -> None:
        """Prepare it; the context's `report` gets the result."""
        self._command = command
        self._context = context
        self._position = command.position
        self._before: list[str] = []
        self._ended = False

    def start(self) -> None:
        """Start; ends at once or from the loop."""
        self._guard(self._read_probes if self._command.rule.probes else self._perform_next)

    def _guard(self, step: Callable[[], None]) -> None:
        """Do a step; whatever it raises is a failure of the attempt, which is then retried."""
        try:
            step()
        except Exception as error:
            is_action = self._position < len(self._command.rule.actions)
            self._finish(describe_unexpected(error), self._position if is_action else 0)

    def _read_probes(self) -> None:  # 1
        import json

        probes, child = self._command.rule.probes, self._child_pid()
        timeout = self._context.settings.actions.verify_timeout

        def read() -> str:
            return json.dumps([read_before(probe, child) for probe in probes])

        def on_read(outcome: Outcome) -> None:
            if outcome.timed_out:
                self._finish(f"reading the probes timed out after {timeout:g}s", 0)
                return
            if outcome.status:
                self._finish(outcome.output or "the probes could not be read", 0)
                return
            self._before = json.loads(outcome.output)
            self._perform_next()

        def on_ended(outcome: Outcome) -> None:
            self._guard(lambda: on_read(outcome))

        self._context.children.run_function(read, seconds=timeout, done=on_ended)

    def _perform_next(self) -> None:  # 2
        actions = self._command.rule.actions
        if self._position == len(actions):
            self._confirm()
        else:
            perform(actions[self._position], self._command, self._context, self._on_performed)

    def _on_performed(self, error: str) -> None:
        if error:
            self._finish(error, self._position)
            return
        self._position += 1
        self._guard(self._perform_next)

    def _confirm(self) -> None:  # 3
        probes, before, child = self._command.rule.probes, self._before, self._child_pid()
        if not probes:
            self._finish("", 0)
            return
        timeout = self._context.settings.actions.verify_timeout

        def wait() -> str:
            for probe, earlier in zip(probes, before, strict=True):
                confirm(probe, earlier, child, seconds=timeout)
            return ""

        def on_waited(outcome: Outcome) -> None:
            error = ""
            if outcome.status or outcome.timed_out:
                error = outcome.output or f"verification timed out after {timeout:g}s"
            self._finish(error, 0)

        self._context.children.run_function(wait, seconds=timeout * len(probes) + 1, done=on_waited)

    def _child_pid(self) -> int:
        process = self._context.application.process()
        return process.pid if process else 0

    def _finish(self, error: str, position: int) -> None:
        if self._ended:
            return
        self._ended = True
        self._context.report(AttemptFinished(self._command.rule.name, error, position, wall()))


def is_loaded_at_start(command: StartAttempt) -> bool:
    """Whether the rule's process started after its content was there, so that it has read it.

    Both times are since boot: when the content passed its check (and was published), and when the
    kernel started the process. The content before the agent's first read is unknown, so an older
    process is reloaded once.
    """
    if command.doubted_since is not None:
        return _is_older(command, command.doubted_since)
    actions = command.rule.actions
    targets = {action.target for action in actions if action.kind == "signal"}
    if len(targets) != 1 or any(action.kind not in ("signal", "none") for action in actions):
        return False
    (target,) = targets
    if target == "child":
        return False  # content of the application is adopted when it is started
    try:
        return started_at(find(target)) > command.desired_since
    except ProcessError:
        return False


def _is_older(command: StartAttempt, doubted_since: float) -> bool:
    """Whether the rule's process has run since before other content was visible."""
    actions = [action for action in command.rule.actions if action.kind != "none"]
    targets = {action.target for action in actions}
    if len(targets) != 1 or any(action.kind not in ("signal", "restart") for action in actions):
        return False
    try:
        return started_at(find(targets.pop())) + _TICK < doubted_since
    except ProcessError:
        return False
