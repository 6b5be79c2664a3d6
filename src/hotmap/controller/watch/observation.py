"""What is true of one consumer now: its policy, what was asked of it, and what its sources hold.

Reads the stores and the records, sends nothing and decides nothing. Whoever decides (`reconcile`)
and whoever looks at pods afterwards (`lookout`) start from the same observation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from hotmap.controller.storage.records import Records
from hotmap.controller.watch.index import Index
from hotmap.core.decide.plan import live_change_rolls
from hotmap.core.decide.snapshot import SourceSnapshot, take_snapshots
from hotmap.core.fingerprint import FingerprintKey
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.source import Source
from hotmap.core.model.state import Record
from hotmap.core.policy.policy import Policy, followed_uses

__all__ = ["Observation", "Observer"]


class Observation(NamedTuple):
    """One consumer and its sources, as they are now."""

    consumer: Consumer
    policy: Policy
    #: None: nothing is known, or it was made with a key that is lost.
    record: Record | None
    #: The key that `presents` are fingerprinted with: the record's, else the newest.
    key: FingerprintKey
    sources: Mapping[ObjectKey, Source]
    snapshots: tuple[SourceSnapshot, ...]
    #: Nobody in the pods takes a live change.
    live_rolls: bool


class Observer:
    """Observes consumers for as long as its stores are kept."""

    def __init__(self, *, index: Index, records: Records, keys: Sequence[FingerprintKey]) -> None:
        self._index = index
        self._records = records
        self._keys = {key.id: key for key in keys}
        #: What new records are made with.
        self.newest = keys[0]

    @property
    def key_ids(self) -> AbstractSet[str]:
        """Ids of all keys that records and templates may have been made with by us."""
        return self._keys.keys()

    def observe(self, consumer: Consumer) -> Observation:
        """Put together what is known of a consumer at this moment."""
        index, policy = self._index, self._index.policy(consumer)
        record = self._records.get(consumer.uid)
        key = self._keys.get(record.key_id) if record else None
        if key is None:  # nothing known, or with a key that is lost
            record, key = None, self.newest
        uses = followed_uses(
            consumer,
            policy,
            self._sources_to_match(consumer, policy, record),
            offered=index.is_offered,
        )
        sources = index.sources_of(uses)
        ignored = index.ignored(sources)
        return Observation(
            consumer,
            policy,
            record,
            key,
            sources,
            snapshots=take_snapshots(
                [use for use in uses if use.source not in ignored], sources, key
            ),
            live_rolls=live_change_rolls(consumer, policy),
        )

    def _sources_to_match(
        self, consumer: Consumer, policy: Policy, record: Record | None
    ) -> Sequence[ObjectKey]:
        """List what name patterns are tried on: sources that exist, and those that once did."""
        if not policy.named:
            return ()
        namespace = consumer.key.namespace
        asked = record.sources if record else ()
        known = [ObjectKey(source.kind, namespace, source.name) for source in asked]
        return [*self._index.sources_in(namespace), *known]
