"""The attempts of one rule, of which one is under way at a time.

An attempt for newer content replaces the one under way, or follows it where that has to end by
itself. None is needed where the process has read the content at its start.
"""

from __future__ import annotations

from hotmap.agent.act.attempt import Attempt, ContentHistory
from hotmap.agent.decide.facts import AttemptFinished
from hotmap.agent.decide.start_evidence import find_start_evidence
from hotmap.agent.process.process_table import ProcessError
from hotmap.agent.runtime.clock import wall
from hotmap.agent.runtime.errors import describe_unexpected
from hotmap.agent.settings.settings import Action
from hotmap.core.value import Value

__all__ = ["RuleAttempts"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hotmap.agent.act.actions import ActionContext
    from hotmap.agent.act.stage import Stage
    from hotmap.agent.decide.facts import StartAttempt
    from hotmap.agent.decide.start_evidence import Lookups, StartEvidence
    from hotmap.agent.settings.settings import Probe, Rule


class RuleAttempts:
    """Begins the attempts of one rule."""

    def __init__(
        self,
        context: ActionContext,
        lookups: Lookups,
        stage: Stage | None,
        *,
        is_loading: bool,
        done: Callable[[AttemptFinished], None],
    ) -> None:
        """`done` gets the result of the last command.

        `is_loading`: a load that an earlier agent has begun may still change what probes show.
        """
        self._context = context
        self._lookups = lookups
        self._stage = stage
        self._done = done
        #: Until when that load may do so.
        self._loading_until = 0.0
        if is_loading:
            self._loading_until = context.loop.now() + context.settings.actions.verify_timeout
        #: The attempt under way, and the command that comes after it.
        self._attempt: Attempt | None = None
        self._next: StartAttempt | None = None
        #: What was done for the content that is desired.
        self._history: ContentHistory | None = None
        #: Since when probes do not confirm what the process has read at its start.
        self._unproven: _Unproven | None = None

    @property
    def awaits_restart(self) -> bool:
        """Whether something was done for the content that is desired, but no restart."""
        return self._history is not None and not self._history.has_restarted

    def begin(self, command: StartAttempt) -> None:
        """Start an attempt; one for other content is given up, or ends first if it has to.

        Whatever that raises is a failure of the attempt, which is then retried.
        """
        try:
            self._begin(command)
        except Exception as error:
            self.finish(AttemptFinished(command.rule.name, describe_unexpected(error), 0, wall()))

    def _begin(self, command: StartAttempt) -> None:
        now = self._context.loop.now()
        if self._attempt is not None and not self._attempt.give_up():
            is_awaited, self._next = self._next is not None, command
            if not is_awaited:
                # Later probes may take longer than the load that the first ones have waited for. It
                # has not begun while a command runs.
                wait = self._attempt.loading_until - now
                if wait <= 0:
                    wait = self._context.settings.actions.verify_timeout
                self._context.loop.after(wait, self._begin_next)
            return
        self._attempt = self._next = None  # what would come next is about older content
        evidence = self._find_evidence(command)
        if evidence is not None and _needs_proof(command, evidence):
            if not self._needs_signal(command):
                self._prove(command, evidence)
                return
            evidence = None
        if evidence is not None:
            by_itself = not evidence.error
            self._done(
                AttemptFinished(
                    command.rule.name, evidence.error, 0, wall(), by_itself, evidence.doubt
                )
            )
            return
        if (wait := self._loading_until - now) > 0:
            self._next = command
            self._context.loop.after(wait, self._begin_next)
            return
        if self._context.loads.postpone(command, self._begin_next):
            self._next = command
            return
        self._attempt = Attempt(command, self._context, self._history_of(command), self.finish)
        self._attempt.start()

    def finish(self, result: AttemptFinished) -> None:
        """Report a result, or go on with the command that came meanwhile."""
        self._attempt = None
        if result.is_proven:
            self._context.loads.end(result.rule)
        if self._next is None:
            self._done(result)
        else:
            self._begin_next()

    def _begin_next(self) -> None:
        command, self._next = self._next, None
        if command is not None:
            self.begin(command)

    def _history_of(self, command: StartAttempt) -> ContentHistory:
        """Return the history of the content; a new one for other content than before."""
        if self._history is None or self._history.desired_since != command.desired_since:
            limit = self._context.settings.actions.timeout
            self._history = ContentHistory(
                command.desired_since, limit, repeats=not command.rule.read_at_start
            )
        return self._history

    def _find_evidence(self, command: StartAttempt) -> StartEvidence | None:
        directories = command.rule.directories or self._context.settings.watch.directories
        places = self._stage.places if self._stage is not None else {}
        try:
            return find_start_evidence(
                command,
                self._lookups,
                [places.get(directory, directory) for directory in directories],
                published=self._stage is not None,
                reads_for=self._reads_for(directories),
            )
        except (OSError, ProcessError):
            return None  # /proc cannot be read now; the attempt says so if it needs it

    def _reads_for(self, directories: Iterable[str]) -> float:
        """Return how long a process may take to read directories after its start.

        Variables are those of its start.
        """
        settings = self._context.settings
        variables = {source.directory for source in settings.application.env_from}
        if variables.issuperset(directories):
            return 0.0
        return settings.actions.verify_timeout

    def _prove(self, command: StartAttempt, evidence: StartEvidence) -> None:
        """Let probes confirm that the process runs with what it has read at its start, or fail."""
        rule = command.rule._replace(
            actions=(Action("none"),), probes=_probes_of_state(command.rule)
        )
        limit = self._context.settings.actions.timeout

        def proven(result: AttemptFinished) -> None:
            by_itself = not result.error
            if by_itself:
                self._unproven = None
            self.finish(result._replace(by_itself=by_itself, doubt=evidence.doubt, position=0))

        self._attempt = Attempt(
            command._replace(rule=rule, position=0),
            self._context,
            ContentHistory(command.desired_since, limit, repeats=True),
            proven,
        )
        self._attempt.start()

    def _needs_signal(self, command: StartAttempt) -> bool:
        """Whether a process that should have read the content at its start gets a signal after all.

        As after a signal that no probe has confirmed for so long. A restart would not help.
        """
        rule, now = command.rule, self._context.loop.now()
        if any(action.kind == "restart" for action in rule.actions):
            return False
        if self._unproven is None or self._unproven.desired_since != command.desired_since:
            self._unproven = _Unproven(command.desired_since, now)
        return now - self._unproven.since >= self._context.settings.actions.timeout


class _Unproven(Value):
    """Since when probes are read for the content that is desired since then."""

    desired_since: float
    since: float


def _needs_proof(command: StartAttempt, evidence: StartEvidence) -> bool:
    """Whether probes have to confirm what a process has read at its start: it may crash by it."""
    is_new = command.doubted_since is None and not command.rule.read_at_start
    return is_new and not evidence.error and bool(_probes_of_state(command.rule))


def _probes_of_state(rule: Rule) -> tuple[Probe, ...]:
    """Return the probes that do not need an action to compare with."""
    return tuple(probe for probe in rule.probes if not probe.compares)
