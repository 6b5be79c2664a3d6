"""Compares what is mounted with what is loaded, and decides what to do next.

    seen → checked → passed (`Gate`) → desired by each rule → tried → loaded (`Progress`)

Content that is reverted to what is loaded needs nothing, unless other content was tried meanwhile.

`record` takes a fact, `decide` returns commands. Everything is decided again in each call of
`decide`, so it does not matter which fact was the reason for it.
"""

from __future__ import annotations

from math import inf

from hotmap.agent.decide.announcement import NOT_PROJECTED
from hotmap.agent.decide.backoff import backoff
from hotmap.agent.decide.directory_states import DirectoryStates
from hotmap.agent.decide.exposure import Exposure
from hotmap.agent.decide.facts import (
    ERROR,
    PASSED,
    REFUSED,
    ApplicationStartFailed,
    AttemptFinished,
    CheckFinished,
    Exit,
    ReadDirectories,
    StageAltered,
    StartApplication,
    StartAttempt,
    StartCheck,
    Transition,
    Unreadable,
)
from hotmap.agent.decide.gate import Gate
from hotmap.agent.decide.progress import KeptAttempt, Progress
from hotmap.agent.decide.rule_state import RuleState
from hotmap.agent.decide.snapshot import Snapshot
from hotmap.core.target import Target

__all__ = ["Reconciler"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hotmap.agent.settings.settings import Settings

    Fact = (
        Snapshot
        | Unreadable
        | Target
        | CheckFinished
        | AttemptFinished
        | ApplicationStartFailed
        | StageAltered
    )
    Command = ReadDirectories | StartCheck | StartAttempt | StartApplication | Exit

#: Seconds until content that is to be checked is read again, when it could not be read.
_REREAD_DELAY = 1.0


class Reconciler:
    """The known state of all content, and the decisions that follow from it."""

    def __init__(
        self,
        settings: Settings,
        key: bytes,
        attempts: Mapping[str, KeptAttempt],
        random: Callable[[], float],
    ) -> None:
        """Start from what an earlier agent kept; `random` gives numbers from 0 to 1.

        key: of digests
        attempts: by rule
        """
        self._settings = settings
        self._key = key
        self._random = random
        self.gate = Gate()
        self.directories = DirectoryStates(settings.watch.directories)
        self.rules = [
            RuleState(rule, settings.watch.directories, _progress(attempts.get(rule.name)))
            for rule in settings.rules
        ]
        for state in self.rules:
            if state.rule.name in attempts:
                state.loaded_by_itself = attempts[state.rule.name].is_adopted
        self._exposure = Exposure(
            self.rules, key,
            is_staged=bool(settings.checks.stage), reads_for=settings.actions.verify_timeout,
        )  # fmt: skip
        #: Number of checks by result.
        self.checks = {PASSED: 0, REFUSED: 0, ERROR: 0}
        #: The content that is to be checked; the content that passed, without its bytes.
        self._snapshot: Snapshot | None = None
        self._passed: Snapshot | None = None
        #: Whether the application can start with what an earlier agent has published; whether it
        #: has.
        self._can_start_from_stage = False
        self._started_from_stage = False
        #: Whether an agent has run before in this pod, beside the same containers.
        self._ran_before = False
        #: Whether an update of mounted files was seen that is not read yet; whether they cannot be
        #: read, though they could before.
        self._is_changing = False
        self._is_unreadable = False
        #: Since when one check has followed another, as files had changed meanwhile; None where the
        #: last one decided on what is there, or failed itself. When the last one passed, else 0.
        self._checking_since: float | None = None
        self._passed_at = 0.0
        #: Content was to be checked and not in memory, so it is read again.
        self._rereading = False
        #: Commands that a fact leads to by itself.
        self._commands: list[Command] = []
        self._transitions: list[Transition] = []

    def doubt_processes_since(
        self, when: float, revisions: Mapping[str, tuple[str, str]] | None
    ) -> None:
        """Record that a process that started after `when` may have read other content.

        No agent ran then that could have seen it; `revisions` is what the one before has read last.
        After a boot of the node, all processes are new: 0.
        """
        if self._settings.application.command:
            return  # the application ends with its agent
        self._ran_before = when > 0
        self._exposure.record_downtime(when, revisions if self._ran_before else None)

    def use_stage(self) -> None:
        """Let the application start with what an earlier agent has published.

        That has passed its check, and is used only where what is mounted does not.
        """
        self._can_start_from_stage = True

    @property
    def started(self) -> bool:
        """Whether any content has passed its check."""
        return self._passed is not None

    @property
    def has_content(self) -> bool:
        """Whether the application may start, with what passed now or before."""
        return self.started or self._started_from_stage

    @property
    def revisions(self) -> dict[str, tuple[str, str]]:
        """By directory: what identifies the files that were read last, and their digest."""
        return self._exposure.revisions

    @property
    def undecided(self) -> bool:
        """Whether the current content still has to be checked."""
        return self.gate.undecided or self._passed is None

    def attempts(self) -> dict[str, KeptAttempt]:
        """Return what to keep for the next start, by rule."""
        return {
            state.rule.name: KeptAttempt(
                state.progress.tried,
                state.progress.done,
                is_adopted=state.is_frozen and state.loaded_by_itself,
                exposed_since=state.progress.unsure_since,
            )
            for state in self.rules
            if state.progress.tried is not None and not state.doubt
        }

    def take_transitions(self) -> list[Transition]:
        """Return what changed since the last call, in order."""
        taken, self._transitions = self._transitions, []
        return taken

    def retry_now(self) -> None:
        """Check refused content again, and retry failed attempts without waiting."""
        self.gate.forget()
        for state in self.rules:
            state.progress.retry_now()

    def record(self, fact: Fact, now: float) -> None:
        """Record one fact; times are of one clock, seconds since boot."""
        if isinstance(fact, Snapshot):
            self._record_snapshot(fact, now)
        elif isinstance(fact, Unreadable):
            self._is_unreadable = self.gate.seen is not None
            self._exposure.record_unreadable(fact.directory, now)
        elif isinstance(fact, Target):
            self._record_announcement(fact, now)
        elif isinstance(fact, CheckFinished):
            self._record_check(fact, now)
        elif isinstance(fact, ApplicationStartFailed):
            self._record_start_failure(fact, now)
        elif isinstance(fact, StageAltered):
            self._record_altered_stage(fact)
        else:
            self._record_attempt(fact, now)
        if self._is_unreadable or self.gate.failures or not self.gate.undecided:
            self._checking_since = None

    def decide(self, now: float, *, is_changing: bool = False) -> list[Command]:
        """Return what is to be done now, and regard it as begun.

        `is_changing`: an update of mounted files was seen, and is going to be read.
        """
        self._is_changing = is_changing
        commands, self._commands = self._commands, []
        if any(isinstance(command, Exit) for command in commands):
            return commands
        if self.gate.due(now):
            commands.append(self._next_check(now))
        for state in self.rules:
            if not state.progress.due(now) or not (state.is_frozen or self.started):
                continue
            if not self._waits_for_content(state) or self._has_waited_enough(state):
                commands.append(self._next_attempt(state))
        return commands

    def next_time(self) -> float | None:
        """When to call `decide` again, if no fact arrives before."""
        times = [
            state.progress.next_time() for state in self.rules if not self._waits_for_content(state)
        ]
        if self.gate.undecided and self.gate.checking is None:
            times.append(self.gate.retry_at)
        first = min(times, default=inf)
        return first if first < inf else None

    def _waits_for_content(self, state: RuleState) -> bool:
        """Return whether a rule waits for mounted content that it is not about to pass.

        A process reads the files of all rules about it; and one that is restarted for its
        environment reads all mounted files. Each rule knows what is visible of its own files.
        """
        if state.process:
            about = [each.progress for each in self.rules if each.process == state.process]
            return any(each.is_other_visible for each in about)
        if not state.is_frozen or not state.restarts or state.progress.tried is None:
            return False
        if self._is_changing or (_restarts_application(state) and not self.has_content):
            return True
        if self._settings.checks.stage:  # no process reads what is refused
            return self.gate.undecided and not self.gate.failures
        return self._is_unreadable or self.gate.seen not in (None, self.gate.passed)

    def _has_waited_enough(self, state: RuleState) -> bool:
        """Return whether a rule has waited for files that change faster than they are checked.

        A check takes that long at most. Only one that has passed shows that they changed again.
        """
        if self._checking_since is None:
            return False
        checks = self._settings.checks
        longest = checks.timeout * max(1, len(checks.commands))
        return self._passed_at - max(state.progress.retry_at, self._checking_since) >= longest

    def _next_check(self, now: float) -> Command:
        snapshot = self._snapshot
        if snapshot is None or snapshot.digest != self.gate.seen:
            self.gate.postpone(now + _REREAD_DELAY)
            self._rereading = True
            return ReadDirectories()
        self.gate.begin()
        if self._checking_since is None:
            self._checking_since = now
        return StartCheck(snapshot)

    def _next_attempt(self, state: RuleState) -> StartAttempt:
        state.attempted_files = state.files
        state.superseded += state.progress.running
        changed = tuple(state.changed_files())
        # A doubt is about what was tried; no process has newer content already.
        is_newer = state.progress.tried != state.progress.desired
        doubted_since = None if is_newer else state.progress.doubted_since
        state.doubted = doubted_since is not None
        if not state.doubted:
            state.doubt = ""
        state.doubts_before = {each.rule.name: each.doubt for each in self.rules if each.doubt}
        at_start = not state.is_frozen and state.progress.desired == state.at_start
        is_proven = state.is_proven or state.progress.is_presumed
        position = state.progress.begin()
        return StartAttempt(
            state.rule, position, changed, state.progress.desired_since, doubted_since, at_start,
            is_proven=is_proven, mounted_since=self.gate.seen_since,
            was_unreadable=state.progress.was_unreadable,
        )  # fmt: skip

    def _record_snapshot(self, snapshot: Snapshot, now: float) -> None:
        if snapshot.digest != self.gate.seen:
            self._log("changed", "content changed", digest=snapshot.digest)
        elif self._rereading:
            self.gate.postpone(now)
        self._rereading = self._is_unreadable = False
        self._exposure.record_reading(snapshot, now, before=self.gate.seen, passed=self.gate.passed)
        self.gate.see(snapshot.digest, now, replaced=snapshot.changed_since is not None)
        self.directories.project(snapshot, now)
        self._snapshot = snapshot
        if not self.gate.undecided and self.gate.checking is None:
            self._snapshot = None  # it is not needed any more; values are not kept
            if self.gate.seen == self.gate.passed:
                self._set_desired(snapshot, now)

    def _record_announcement(self, announcement: Target, now: float) -> None:
        self._log(
            "announced",
            "new target",
            sequence=announcement.sequence,
            live=announcement.live,
        )
        self.directories.announce(announcement)
        for state in self.rules:
            if state.is_frozen:
                if state.progress.tried is None:
                    state.progress.adopt(self._frozen_at_start(announcement))
                    state.loaded_by_itself = True
                delay = max(self._splay(state), self._delay_for_files())
                state.progress.set_desired(announcement.frozen, now, delay=delay)

    def _delay_for_files(self) -> float:
        """Return how long an announced restart waits for files that were announced with it.

        A kubelet updates the file with the announcement and other volumes in any order, within
        milliseconds. Where another rule restarts the application for the files, both are one.
        """
        others = any(_restarts_application(each) for each in self.rules if not each.is_frozen)
        is_awaited = others and self.directories.target_state == NOT_PROJECTED
        return self._settings.watch.settle if is_awaited else 0.0

    def _frozen_at_start(self, announcement: Target) -> str:
        """Name what the containers started with, at the first announcement.

        If it came while this agent was running, or after an earlier one that knew none, that is
        what was there before; an announcement that was there at the start of the first agent may
        be older than the containers.
        """
        came_later = self.gate.seen is not None or self._ran_before
        before = announcement.frozen_before if came_later else ""
        return before or announcement.frozen

    def _record_check(self, check: CheckFinished, now: float) -> None:
        self.checks[check.result] += 1
        self._passed_at = now if check.result == PASSED else 0.0
        latest = self._snapshot
        if check.result == ERROR:
            if not self.gate.failures or check.error != self.gate.error:
                self._warn("check", check.error)
            self.gate.fail(check.error, check.exit_status, now=now, delay=self._delay)
        elif check.result == REFUSED:
            self.gate.refuse(check.error, check.exit_status)
            self._snapshot = None
            self._warn("refused", check.error, digest=self.gate.refused)
            if self._settings.once:
                self._commands.append(Exit(1))
            elif self._can_start_from_stage and not self.has_content:
                self._start_from_stage()
        else:
            self._record_passed(check.snapshot, now)
            return
        if latest is not None and latest.digest == self.gate.seen == self.gate.passed:
            # It came back during the check. A process that started meanwhile has the other one.
            self._snapshot = None
            self.gate.error = ""
            self._set_desired(latest, now)

    def _record_passed(self, snapshot: Snapshot, now: float) -> None:
        self.gate.accept()
        if self.gate.seen == snapshot.digest:
            self._snapshot = None
        is_first = not self.started
        self._set_desired(snapshot, now)
        if self._settings.once:
            self._log("done", "content passed its check", digest=snapshot.digest)
            self._commands.append(Exit(0))
        elif is_first and self._settings.application.command and not self._started_from_stage:
            # It reads the content when it starts.
            started = [state for state in self.rules if state.is_about_application]
            for state in started:
                state.adopt()
            if self.gate.seen != snapshot.digest:
                self._exposure.record_start(started, self.gate.seen_since)
            self._commands.append(StartApplication())
            self._update_loaded(now)

    def _start_from_stage(self) -> None:
        """Start the application with content that has passed before.

        Which it is, is not known, so whatever passes next is loaded.
        """
        self._started_from_stage = True
        for state in self.rules:
            if state.is_about_application:
                state.progress = Progress()
                state.at_start = ""
        self._log("published", "starting with the content that was published last")
        self._commands.append(StartApplication())

    def _record_attempt(self, attempt: AttemptFinished, now: float) -> None:
        state = next(state for state in self.rules if state.rule.name == attempt.rule)
        if not attempt.by_itself and (state.is_called or state.signals_only):
            self._exposure.record_call()
        if state.progress.undone:
            state.progress.end_undone(now)
        elif attempt.error:
            self._record_failed_attempt(state, attempt, now)
        else:
            self._record_load(state, attempt, now)
        self._update_loaded(now)

    def _record_failed_attempt(
        self, state: RuleState, attempt: AttemptFinished, now: float
    ) -> None:
        progress = state.progress
        state.failures += 1
        if not progress.failures or attempt.error != progress.error:
            self._warn("failed", attempt.error, rule=attempt.rule, digest=progress.tried)
        progress.record_failure(
            attempt.error, position=attempt.position, now=now, delay=self._delay
        )

    def _record_load(self, state: RuleState, attempt: AttemptFinished, now: float) -> None:
        """Record an attempt that succeeded, and log what it shows about the process."""
        progress = state.progress
        reads_for = self._settings.actions.verify_timeout if state.reads_later else 0.0
        progress.record_success(now, by_itself=attempt.by_itself, reads_for=reads_for)
        if not (attempt.by_itself and state.doubted):
            state.loaded_by_itself = attempt.by_itself
            state.is_proven = attempt.is_proven
        if attempt.doubt or not (attempt.by_itself and state.doubted):
            state.doubt = attempt.doubt
        state.at_start = ""
        state.loaded_files = state.attempted_files
        if _restarts_application(state) and not attempt.by_itself:
            self._adopt_held()
            self._end_doubts(state.doubts_before)
        if state.doubt:
            self._log("told", state.doubt, rule=attempt.rule, digest=progress.loaded)
        elif attempt.by_itself:
            how = "process still has it" if state.doubted else "process loaded it at start"
            self._log("adopted", how, rule=attempt.rule)
        else:
            state.loads += 1
            state.loaded_at = attempt.at
            # Announced content counts as loaded for the next agent, not at the request.
            is_loaded = state.is_confirmed and not state.restarts_all_containers
            event = "loaded" if is_loaded else "told"
            message = "content loaded" if is_loaded else _unconfirmed(state)
            self._log(event, message, rule=attempt.rule, digest=progress.loaded)

    def _record_start_failure(self, fact: ApplicationStartFailed, now: float) -> None:
        """Keep the application as it is until its content changes: each attempt would stop it."""
        self._warn("failed", fact.error)
        for state in self.rules:
            is_awaited = state.rule.name in fact.awaited and not state.progress.done
            if _restarts_application(state) and not is_awaited:
                state.failures += 1
                state.progress.hold(fact.error, now)
        self._update_loaded(now)

    def _record_altered_stage(self, fact: StageAltered) -> None:
        """Publish again; what passed is not in memory, so it has to be mounted still, and to pass.

        A program may alter its files each time that it starts, so none is restarted for that.
        """
        is_mounted = self.gate.seen == self.gate.passed
        when = (
            "they are published again"
            if is_mounted
            else "they stay changed until content passes its check"
        )
        self._warn("stage", f"another program has changed published files: {when}")
        self.gate.revoke()
        self._exposure.record_altered_stage(fact.since)

    def _set_desired(self, snapshot: Snapshot, now: float) -> None:
        """Set what every rule should load; of a snapshot only digests are kept."""
        self._passed = snapshot._replace(contents={})
        self.directories.accept(snapshot)
        since = self._visible_since(snapshot, now)
        is_staged = bool(self._settings.checks.stage)
        if is_staged:
            self._exposure.record_publication(snapshot, since)
        for state in self.rules:
            if not state.is_frozen:
                state.files, digest = state.select(snapshot.files, self._key)
                if state.at_start is None:
                    # What an earlier agent did not get loaded may end each process that starts.
                    loads_by_signal = state.signals_only and not state.rule.read_at_start
                    was_tried = loads_by_signal and state.progress.tried == digest
                    state.at_start = "" if was_tried else digest
                state.progress.set_desired(digest, now, since=since, delay=self._splay(state))
                if is_staged or self.gate.seen == snapshot.digest:
                    state.progress.restore(now, since)
        self.directories.compare_files_without_rule(
            snapshot.files,
            [state for state in self.rules if not state.is_frozen],
            ran_before=self._ran_before,
        )
        self._update_loaded(now)

    def _visible_since(self, snapshot: Snapshot, now: float) -> float:
        """Return since when a process that starts reads this content, which has just passed."""
        is_published = self._settings.checks.stage or self._settings.render is not None
        if is_published or self.gate.seen != snapshot.digest:
            return now
        return self.gate.seen_since

    def _adopt_held(self) -> None:
        """Record that a restart has loaded what another rule about the application held back."""
        for state in self.rules:
            if _restarts_application(state) and state.progress.held:
                state.adopt()
                state.loaded_by_itself = False  # it was restarted for that

    def _end_doubts(self, before: Mapping[str, str]) -> None:
        """Record that the application was restarted, which may have read other content before."""
        for state in self.rules:
            is_certain = state.progress.is_certain and not state.progress.pending
            is_about_previous = state.doubt and state.doubt == before.get(state.rule.name)
            if _restarts_application(state) and is_certain and is_about_previous:
                state.doubt = ""

    def _update_loaded(self, now: float) -> None:
        pending = [d for state in self.rules if state.progress.pending for d in state.directories]
        self.directories.load(pending, now)

    def _splay(self, state: RuleState) -> float:
        """Choose how long a restart waits, so that replicas do not restart at the same moment."""
        return self._random() * self._settings.actions.splay if state.restarts else 0.0

    def _delay(self, failures: int) -> float:
        actions = self._settings.actions
        return backoff(
            failures, first=actions.retry_first, longest=actions.retry_max, random=self._random
        )

    def _log(self, event: str, message: str, **fields: object) -> None:
        self._transitions.append(Transition(event, message, fields))

    def _warn(self, event: str, message: str, **fields: object) -> None:
        self._transitions.append(Transition(event, message, fields, is_warning=True))


def _progress(kept: KeptAttempt | None) -> Progress:
    if kept is None:
        return Progress()
    return Progress(tried=kept.tried, done=kept.done, exposed_since=kept.exposed_since)


def _unconfirmed(state: RuleState) -> str:
    if state.restarts:
        return "restart of all containers requested; not confirmed"
    if all(action.kind == "none" for action in state.rule.actions):
        return "no action is set: the application has to read changed files by itself"
    return "reload sent; not confirmed"


def _restarts_application(state: RuleState) -> bool:
    return any(action.restart_mode == "supervised" for action in state.rule.actions)
