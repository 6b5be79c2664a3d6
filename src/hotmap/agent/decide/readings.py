"""When directories are read, and since when other content may be visible than was read last.

Content that is replaced before it is read is in no reading, but a process may have read it.
"""

from __future__ import annotations

from hotmap.agent.decide.settle import SettleTimer

__all__ = ["Readings"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotmap.agent.decide.snapshot import Snapshot


class Readings:
    """The readings of all directories; times are of one clock."""

    def __init__(self, settle: float, settle_max: float, now: float) -> None:
        """Wait `settle` after an update for more of them, and `settle_max` in total."""
        self._settle = SettleTimer(settle, settle_max)
        #: When all directories were compared last.
        self.polled_at = now
        #: When the last complete reading began, and when the current one did.
        self._read_at = self._began = 0.0
        #: Since when there may be other content; None while no update was seen.
        self._changed_since: float | None = None
        #: Since when it is known that there was an update, or that something cannot be read; None
        #: where everything was read since.
        self.unread_since: float | None = None
        #: Whether there was content that could not be read, since the last complete reading.
        self._unreadable = False
        #: The revisions that were read, by directory that a kubelet writes.
        self._revisions: Mapping[str, str] = {}

    def poll(self, now: float) -> None:
        """Record that all directories were compared, and every update was seen."""
        self.polled_at = now

    def update(self, now: float, *, quiet_at: float = 0.0) -> None:
        """Record that an update was seen; until `quiet_at`, there was none."""
        if self._changed_since is None:
            # It was there at the earliest after the last moment at which nothing had changed.
            self._changed_since = max(self.polled_at, self._read_at, quiet_at)
        self._set_unread(now)
        self._settle.touch(now)

    def due_at(self) -> float | None:
        """When to read; None while there was no update."""
        return self._settle.due_at()

    def begin(self, now: float) -> None:
        """Record that a reading begins."""
        self._settle.clear()
        self._began = now

    def fail(self, now: float, *, is_unknown: bool = False) -> None:
        """Record that what is there cannot be read.

        So it is other content than was read last, unless `is_unknown`.
        """
        self._set_unread(now)
        if is_unknown:
            return
        if self._read_at and self._changed_since is None:
            self._changed_since = self._read_at
        self._unreadable = self._read_at > 0

    def _set_unread(self, now: float) -> None:
        if self.unread_since is None:
            self.unread_since = now

    def complete(self, snapshot: Snapshot, revisions: Mapping[str, str]) -> Snapshot:
        """Add to a reading whether other content may have been visible since the one before."""
        replaced = any(
            self._revisions.get(directory, name) != name for directory, name in revisions.items()
        )
        self._revisions = dict(revisions)
        complete = snapshot._replace(
            changed_since=self._changed_since,
            replaced=replaced,
            unreadable=self._unreadable,
            revisions=self._revisions,
        )
        self._read_at, self._changed_since, self._unreadable = self._began, None, False
        self.unread_since = None
        return complete
