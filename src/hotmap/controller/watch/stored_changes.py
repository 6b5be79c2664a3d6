"""Keeps the observed changes of sources in the records, where the next controller finds them.

They alone show that a pod started between an edit and its revert.
"""

from __future__ import annotations

from hotmap.controller.storage.records import Records
from hotmap.controller.watch.index import Index
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.observed_changes import thin_changes
from hotmap.core.model.source import Source
from hotmap.core.model.state import Record, SourceChanges

__all__ = ["StoredChanges"]

#: Number of changes of one source that are stored; of more, several become one.
_MOST = 8


class StoredChanges:
    """The stored changes of the sources that consumers follow, or that records have."""

    def __init__(self, index: Index, records: Records) -> None:
        self._index = index
        self._records = records
        records.keep_deletions(self._is_used)

    def restore(self) -> None:
        """Restore the changes that the previous controller observed and this one did not."""
        saved = {each.source: each.changes for each in self._records.changes()}
        self._index.history.restore(saved, until=self._records.watched_until)

    def source_changed(self, key: ObjectKey, old: Source | None, new: Source | None) -> None:
        """Store a change of a source that is followed, or was while a record was made."""
        if self._is_used(key):
            self._put(key)

    def note_deletions(self, record: Record) -> None:
        """Record which sources of a record were deleted while no controller watched.

        The next controller may find them again, with the same content.
        """
        for source in record.sources:
            key = ObjectKey(source.kind, record.namespace, source.name)
            if source.uid and self._index.lacks(key):
                self.note_deletion(key)

    def note_deletion(self, key: ObjectKey) -> None:
        """Record that a source was deleted while no controller watched."""
        if self._index.history.record_missing(key):
            self._put(key)

    def _put(self, key: ObjectKey) -> None:
        changes = thin_changes(self._index.history.changes(key), _MOST)
        if changes:
            self._records.put_changes(SourceChanges(key, changes))

    def _is_used(self, key: ObjectKey) -> bool:
        """Return whether a source is followed, or was while a record was made."""
        return self._index.is_followed(key) or self._is_recorded(key)

    def _is_recorded(self, key: ObjectKey) -> bool:
        """Return whether a user of a source has a record, whether it is followed now or not.

        It may be followed again, and what happened meanwhile is known from these changes alone.
        """
        return bool(
            self._index.users_of(
                key, among=lambda consumer: self._records.get(consumer.uid) is not None
            )
        )
