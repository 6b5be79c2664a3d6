"""Which processes may have read other content than what they should load.

Content that is mounted is visible before it passes its check, and also where it never does: a
process that starts meanwhile reads it. With a stage, only what is published is visible. Once the
content that was tried last is visible again, it is loaded again (`Progress.restore`), unless the
process has run since before the other content was visible (`start_evidence`). That a process of
any age may have read the other content is recorded as exposed since 0.
"""

from __future__ import annotations

__all__ = ["Exposure"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hotmap.agent.decide.rule_state import RuleState
    from hotmap.agent.decide.snapshot import Snapshot

#: Instead of the digest of what is visible and cannot be read.
_UNREADABLE = ""


class Exposure:
    """Records by rule since when its process may have read other content."""

    def __init__(
        self, rules: Sequence[RuleState], key: bytes, *, is_staged: bool, reads_for: float
    ) -> None:
        """Start without any.

        key: of digests
        is_staged: processes read what is published
        reads_for: seconds that a process may take to read its files after its start
        """
        self._rules = rules
        self._key = key
        self._is_staged = is_staged
        self._reads_for = reads_for
        #: By directory: what identifies the files that were read last, "" if there were others
        #: since, and the digest of their content.
        self.revisions: dict[str, tuple[str, str]] = {}

    def record_downtime(
        self, since: float, revisions: Mapping[str, tuple[str, str]] | None
    ) -> None:
        """Record that no agent ran `since` then, which could have seen other content.

        It is not known which process an endpoint or a command is about, so what the agent before
        has read last, `revisions`, has to show that there was other content.
        """
        if revisions:
            self.revisions = dict(revisions)
        if self._is_staged:
            return
        for state in self._rules:
            if state.knows_process and state.progress.done:
                state.progress.presume(since)
                if state.reads_later:  # at a signal that may have been sent just before
                    state.progress.read_until = since + self._reads_for

    def record_reading(
        self, snapshot: Snapshot, now: float, *, before: str | None, passed: str | None
    ) -> None:
        """Record what is mounted now.

        before: digest of the reading before; None: this is the first one
        passed: digest of what passed its check last
        """
        if before is None:
            self._compare_with_earlier_agent(snapshot)
        self.revisions = {
            directory: (name, snapshot.directories[directory])
            for directory, name in snapshot.names.items()
        }
        if self._is_staged:
            return
        since = snapshot.changed_since
        for state in self._rules:
            if not state.is_frozen:
                _, visible = state.select(snapshot.files, self._key)
                state.progress.see(visible, now)
        if snapshot.digest != passed:
            for state in self._rules:
                self._expose(state, state.progress.visible, now if since is None else since)
        elif since is not None and snapshot.digest == before:
            self._record_unread(since, replaced=snapshot.replaced, unreadable=snapshot.unreadable)

    def record_unreadable(self, directory: str, now: float) -> None:
        """Record, also for the next agent, that there is other content than was read last."""
        if directory in self.revisions:
            _, digest = self.revisions[directory]
            self.revisions = {**self.revisions, directory: ("", digest)}
        for state in self._rules:
            if not self._is_staged and directory in state.directories:
                state.progress.see(_UNREADABLE, now)

    def record_publication(self, snapshot: Snapshot, since: float) -> None:
        """Record that the stage has content `since` then, which has passed its check."""
        for state in self._rules:
            if not state.is_frozen:
                _, digest = state.select(snapshot.files, self._key)
                self._expose(state, digest, since)

    def record_altered_stage(self, since: float) -> None:
        """Record that another program has changed what is published, after `since`."""
        self._record_unread(since)

    def record_call(self) -> None:
        """Record that a call or a signal may have made any process read what is visible.

        It is not known which process a call is about, and two rules may name one in two ways.
        """
        for state in self._rules:
            if state.signals_only and state.progress.exposed_since is not None:
                state.progress.expose(0.0)

    def record_start(self, started: Iterable[RuleState], since: float) -> None:
        """Record that the application starts while other content than what passed is mounted.

        started: the rules about it
        since: since when that is mounted
        """
        if not self._is_staged:
            for state in started:
                state.progress.expose(since)

    def _compare_with_earlier_agent(self, snapshot: Snapshot) -> None:
        """Record that other content was visible while no agent ran, and is not any more.

        A kubelet never writes the same content twice in a row; another writer may. A process that
        has started meanwhile has read the other one, and it is not known which process a call or a
        command is about. One that the agent before has signalled last may have read it as well.
        """
        if self._is_staged:
            return
        before = self.revisions
        returned = {
            directory
            for directory, name in snapshot.names.items()
            if directory in before
            and before[directory][0] != name
            and before[directory][1] == snapshot.directories[directory]
        }
        reads_later = any(state.reads_later for state in self._rules)
        for state in self._rules:
            if not state.progress.done or returned.isdisjoint(state.directories):
                continue
            if state.is_called or (reads_later and state.signals_only):
                state.progress.expose(0.0)
            state.progress.is_presumed = False

    def _record_unread(
        self, since: float, *, replaced: bool = False, unreadable: bool = False
    ) -> None:
        """Record that other content was visible and is not any more, before it could be read.

        It is not known which process an endpoint or a command is about. So what they did meanwhile
        counts, and content that was unreadable, perhaps for long. `replaced` and
        `unreadable` are those of the reading, and say whether it is certain that the content was
        another one. A program may write the same again each time that its reader starts, which must
        not be restarted then. Only the agent starts the application, and not while that is so.
        """
        for state in self._rules:
            if state.is_frozen or state.progress.tried is None:
                continue
            acted = (replaced or unreadable) and state.progress.acted_since(since)
            acted = acted or (unreadable and state.is_called)
            is_running = (replaced or unreadable) and state.progress.running
            follows = state.signals_only or (replaced and state.restarts_process)
            if acted or is_running or follows:
                first = 0.0 if acted else self._first_start(state, since)
                state.progress.expose(first, is_running=is_running)
            elif unreadable and state.restarts_process and state.process != "child":
                state.progress.expose(since, was_unreadable=True)

    def _expose(self, state: RuleState, visible: str | None, since: float) -> None:
        """Record what is visible since then, if it is other content than was tried last."""
        progress = state.progress
        if progress.tried is not None and visible not in (None, progress.tried):
            first = (
                0.0 if self._was_notified_since(state, since) else self._first_start(state, since)
            )
            progress.expose(first, is_running=progress.running)

    def _was_notified_since(self, state: RuleState, since: float) -> bool:
        """Return whether a process was notified since then, perhaps by another rule.

        What another rule is about may be read by a signal, but not where that takes a restart. Two
        rules may name one process in two ways, and a needless signal does no harm.
        """
        others = [
            each.progress
            for each in self._rules
            if each is not state and (each.is_called or each.signals_only)
        ]
        return state.progress.acted_since(since) or (
            state.signals_only and any(each.running or each.acted_since(since) for each in others)
        )

    def _first_start(self, state: RuleState, since: float) -> float:
        """Return from when on a process has to have started to read what is visible since then.

        It reads its files some time after its start. A needless signal does no harm; a needless
        restart does, so there the start counts.
        """
        return since - self._reads_for if state.signals_only else since
