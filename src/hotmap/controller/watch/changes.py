"""Turns changes in the stores into object keys for the two queues.

The queues contain only keys: a worker takes a snapshot of the current state.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, NamedTuple

from hotmap.controller.watch.fan_outs import FanOuts
from hotmap.controller.watch.index import Index
from hotmap.controller.watch.policies import NamespaceAnnotations, is_relevant
from hotmap.controller.watch.stores import template_in
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.provider_class import PROVIDER_CLASS
from hotmap.core.model.references import UseKind
from hotmap.core.model.source import Source
from hotmap.core.policy.policy import Policy, live_change_needs_rollout
from hotmap.kube.loop_clock import loop_time
from hotmap.kube.store import Store

__all__ = ["ChangeListener", "Enqueue"]

#: Seconds of quiet after a change of a consumer, and their bound, if its settle time is longer.
_CONSUMER_SETTLE, _CONSUMER_SETTLE_MAX = 0.5, 5.0


class Enqueue(NamedTuple):
    """Adds the object keys of consumers to the queues."""

    #: Nudges, at once.
    refresh: Callable[[ObjectKey], None]
    #: Everything else, after a settle time: (key, settle, settle_max) in seconds.
    reconcile: Callable[[ObjectKey, float, float], None]


class ChangeListener:
    """Records each change of a source or consumer, and finds the consumers that it affects."""

    def __init__(
        self,
        index: Index,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = loop_time,
    ) -> None:
        """Follow the stores of the index, before they are filled.

        `clock` returns POSIX seconds of the API server, `monotonic` those of the stores' progress.
        """
        self._index = index
        self._clock = clock
        self._monotonic = monotonic
        self._enqueue: Enqueue | None = None
        self._fan_outs = FanOuts(self._enqueue_followers)
        #: The kinds and namespaces of sources whose first list is complete.
        self._listed: set[tuple[str, str | None]] = set()
        self._subscribe()

    def _subscribe(self) -> None:
        for kind, sources in self._index.sources.items():
            sources.subscribe(self._source_changed)
            if kind != PROVIDER_CLASS:  # an optional kind may be listed at any time
                sources.subscribe_lists(partial(self._sources_listed, kind))
        for consumers in self._index.consumers.values():
            consumers.subscribe(self._consumer_changed)
        self._index.namespaces.subscribe(self._namespace_changed)

    def set_queues(self, enqueue: Enqueue | None) -> None:
        """Add the consumers affected by changes to these queues from now on; None: to none."""
        self._enqueue = enqueue
        self._fan_outs.clear()  # a term begins with all consumers

    @property
    def waiting_namespaces(self) -> Collection[str]:
        """The namespaces of changed sources whose followers are not in the queues yet."""
        return self._fan_outs.waiting_namespaces

    def _source_changed(self, key: ObjectKey, old: Source | None, new: Source | None) -> None:
        # Sources of the first list have not changed, but they are known now.
        first = not self._index.sources[key.kind].is_complete(key.namespace)
        since, listed = self._missed(key, self._index.sources[key.kind])
        noted = not first and self._index.history.record_change(
            key, old, new, since=since, listed=listed
        )
        if self._enqueue and (first or noted or _annotations_differ(old, new)):
            # Also consumers that no longer follow it: their status has to be derived again.
            offered = self._index.offers(old) or self._index.offers(new)
            self._fan_outs.add(key, offered=offered)

    def _enqueue_followers(self, source: ObjectKey, offered: bool) -> int:
        """Enqueue the consumers that follow a source; returns how many these are."""
        if (enqueue := self._enqueue) is None:
            return 0
        followers = self._index.followers_of(source, offered=offered)
        for consumer in followers:
            policy = self._index.policies.of(consumer)
            if _is_nudgeable(consumer, policy, source):
                enqueue.refresh(consumer.key)
            enqueue.reconcile(consumer.key, policy.settle, policy.settle_max)
        return len(followers)

    def _sources_listed(self, kind: str, namespace: str | None) -> None:
        """Record when a first list is complete: objects that are not in it were deleted before."""
        if (kind, namespace) not in self._listed:
            self._listed.add((kind, namespace))
            self._index.history.record_list()

    def decide_again(self, source: ObjectKey) -> None:
        """Enqueue the consumers that follow a source: whether they are held may have changed."""
        if self._enqueue is None:
            return
        for consumer in self._index.followers_of(source):
            policy = self._index.policies.of(consumer)
            self._enqueue.reconcile(consumer.key, policy.settle, policy.settle_max)

    def _missed(self, key: ObjectKey, store: Store[Any]) -> tuple[float | None, bool]:
        """Return since when a change that arrives now may have happened, and if it was listed."""
        missed = store.progress.missed_time(key.namespace)
        if missed is None:
            return None, False
        return self._clock() - (self._monotonic() - missed.since), missed.listed

    def _consumer_changed(self, key: ObjectKey, old: Consumer | None, new: Consumer | None) -> None:
        before = self._index.policies.drop(key)
        if new is None:
            self._index.templates.forget(key)
        elif old is None or old.uid != new.uid:
            since, _ = self._missed(key, self._index.consumers[key.kind])
            self._index.templates.record_creation(new, unwatched_since=since)
        else:
            self._index.templates.record_change(old, new)
        if key.kind == "Rollout":
            self._rollout_changed(old, new)
        if new is not None and not new.owned and _may_change_decision(old, new):
            self._enqueue_consumer(new, before)

    def _rollout_changed(self, old: Consumer | None, new: Consumer | None) -> None:
        """Enqueue the Deployments whose template an Argo Rollout uses, or used before."""
        if old is not None and new is not None and not _may_change_decision(old, new):
            return
        for deployment in {key for item in (old, new) if item for key in template_in(item)}:
            before = self._index.policies.drop(deployment)
            if (consumer := self._index.consumers["Deployment"].get(deployment)) is not None:
                self._enqueue_consumer(consumer, before)

    def _namespace_changed(
        self, key: ObjectKey, old: NamespaceAnnotations | None, new: NamespaceAnnotations | None
    ) -> None:
        for store in self._index.consumers.values():
            for consumer in store.values(key.name):
                before = self._index.policies.drop(consumer.key)
                self._enqueue_consumer(consumer, before)

    def _enqueue_consumer(self, consumer: Consumer, before: Policy | None) -> None:
        """Enqueue a consumer since it, or an annotation that it inherits, changed."""
        if self._enqueue is None:
            return
        policy = self._index.policies.of(consumer)
        if policy.opted_in and not (before is not None and before.opted_in):
            # The initial content has to be recorded before an edit.
            self._enqueue.refresh(consumer.key)
        if is_relevant(policy) or (before is not None and is_relevant(before)):
            # A rollout waits longer for further edits, as the decision says; a check of its pods,
            # which follows one, does not.
            settle = min(policy.settle, _CONSUMER_SETTLE)
            settle_max = min(policy.settle_max, _CONSUMER_SETTLE_MAX)
            self._enqueue.reconcile(consumer.key, settle, settle_max)


def _is_nudgeable(consumer: Consumer, policy: Policy, source: ObjectKey) -> bool:
    """Return whether a nudge alone may be sufficient for a change of a source."""
    return not live_change_needs_rollout(consumer, policy) and any(
        use.source == source and use.kind is UseKind.LIVE for use in consumer.uses
    )


def _annotations_differ(old: Source | None, new: Source | None) -> bool:
    return (old.annotations if old else None) != (new.annotations if new else None)


def _may_change_decision(old: Consumer | None, new: Consumer) -> bool:
    """Return whether a consumer's change can change a decision; most are its own status."""
    if old is None or old.uid != new.uid:
        return True
    return _decisive_fields(old) != _decisive_fields(new)


def _decisive_fields(consumer: Consumer) -> tuple[object, ...]:
    """Return the fields of a consumer that may change a decision."""
    # Uses last: most that differ in them differ in the generation too, and they need not be found.
    annotations = consumer.annotations, consumer.template_annotations
    return consumer.generation, annotations, consumer.rolling, consumer.busy, consumer.uses
