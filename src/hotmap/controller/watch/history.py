"""What hotmap itself saw of its sources' changes, for the last minutes.

It tightens what the objects say (managedFields have whole seconds and move with every write),
finds edits that were taken back before anybody acted, and names the data keys in reasons.
Nothing is decided on it alone, and losing it loses no change. What was seen of followed sources is
kept with the records all the same, since only it tells that a pod started between an edit and its
revert: a controller that was killed in between goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hotmap.core.decide.snapshot import SourceSnapshot
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.references import Use
from hotmap.core.model.source import Source, changed_keys
from hotmap.core.model.state import Sighting, Window

__all__ = ["History"]

#: Changes kept per source; a window needs the first and the last since something was asked.
_KEPT = 32


class History:
    """The latest data changes of each source."""

    def __init__(self) -> None:
        self._sightings: dict[ObjectKey, list[Sighting]] = {}

    def note(self, key: ObjectKey, old: Source | None, new: Source | None, *, now: float) -> bool:
        """Note a change; False when no data key changed (labels, annotations, the same data)."""
        keys = changed_keys(old, new)
        if not keys and (old is None) == (new is None):
            return False
        kept = self._sightings.setdefault(key, [])
        kept.append(Sighting(now, new.resource_version if new else "", keys))
        # The first one stays: it is where a window may begin.
        del kept[1 : max(1, len(kept) - _KEPT)]
        return True

    def sightings(self, key: ObjectKey) -> tuple[Sighting, ...]:
        """Return what is known of a source's latest changes, oldest first."""
        return tuple(self._sightings.get(key, ()))

    def restore(self, key: ObjectKey, saved: Sequence[Sighting], present: Source | None) -> None:
        """Put before what was seen here what another controller saw before it ended.

        If the source was written since its last sighting and nobody saw that, something may have
        changed, no later than its last write: that counts as one more.
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

    def keys_since(self, key: ObjectKey, resource_version: str) -> frozenset[str]:
        """Name the data keys seen to change after a resourceVersion of the source."""
        return frozenset().union(*(s.keys for s in self._since(key, resource_version)))

    def first_since(self, present: SourceSnapshot, resource_version: str) -> float | None:
        """Say when a used data key was first seen to change after a resourceVersion."""
        seen = self._used(present, resource_version)
        return seen[0].at if seen else None

    def last_since(self, present: SourceSnapshot, resource_version: str) -> float | None:
        """Say when a used data key was last seen to change after a resourceVersion."""
        seen = self._used(present, resource_version)
        return seen[-1].at if seen else None

    def window_since(self, present: SourceSnapshot, resource_version: str) -> Window | None:
        """Bound the time in which a source held other content than at a resourceVersion and now.

        None when no data key that `present` uses was seen to change.
        """
        seen = self._used(present, resource_version)
        return Window(seen[0].at, seen[-1].at) if len(seen) > 1 else None

    def _used(self, present: SourceSnapshot, resource_version: str) -> list[Sighting]:
        return [
            sighting
            for sighting in self._since(present.source, resource_version)
            if not sighting.keys or _reads_any(present.uses, sighting.keys)
        ]

    def _since(self, key: ObjectKey, resource_version: str) -> list[Sighting]:
        """Select what was seen after a resourceVersion.

        Versions of one resource may be compared as numbers (KEP-5504). A deletion carries none;
        it belongs to what was seen before it.
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
    return int(resource_version) if resource_version.isdigit() else 0


def _reads_any(uses: Iterable[Use], keys: Iterable[str]) -> bool:
    wanted = tuple(keys)
    return any(
        use.keys.select(key, binary=False) or use.keys.select(key, binary=True)
        for use in uses
        for key in wanted
    )
