"""One attempt of a rule: its actions in order, then its probes.

    1. read the probes, to compare with later; what cannot be read then proves nothing later
    2. perform the actions, starting with the first that has not succeeded for this content
    3. wait until the probes confirm them

An attempt ends once. When an action fails, the next attempt starts with it. When a probe does not
confirm, the next attempts only go on with step 3: a process that takes its time must not be told
again while it loads. Only after `ContentHistory.repeat_after` the actions are performed once more.
"""

from __future__ import annotations

from math import inf

from hotmap.agent.act.actions import NotNeeded, TimedOut, is_restarted, perform
from hotmap.agent.act.http_exchange import is_plain
from hotmap.agent.decide.facts import AttemptFinished
from hotmap.agent.runtime.clock import wall
from hotmap.agent.runtime.errors import describe_unexpected
from hotmap.agent.settings.settings import FROZEN

__all__ = ["Attempt", "ContentHistory"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from hotmap.agent.act.actions import ActionContext
    from hotmap.agent.decide.facts import StartAttempt
    from hotmap.agent.process.child_processes import Outcome
    from hotmap.agent.settings.settings import Action


#: How often the time limit is doubled at most.
_MAX_FACTOR = 8


class ContentHistory:
    """What the attempts for one content of a rule have in common.

    A wait that was too short is doubled: an endpoint that needs longer than the limit is called
    twice, not forever.
    """

    def __init__(self, desired_since: float, time_limit: float, *, repeats: bool) -> None:
        """`repeats`: performing the actions again may help."""
        self.desired_since = desired_since
        #: Seconds that an action may take.
        self.time_limit = time_limit
        self.repeats = repeats
        #: Seconds after the actions until they are performed again, if no probe confirms them.
        self.repeat_after = time_limit if repeats else inf
        self._longest = time_limit * _MAX_FACTOR
        #: What the probes showed before the actions, and when these were performed; None before.
        self.before: list[str | None] = []
        self.performed_at: float | None = None
        #: When an action did something last that only a process which starts later has, or that
        #: only a restart ends: it may have written what is read at start, or drained the process.
        self.acted_at = 0.0
        #: Whether the application was restarted for this content.
        self.has_restarted = False

    def allow_more_time(self) -> None:
        """Record that an action did not end within its time limit."""
        self.time_limit = min(self._longest, 2 * self.time_limit)

    def awaits_probes(self, now: float) -> bool:
        """Whether to go on waiting for probes; each time that ends, the next wait is longer."""
        if self.performed_at is None:
            return False
        if now - self.performed_at < self.repeat_after:
            return True
        self.repeat_after = min(self._longest, 2 * self.repeat_after)
        self.performed_at = None
        return False


class Attempt:
    """One attempt to make a process load what changed."""

    def __init__(
        self,
        command: StartAttempt,
        context: ActionContext,
        history: ContentHistory,
        done: Callable[[AttemptFinished], None],
    ) -> None:
        """Prepare it; `done` gets the result, unless it is given up."""
        self._command = command
        self._context = context
        self._history = history
        self._done = done
        self._position = command.position
        self._ended = False
        #: Whether an action told the process; whether one had no need to.
        self._acted, self._skipped = command.position > 0, False
        #: When the first action began that told the process.
        self._acting_since = context.loop.now()
        #: Ends what is waited for; None while that has to end by itself.
        self._abandon: Callable[[], None] | None = None
        #: Whether an action is in progress that may have told the process.
        self._is_acting = False
        #: Until when a load under way may change what the probes show.
        self.loading_until = 0.0

    def start(self) -> None:
        """Start; ends at once or from the loop."""
        if self._history.performed_at is not None and self._position == self._length:
            self._guard(self._confirm)
            return
        if self._position == self._length:
            self._position = 0
        self._guard(self._read_probes if self._command.rule.probes else self._perform_next)

    def give_up(self) -> bool:
        """End it for newer content, without a result; False when it has to end by itself."""
        if self._abandon is None or self._context.loop.now() < self.loading_until:
            return False
        self._ended = True
        self._abandon()
        self._end_action(has_failed=False)
        return True

    @property
    def _length(self) -> int:
        return len(self._command.rule.actions)

    def _guard(self, step: Callable[[], None]) -> None:
        """Do a step; whatever it raises is a failure of the attempt, which is then retried."""
        if self._ended:
            return
        try:
            step()
        except Exception as error:
            is_action = self._position < self._length
            self._finish(describe_unexpected(error), self._position if is_action else 0)

    def _read_probes(self) -> None:  # 1
        import json

        # Here, not in the child, which would import it each time; few rules have probes.
        from hotmap.agent.act.probes import read_before

        probes, child = self._command.rule.probes, self._child_pid()
        timeout = self._context.settings.actions.verify_timeout
        limit = timeout * (len(probes) + 1)
        # Not the other ones: one that hangs until the process has loaded would prevent that.
        compared = [probe for probe in probes if probe.compares or not self._history.repeats]

        def read() -> str:
            found = [
                read_before(probe, child, seconds=timeout / 2) if probe in compared else ""
                for probe in probes
            ]
            return json.dumps(found)

        def on_read(outcome: Outcome) -> None:
            if outcome.timed_out and self._history.repeats:
                self._history.before = [None for _ in probes]  # nothing to compare with later
                self._perform_next()
                return
            if outcome.timed_out:
                self._finish(f"reading the probes did not end within {limit:g}s", 0)
                return
            if outcome.status:
                self._finish(outcome.output or "the probes could not be read", 0)
                return
            before = json.loads(outcome.output)
            if not self._history.repeats:
                if None in before and any(before):
                    self._finish("the program is running, and does not show yet when it started", 0)
                    return
                # What does not answer is taken for stopped, and reads the content when it starts.
                before = ["" if each is None else each for each in before]
            self._history.before = before
            self._perform_next()

        if not compared:
            self._history.before = ["" for _ in probes]
            self._perform_next()
            return
        self._run(read, limit, on_read)

    def _run(
        self, call: Callable[[], str], seconds: float, ended: Callable[[Outcome], None]
    ) -> None:
        def on_ended(outcome: Outcome) -> None:
            self._abandon = None
            self._guard(lambda: ended(outcome))

        self._abandon = self._context.children.run_function(call, seconds=seconds, done=on_ended)

    def _perform_next(self) -> None:  # 2
        if self._position == self._length:
            self._history.performed_at = self._context.loop.now()
            self._confirm()
            return
        action, performed = self._command.rule.actions[self._position], False
        if not self._acted:
            self._acting_since = self._context.loop.now()
        if self._is_drain(action):
            if is_restarted(self._since_actions(), self._context):
                self._position += 1  # nothing would end it
                self._perform_next()
                return
            self._history.acted_at = self._context.loop.now()

        def on_performed(error: str) -> None:
            nonlocal performed
            performed = True
            self._abandon = None
            self._on_performed(error)

        abandon = perform(
            action, self._since_actions(), self._context, on_performed,
            seconds=self._history.time_limit,
        )  # fmt: skip
        if not performed:
            self._abandon = abandon
            if action.kind in ("http", "exec"):
                self._is_acting = True
                self._context.loads.begin_action(self._command.rule.name, self._acting_since)
                self._expect_load(self._acting_since)

    def _end_action(self, *, has_failed: bool) -> None:
        """Record that an action in progress has ended; one that was given up may have succeeded."""
        if not self._is_acting:
            return
        self._is_acting = False
        loads, rule = self._context.loads, self._command.rule.name
        if has_failed and not self._acted:
            loads.cancel(rule, self._acting_since)
        else:
            loads.begin(rule, self._acting_since)

    def _on_performed(self, error: str) -> None:
        self._end_action(has_failed=bool(error) and not isinstance(error, TimedOut))
        if isinstance(error, TimedOut):
            self._history.allow_more_time()
            is_last = self._position == self._length - 1
            # It may still be under way; where there are probes, they tell.
            if (
                is_last
                and self._command.rule.probes
                and self._command.rule.actions[-1].kind == "http"
            ):
                error = ""
        if error:
            self._finish(error, self._position)
            return
        action = self._command.rule.actions[self._position]
        if isinstance(error, NotNeeded):
            self._skipped = True
        elif action.kind != "none":
            self._acted = True
            # Now, not after the last action: another one may take long, or fail.
            self._context.loads.begin(self._command.rule.name, self._acting_since)
            # A call that is made at once drains the process that ran when it began.
            is_over = self._is_drain(action) and action.call is not None and is_plain(action.call)
            # If probes do not confirm a restart, another one may help.
            may_repeat = action.restart_mode == "supervised" and bool(self._command.rule.probes)
            if may_repeat or (action.kind != "restart" and not is_over):
                self._history.acted_at = self._context.loop.now()
        self._history.has_restarted |= action.kind == "restart"
        self._position += 1
        self._guard(self._perform_next)

    def _is_drain(self, action: Action) -> bool:
        return self._command.rule.name == FROZEN and action.kind == "http"

    def _since_actions(self) -> StartAttempt:
        """Return the command for a process that has what the actions so far have done as well."""
        since = max(self._command.desired_since, self._history.acted_at)
        return self._command._replace(desired_since=since)

    def _confirm(self) -> None:  # 3
        probes, before, child = self._command.rule.probes, self._history.before, self._child_pid()
        if not probes:
            self._finish("", 0)
            return
        from hotmap.agent.act.probe_errors import Refused
        from hotmap.agent.act.probes import confirm

        timeout = self._context.settings.actions.verify_timeout
        limit = timeout * len(probes) + 1
        self._expect_load(self._history.performed_at or 0.0)

        def wait() -> str:
            try:
                for probe, earlier in zip(probes, before, strict=True):
                    confirm(probe, earlier, child, seconds=timeout)
            except Refused as error:
                return str(error)
            return ""

        def on_waited(outcome: Outcome) -> None:
            if not outcome.status and not outcome.timed_out:
                self._finish(outcome.output, 0)
                return
            error = outcome.output or f"verification did not end within {limit:g}s"
            waits = self._history.awaits_probes(self._context.loop.now())
            self._finish(error, self._length if waits else 0)

        self._run(wait, limit, on_waited)

    def _expect_load(self, since: float) -> None:
        """Record that a load which began at `since` may end without notice, if a probe compares.

        A new process, after a restart, loads nothing else.
        """
        rule = self._command.rule
        restarts = any(action.kind == "restart" for action in rule.actions)
        if not restarts and any(probe.compares for probe in rule.probes):
            self.loading_until = since + self._context.settings.actions.verify_timeout

    def _child_pid(self) -> int:
        process = self._context.application.process()
        return process.pid if process else 0

    def _finish(self, error: str, position: int) -> None:
        if self._ended:
            return
        self._ended = True
        by_itself = not error and self._skipped and not self._acted
        rule = self._command.rule
        self._done(
            AttemptFinished(
                rule.name,
                str(error),
                position,
                wall(),
                by_itself,
                is_proven=not error and bool(rule.probes),
            )
        )
