"""How far each directory is: announced, projected, passed its check, loaded."""

from __future__ import annotations

from math import inf

from hotmap.agent.decide.announcement import NONE, Comparison, TargetState, overall_state

__all__ = ["DirectoryState", "DirectoryStates"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hotmap.agent.decide.rule_state import RuleState
    from hotmap.agent.decide.snapshot import Snapshot
    from hotmap.core.target import Target


class DirectoryState:
    """One directory; its digests are comparable only within this agent."""

    def __init__(self) -> None:
        #: What the last reading found; what passed its check last; what every rule about the
        #: directory has loaded last.
        self.projected: str | None = None
        #: When that was written, seconds since boot, or earlier; None: it has not changed since the
        #: agent started.
        self.changed_at: float | None = None
        self.passed: str | None = None
        self.loaded: str | None = None
        #: Whether a rule about it has to load what passed, which may be what it had loaded before
        #: it tried other content.
        self.is_pending = False
        #: Since when it has held content that is not loaded.
        self.pending_since: float | None = None
        self.target = TargetState(NONE, "")
        #: Whether files that no rule is about are not as the first reading found them.
        self.changed_without_rule = False

    @property
    def is_loaded(self) -> bool:
        """Whether every rule about it has loaded what it holds."""
        return self.projected == self.loaded and not self.is_pending

    def update_pending_since(self, now: float) -> None:
        """Set or clear `pending_since` after a change."""
        if self.is_loaded:
            self.pending_since = None
        elif self.pending_since is None:
            self.pending_since = now


class DirectoryStates:
    """All watched directories."""

    def __init__(self, directories: Iterable[str]) -> None:
        self.rows = {directory: DirectoryState() for directory in directories}
        #: What was announced last.
        self.announcement: Target | None = None
        self._payloads: dict[str, str] = {}
        self._comparison = Comparison()
        #: The files that no rule is about as they were first; None before the first content passed.
        self._first_without_rule: dict[str, str] | None = None

    def announce(self, announcement: Target) -> None:
        """Record what was announced."""
        self.announcement = announcement
        self._compare()

    def project(self, snapshot: Snapshot, now: float) -> None:
        """Record what was read."""
        for directory, row in self.rows.items():
            found = snapshot.directories[directory]
            if row.projected is not None and found != row.projected:
                row.changed_at = _written_at(snapshot, directory, now)
            row.projected = found
            row.update_pending_since(now)
        self._payloads = snapshot.payloads
        self._compare()

    def accept(self, snapshot: Snapshot) -> None:
        """Record what passed its check."""
        for directory, row in self.rows.items():
            row.passed = snapshot.directories[directory]

    def load(self, pending: Iterable[str], now: float) -> None:
        """Record that what passed is loaded, except in directories with a pending rule."""
        waiting = set(pending)
        for directory, row in self.rows.items():
            row.is_pending = directory in waiting
            if not row.is_pending and row.passed is not None:
                row.loaded = row.passed
            row.update_pending_since(now)

    def compare_files_without_rule(
        self, files: Mapping[str, str], rules: Sequence[RuleState], *, ran_before: bool
    ) -> None:
        """Record where files have changed that no rule is about: no process is told to load them.

        files: digests by path, of content that passed
        ran_before: an agent ran before this one, so it is not known what they were first
        """
        if all(any(state.covers(directory) for state in rules) for directory in self.rows):
            return
        about = set[str]().union(*(state.files for state in rules))
        others = {path: digest for path, digest in files.items() if path not in about}
        if self._first_without_rule is None:
            self._first_without_rule = {} if ran_before else others
        first = self._first_without_rule
        changed = [
            path for path in others.keys() | first.keys() if others.get(path) != first.get(path)
        ]
        for directory, row in self.rows.items():
            within = f"{directory}/"
            row.changed_without_rule = any(path.startswith(within) for path in changed)

    @property
    def all_loaded_once(self) -> bool:
        """Whether every directory has been loaded at some time."""
        return all(row.loaded is not None for row in self.rows.values())

    @property
    def target_state(self) -> str:
        """How all of them together compare with the announcement."""
        return overall_state(row.target for row in self.rows.values())

    @property
    def order_is_assumed(self) -> bool:
        """Whether it is not known by order that the files are those of the announcement."""
        return self._comparison.is_assumed

    def payload(self, directory: str) -> str:
        """Return the payload digest of a directory that has one of the announced ones, or "".

        Those of Secrets are never announced, so nothing can be guessed from it.
        """
        announced = self.announcement.payloads if self.announcement else ()
        found = self._payloads.get(directory, "")
        return found if found in announced else ""

    def _compare(self) -> None:
        digests = {d: row.projected for d, row in self.rows.items() if row.projected is not None}
        states = self._comparison.compare(self.announcement, digests, self._payloads)
        for directory, state in states.items():
            self.rows[directory].target = state


def _written_at(snapshot: Snapshot, directory: str, now: float) -> float:
    """Return when a directory was written, or an earlier time: never a later one.

    The controller takes an update that is younger than an edit for the update with that edit. The
    time of the reading is no answer: that comes at a poll, or once the content has settled. File
    times are of the wall clock, which may have been set; when an update was seen limits the error.
    """
    written = min(now, snapshot.written.get(directory, -inf))
    since = snapshot.changed_since
    if since is None:
        return written if written > -inf else now
    return max(written, since)
