"""How every followed consumer stands, kept up to date so that status and metrics cost nothing.

A standing follows from the last decision, the record, the consumer's own status and the last look
at its pods (`core/status/consumer`). Whoever changes one of these says `update`; only consumers
that are not current are kept.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from hotmap.controller.report.decision_log import DecisionLog
from hotmap.controller.storage.records import Records
from hotmap.controller.watch.index import Index
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.status.consumer import CURRENT, NEW, ConsumerStatus, State, stand

__all__ = ["ConsumerStateStatistics", "ConsumerStates"]


class ConsumerStateStatistics(NamedTuple):
    #: consumers by state; every state is there
    consumers: dict[State, int]
    #: pods that are not up to date, as far as anybody has counted
    behind: int


class ConsumerStates:
    """The standing of each followed consumer."""

    def __init__(self, *, index: Index, decision_log: DecisionLog, records: Records) -> None:
        self._index = index
        self._journal = decision_log
        self._records = records
        #: What the last look at its pods has shown, where it was not that all is current.
        self._found: dict[ObjectKey, ConsumerStatus] = {}
        #: Those that are not current.
        self._others: dict[ObjectKey, ConsumerStatus] = {}
        self._counts: Counter[State] = Counter()
        self._behind = 0

    def of(self, consumer: Consumer) -> ConsumerStatus:
        """Say how a consumer stands now."""
        entry = self._journal.latest(consumer.key)
        record = self._records.get(consumer.uid)
        return stand(
            consumer,
            entry.last if entry else None,
            record.pods_checked if record else None,
            self._found.get(consumer.key),
        )

    def known(self, key: ObjectKey) -> ConsumerStatus:
        """Return how a followed consumer stood when that last changed."""
        return self._others.get(key, CURRENT if self._journal.latest(key) else NEW)

    def found(self, key: ObjectKey, standing: ConsumerStatus | None) -> None:
        """Keep what a look at a consumer's pods has shown; None: it does not hold any more."""
        if standing is None or standing.state is State.CURRENT:
            self._found.pop(key, None)
        else:
            self._found[key] = standing
        self.update(key)

    def update(self, key: ObjectKey) -> None:
        """Conclude anew how a consumer stands; one that nothing was decided on is not counted."""
        self._drop(key)
        consumer = self._index.consumer(key)
        if consumer is None or self._journal.latest(key) is None:
            self._found.pop(key, None)
            return
        standing = self.of(consumer)
        if standing.state is not State.CURRENT:
            self._others[key] = standing
            self._counts[standing.state] += 1
            self._behind += standing.behind

    def _drop(self, key: ObjectKey) -> None:
        before = self._others.pop(key, None)
        if before is not None:
            self._counts[before.state] -= 1
            self._behind -= before.behind

    def statistics(self) -> ConsumerStateStatistics:
        """Count consumers by state, and the pods that they wait for."""
        counts = {state: self._counts[state] for state in State}
        counts[State.CURRENT] = len(self._journal) - len(self._others)
        return ConsumerStateStatistics(counts, self._behind)
