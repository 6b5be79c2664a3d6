"""Follows the use of immutable sources, which kubelets serve for as long as a pod uses them.

A new use is recorded at once. The decision follows after the settle time and may wait for a
rollout; until then pods may start, and the controller may end. See `core/decide/immutable_uses`.
When a consumer has no pods left, the consumers that are held for the same source are decided on
again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hotmap.controller.storage.records import Records
from hotmap.controller.watch.changes import ChangeListener
from hotmap.controller.watch.index import Index
from hotmap.core.decide.immutable_uses import add_immutable_uses
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.source import Source
from hotmap.core.model.state import ImmutableUse, Record

__all__ = ["ImmutableUses"]


class ImmutableUses:
    """Adds immutable sources to the records of their consumers, and notices when pods end."""

    def __init__(self, index: Index, changes: ChangeListener, records: Records) -> None:
        self._index = index
        self._changes = changes
        self._records = records

    def subscribe(self) -> Iterable[Callable[[], None]]:
        """Follow the stores of the index; returns how to stop that."""
        for sources in self._index.sources.values():
            yield sources.subscribe(self._source_changed)
        for consumers in self._index.consumers.values():
            yield consumers.subscribe(self._consumer_changed)

    def _source_changed(self, key: ObjectKey, old: Source | None, new: Source | None) -> None:
        if new is None or not new.immutable:
            return
        if old is not None and (old.uid, old.immutable) == (new.uid, True):
            return

        def may_add(consumer: Consumer) -> bool:
            # First, since few are left if a source of thousands of consumers is recreated often.
            record = self._records.get(consumer.uid)
            return record is not None and _add_uses(record, [new]) is not record

        for consumer in self._index.users_of(key, among=may_add):
            self._add(consumer, [new])

    def _consumer_changed(self, key: ObjectKey, old: Consumer | None, new: Consumer | None) -> None:
        if old is not None and not old.has_no_pods and (new is None or new.has_no_pods):
            self._pods_ended(old)
        if new is None or (old is not None and old.uses is new.uses):
            return  # nearly always: a status has changed
        # Without a record there is nothing to add to: the first one has them.
        if not self._has_record(new) or (old is not None and old.uses == new.uses):
            return
        found = self._index.sources_of(new.uses).values()
        if immutable := [source for source in found if source.immutable]:
            self._add(new, immutable)

    def _pods_ended(self, consumer: Consumer) -> None:
        found = self._index.sources_of(consumer.uses)
        for key, source in found.items():
            if self._records.served_instead(key, source.uid):
                self._changes.decide_again(key)

    def _has_record(self, consumer: Consumer) -> bool:
        return self._records.get(consumer.uid) is not None

    def _add(self, consumer: Consumer, sources: Iterable[Source]) -> None:
        record = self._records.get(consumer.uid)
        if record is not None:
            self._records.put(_add_uses(record, sources))


def _add_uses(record: Record, sources: Iterable[Source]) -> Record:
    uses = [ImmutableUse(each.key.kind, each.key.name, each.uid) for each in sources]
    return add_immutable_uses(record, uses)
