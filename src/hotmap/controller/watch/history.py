"""The recent data changes of sources that hotmap observed itself.

It bounds changes more tightly than managedFields (whole seconds, updated by every write), detects
edits that were reverted before an action, and names the data keys in reasons. No decision needs it,
and losing it loses no change. Changes of followed sources are stored with the records, since only
they show that a pod started between an edit and its revert: a controller that was killed in between
continues from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from hotmap.core.decide.snapshot import SeenChanges, SourceSnapshot
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.references import Use
from hotmap.core.model.source import Source, changed_keys
from hotmap.core.model.state import Sighting, Window
from hotmap.core.text import parse_number

__all__ = ["History"]

#: Changes kept per source; a window needs the first and the last since the last applied version.
_KEPT = 32

#: Data keys that are named in one change; with more, the keys count as unknown.
_KEYS = 256

#: Seconds for which the changes of a deleted source are kept, in case it is recreated, and the
#: maximum number of deleted sources, which bounds memory.
_DELETED_FOR = 3600.0
_DELETED_AT_MOST = 4096


class History:
    """The latest data changes of each source."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` returns POSIX seconds of the API server."""
        self._clock = clock
        self._sightings: dict[ObjectKey, list[Sighting]] = {}
        #: Bounds of a source's last data change that are tighter than its own last write.
        self._changed_at: dict[ObjectKey, float | None] = {}
        #: Deletion times of sources that were not recreated, oldest first.
        self._deleted: dict[ObjectKey, float] = {}

    def note(self, key: ObjectKey, old: Source | None, new: Source | None) -> bool:
        """Record a change; return False if no data key changed."""
        keys = changed_keys(old, new)
        self._deleted.pop(key, None)
        if not keys and old is not None and new is not None:
            self._changed_at.setdefault(key, old.changed_at)
            return False
        self._changed_at.pop(key, None)
        now = self._clock()
        kept = self._sightings.setdefault(key, [])
        named = keys if len(keys) <= _KEYS else frozenset[str]()
        kept.append(Sighting(now, new.resource_version if new else "", named))
        # The first one stays, since a window may begin there.
        del kept[1 : max(1, len(kept) - _KEPT)]
        if new is None:
            self._deleted[key] = now
            self._drop_deleted(now)
        return True

    def _drop_deleted(self, now: float) -> None:
        """Drop the sources that were deleted long ago, and above the limit the oldest ones."""
        while self._deleted:
            key, at = next(iter(self._deleted.items()))
            if len(self._deleted) <= _DELETED_AT_MOST and now - at <= _DELETED_FOR:
                return
            del self._deleted[key]
            self._sightings.pop(key, None)

    def bounded(self, source: Source) -> Source:
        """Restore the change time if only labels and annotations were written since."""
        if source.key not in self._changed_at:
            return source
        return msgspec.structs.replace(source, changed_at=self._changed_at[source.key])

    def changes_since(self, source: SourceSnapshot, resource_version: str) -> SeenChanges:
        """Return the observed changes of a source after a resourceVersion."""
        seen = self._since(source.source, resource_version)
        used = [s for s in seen if not s.keys or _reads_any(source.uses, s.keys)]
        return SeenChanges(
            keys=frozenset().union(*(s.keys for s in seen)),
            first=used[0].at if used else None,
            last=used[-1].at if used else None,
            window=Window(used[0].at, used[-1].at) if len(used) > 1 else None,
            latest=self._latest(source),
        )

    def _latest(self, source: SourceSnapshot) -> float | None:
        """Return when a used data key was last observed to change."""
        for sighting in reversed(self._sightings.get(source.source, ())):
            if not sighting.keys or _reads_any(source.uses, sighting.keys):
                return sighting.at
        return None

    def sightings(self, key: ObjectKey) -> tuple[Sighting, ...]:
        """Return the known latest changes of a source, oldest first."""
        return tuple(self._sightings.get(key, ()))

    def restore(self, key: ObjectKey, saved: Sequence[Sighting], present: Source | None) -> None:
        """Prepend the changes that an earlier controller observed.

        If the source was written since its last sighting without being observed, its data may have
        changed, no later than its last write: that counts as one more change.
        """
        own = self._sightings.get(key, [])
        begun = _number(own[0].resource_version) if own else 0
        earlier = [one for one in saved if not own or _number(one.resource_version) < begun]
        if earlier and not own and present is not None:
            last = earlier[-1]
            if _number(present.resource_version) > _number(last.resource_version):
                at = max(last.at, (present.changed_at or last.at) + 1)
                own = [Sighting(at, present.resource_version, frozenset())]
        if earlier:
            self._sightings[key] = [*earlier, *own]
            if present is None:
                self._deleted.setdefault(key, self._clock())

    def _since(self, key: ObjectKey, resource_version: str) -> list[Sighting]:
        """Select the changes after a resourceVersion.

        Versions of one resource may be compared as numbers (KEP-5504). A deletion carries none;
        it belongs to the change before it.
        """
        asked = _number(resource_version)
        kept = self._sightings.get(key, [])
        for position, sighting in enumerate(kept):
            if sighting.resource_version and _number(sighting.resource_version) > asked:
                start = position
                while start > 0 and not kept[start - 1].resource_version:
                    start -= 1
                return kept[start:]
        tail = len(kept)
        while tail > 0 and not kept[tail - 1].resource_version:
            tail -= 1
        return kept[tail:]


def _number(resource_version: str) -> int:
    return parse_number(resource_version) or 0


def _reads_any(uses: Iterable[Use], keys: Iterable[str]) -> bool:
    wanted = tuple(keys)
    return any(use.keys.reads(key) for use in uses for key in wanted)
