"""The recent changes of sources, as many as are kept in memory and in the state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable

from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.state import SourceChanges

__all__ = ["RecentChanges", "last_changed_at"]

#: Seconds for which changes of sources are kept; at a later revert the consumers were already
#: rolled out or reported. Of a source that is still in use a deletion is kept: if it is created
#: again while no controller runs, only that shows that pods have started without it.
_KEPT_FOR = 3600.0

#: Old deletions that are kept at one change of a source, which adds one at most.
_EXAMINED = 2

#: Sources whose changes are kept at most, a few hundred bytes each.
_MAX_SOURCES = 4096


class RecentChanges:
    """The changes by source; of too many, the oldest of the namespace with most of them go first.

    So a tenant that writes thousands of sources loses what is known of these; no other tenant does.
    """

    def __init__(self) -> None:
        #: Those that changed last are last.
        self._changes: dict[ObjectKey, SourceChanges] = {}
        self._counts: Counter[str] = Counter()
        #: Whether a source is used, which may not exist.
        self.is_used: Callable[[ObjectKey], bool] = lambda source: False

    def __len__(self) -> int:
        return len(self._changes)

    def values(self) -> Collection[SourceChanges]:
        """Return them; those of the source that changed last are last."""
        return self._changes.values()

    def get(self, source: ObjectKey) -> SourceChanges | None:
        """Return the changes of a source."""
        return self._changes.get(source)

    def put(self, changes: SourceChanges) -> None:
        """Store the changes of the source that changed last, and drop what is kept no longer."""
        self._drop(changes.source)
        self._add(changes)
        oldest = changes.changes[-1].at - _KEPT_FOR
        self._drop_before(oldest)
        while len(self._changes) > _MAX_SOURCES:
            fullest = max(self._counts, key=self._counts.__getitem__)
            self._drop(next(key for key in self._changes if key.namespace == fullest))

    def _drop_before(self, oldest: float) -> None:
        kept = 0
        while last_changed_at(first := next(iter(self._changes.values()))) < oldest:
            self._drop(first.source)
            last = first.changes[-1:]
            if not last[0].resource_version and self.is_used(first.source):
                self._add(SourceChanges(first.source, last))  # to be examined after all others
                kept += 1
                if kept == _EXAMINED:
                    return

    def restore(self, changes: Iterable[SourceChanges]) -> None:
        """Add changes that were stored before."""
        for each in changes:
            self._drop(each.source)
            self._add(each)

    def clear(self) -> None:
        """Drop everything."""
        self._changes.clear()
        self._counts.clear()

    def _add(self, changes: SourceChanges) -> None:
        self._changes[changes.source] = changes
        self._counts[changes.source.namespace] += 1

    def _drop(self, source: ObjectKey) -> None:
        if self._changes.pop(source, None) is not None:
            self._counts[source.namespace] -= 1
            if not self._counts[source.namespace]:
                del self._counts[source.namespace]


def last_changed_at(changes: SourceChanges) -> float:
    """Return when a source was last observed to change, POSIX seconds."""
    return changes.changes[-1].at
