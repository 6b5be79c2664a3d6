"""The status of every followed consumer, kept up to date so that status and metrics cost nothing.

A status is derived from the last decision, the record, the consumer's own status and the last
check of its pods (`core/status/consumer`). Code that changes one of these calls `update`; only
consumers that are not current are kept. One whose sources have changed since is not current,
however soon that is decided on.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hotmap.controller.report.decision_log import DecisionLog
from hotmap.controller.storage.records import Records
from hotmap.controller.watch.index import Index
from hotmap.core.decide.snapshot import Snapshot
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.status.consumer import (
    UP_TO_DATE,
    ConsumerStatus,
    State,
    derive_status,
    pending_status,
)
from hotmap.core.status.stage import PodState
from hotmap.core.text import printable
from hotmap.kube.reflector import Reflector

__all__ = ["ConsumerStateStatistics", "ConsumerStates"]

#: Seconds that one count may spend on snapshots of consumers whose sources have changed.
_LONGEST_COUNT = 0.01
#: The same for consumers whose sources may change unseen, of which there may be many for days.
_LONGEST_UNSEEN_COUNT = 0.1


class ConsumerStateStatistics(NamedTuple):
    #: consumers by state; every state is there
    consumers: dict[State, int]
    #: pods that are not known to be up to date, as far as they were counted
    behind: int
    #: pods by state, as of the last check of their consumer; every state is there
    pods: dict[PodState, int]


class ConsumerStates:
    """The status of each followed consumer."""

    def __init__(
        self,
        *,
        index: Index,
        decision_log: DecisionLog,
        records: Records,
        take_snapshot: Callable[[ObjectKey], Snapshot | None],
        refused: Callable[[], Sequence[Reflector[Any, Any]]] = lambda: (),
        settled_at: Callable[[ObjectKey], float | None] = lambda _: None,
        waiting_namespaces: Callable[[], Collection[str]] = lambda: (),
    ) -> None:
        """`take_snapshot` is that of the term's observer.

        `refused` returns the reflectors whose objects may change unseen.
        `settled_at` returns when the settle time of a consumer's changes ends, in POSIX seconds;
        None: it has ended.
        `waiting_namespaces` returns those of changed sources whose followers are not pending yet.
        """
        self._refused = refused
        self._settled_at = settled_at
        self._waiting_namespaces = waiting_namespaces
        self._index = index
        self._decision_log = decision_log
        self._records = records
        self._take_snapshot = take_snapshot
        #: Consumers that wait for a decision, and may be behind their sources; whether something
        #: changed since the last one.
        self._pending: dict[ObjectKey, bool] = {}
        #: The result of the last check of a consumer's pods, where not all were current.
        self._pod_checks: dict[ObjectKey, ConsumerStatus] = {}
        #: The consumers that are not current.
        self._not_current: dict[ObjectKey, ConsumerStatus] = {}
        self._counts: Counter[State] = Counter()
        self._behind = 0
        #: Consumers whose agents were nudged with other content and not queried since.
        self._announced: set[ObjectKey] = set()
        #: Pods by state at the last check of each consumer, and in total.
        self._pod_states: dict[ObjectKey, Mapping[PodState, int]] = {}
        self._pod_counts: Counter[PodState] = Counter()

    def get(self, consumer: Consumer) -> ConsumerStatus:
        """Return the status of a followed consumer as of its last update."""
        key = consumer.key
        if not self._decision_log.is_decided(key):
            return self._derive(consumer)
        status = self._not_current.get(key, UP_TO_DATE)
        if self._is_outdated(key, status):
            return pending_status(self._settled_at(key))
        if status.is_reached and (why := self._refusal(consumer, self._refused())):
            return ConsumerStatus(State.UNKNOWN, f"cannot be confirmed: {printable(why)}")
        return status

    def _refusal(self, consumer: Consumer, refused: Iterable[Reflector[Any, Any]]) -> str:
        """Return why a consumer or a source of it may change unseen; "" if none may."""
        record, namespace = self._records.get(consumer.uid), consumer.key.namespace
        kinds = {consumer.key.kind}
        if record is not None:
            kinds.update(source.kind for source in record.sources)
        return next(
            (each.refusal for each in refused for kind in kinds if each.selects(kind, namespace)),
            "",
        )

    def pod_check(self, key: ObjectKey) -> ConsumerStatus | None:
        """Return what the last check of a consumer's pods has shown; None while none is needed."""
        return self._pod_checks.get(key)

    def set_pod_check(self, key: ObjectKey, status: ConsumerStatus | None) -> None:
        """Keep the result of a check of a consumer's pods; None: it no longer holds."""
        if status is None or status.is_reached:
            self._announced.discard(key)
            self._pod_checks.pop(key, None)
        else:
            self._pod_checks[key] = status
        self.update(key)

    def set_announced(self, key: ObjectKey) -> None:
        """Record that agents were nudged with other content, so earlier pod states are outdated."""
        self.set_pod_check(key, None)
        self._announced.add(key)
        self.update(key)

    def set_pod_states(self, key: ObjectKey, states: Mapping[PodState, int]) -> None:
        """Keep how many pods of a consumer are in each state, as of a check."""
        self._pod_counts.subtract(self._pod_states.pop(key, {}))
        if states:
            self._pod_states[key] = states
            self._pod_counts.update(states)

    def set_pending(self, key: ObjectKey, *, pending: bool, changed: bool) -> None:
        """Keep whether a decision on a consumer is to come, and whether it may be another one."""
        if pending:
            self._pending[key] = changed
        else:
            self._pending.pop(key, None)

    def _is_outdated(self, key: ObjectKey, status: ConsumerStatus) -> bool:
        """Return whether a status is final, but for the content before the last change.

        So is `unverified`: pods are not checked while a change settles, which may take an hour.
        """
        changed = key.namespace in self._waiting_namespaces() or self._pending.get(key)
        is_unverified = status.state is State.UNVERIFIED
        ends = status.action_required or is_unverified
        if changed is None or not (status.is_reached or (changed and ends)):
            return False
        # A decision on sources that are gone leaves no status that is reached or unverified.
        snapshot = self._take_snapshot(key)  # None: name patterns are not matched yet
        return snapshot is None or snapshot.is_behind(gone_count=status.is_reached or is_unverified)

    def update(self, key: ObjectKey) -> None:
        """Derive a consumer's status again; one without a decision is not counted."""
        self._drop(key)
        consumer = self._index.consumer(key)
        if consumer is None or not self._decision_log.is_decided(key):
            self._pod_checks.pop(key, None)
            self._announced.discard(key)
            self.set_pod_states(key, {})
            return
        status = self._derive(consumer)
        if status.state is not State.CURRENT:
            self._not_current[key] = status
            self._counts[status.state] += 1
            self._behind += status.behind

    def _derive(self, consumer: Consumer) -> ConsumerStatus:
        record = self._records.get(consumer.uid)
        return derive_status(
            consumer,
            self._decision_log.last_decision(consumer.key),
            record.pods_checked if record else None,
            self._pod_checks.get(consumer.key),
            announced=consumer.key in self._announced,
        )

    def _drop(self, key: ObjectKey) -> None:
        before = self._not_current.pop(key, None)
        if before is not None:
            self._counts[before.state] -= 1
            self._behind -= before.behind

    def _outdated(self) -> Iterator[tuple[ObjectKey, ConsumerStatus]]:
        """Yield the statuses that consumers had before their sources changed.

        Each costs a snapshot. Where there is no time for that, the status counts as outdated.
        """
        ends = time.perf_counter() + _LONGEST_COUNT
        for key in self._maybe_outdated():
            if not self._decision_log.is_decided(key):
                continue
            status = self._not_current.get(key, UP_TO_DATE)
            if time.perf_counter() >= ends or self._is_outdated(key, status):
                yield key, status

    def _maybe_outdated(self) -> Iterator[ObjectKey]:
        """Iterate over the consumers that may be behind their sources."""
        yield from self._pending
        for namespace in self._waiting_namespaces():
            for store in self._index.consumers.values():
                yield from (key for key in store.keys(namespace) if key not in self._pending)

    def _unconfirmed(self) -> Iterator[tuple[ObjectKey, ConsumerStatus]]:
        """Yield the statuses that consumers had before a permission was withdrawn.

        Those for which there is no time are among them.
        """
        if not (refused := self._refused()):
            return
        ends = time.perf_counter() + _LONGEST_UNSEEN_COUNT
        for key in self._decision_log.decided:
            status = self._not_current.get(key, UP_TO_DATE)
            consumer = self._index.consumer(key) if status.is_reached else None
            if consumer is not None and (
                time.perf_counter() >= ends or self._refusal(consumer, refused)
            ):
                yield key, status

    def statistics(self) -> ConsumerStateStatistics:
        """Count consumers by state, and the pods that they wait for."""
        counts = {state: self._counts[state] for state in State}
        counts[State.CURRENT] = len(self._decision_log.decided) - len(self._not_current)
        behind = self._behind
        outdated = dict(self._outdated())
        for status in outdated.values():
            counts[status.state] -= 1
            counts[State.WAITING] += 1
            behind -= status.behind
        for key, status in self._unconfirmed():
            if key not in outdated:
                counts[status.state] -= 1
                counts[State.UNKNOWN] += 1
        pods = {state: self._pod_counts[state] for state in PodState}
        return ConsumerStateStatistics(counts, behind, pods)
