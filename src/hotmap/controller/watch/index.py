"""Maps changed sources to the consumers that use them.

Holds the stores that the reflectors fill and turns their changes into object keys for the two
queues. The queues contain only keys: a worker takes a snapshot of the current state.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from hotmap.controller.watch.history import History
from hotmap.controller.watch.pattern_matches import PatternMatches
from hotmap.controller.watch.policies import NamespaceAnnotations, Policies, is_relevant
from hotmap.controller.watch.provider_classes import ProviderClasses
from hotmap.controller.watch.templates import TemplateChanges
from hotmap.core.model.annotations import FOLLOW
from hotmap.core.model.consumer import Consumer, rolled_by
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.provider_class import PROVIDER_CLASS
from hotmap.core.model.references import Use, UseKind
from hotmap.core.model.source import Source
from hotmap.core.policy.annotations import source_ignored, source_offered
from hotmap.core.policy.policy import Defaults, Policy, live_change_needs_rollout
from hotmap.core.policy.values import names_sources
from hotmap.core.reloader.annotations import Names
from hotmap.kube.loop_clock import loop_time
from hotmap.kube.loop_slices import share_loop
from hotmap.kube.store import Store

__all__ = ["CONSUMER_KINDS", "SOURCE_KINDS", "Index", "Queues"]

SOURCE_KINDS = ("ConfigMap", "Secret", "SecretProviderClass")

#: ReplicaSets and Pods are those without an owning workload; Argo Rollouts are included if their
#: kind exists; see `reflectors`.
CONSUMER_KINDS = (
    "Deployment",
    "StatefulSet",
    "DaemonSet",
    "CronJob",
    "Job",
    "ReplicaSet",
    "Pod",
    "Rollout",
)

#: Seconds of quiet after a change of a consumer, and their bound, if its settle time is longer.
_CONSUMER_SETTLE, _CONSUMER_SETTLE_MAX = 0.5, 5.0


class Queues(NamedTuple):
    """How the index adds keys to the queues; both take a consumer's object key."""

    #: Nudges, at once.
    refresh: Callable[[ObjectKey], None]
    #: Everything else, after a settle time: (key, settle, settle_max) in seconds.
    reconcile: Callable[[ObjectKey, float, float], None]


class Index:
    """Sources and consumers of the cluster, and which consumer uses which source."""

    def __init__(
        self,
        *,
        defaults: Defaults,
        namespaces: int = 1,
        is_partial: bool = False,
        selects_namespaces: bool = False,
        view: Callable[[Consumer], Consumer] | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = loop_time,
    ) -> None:
        """`namespaces` is the number of separately watched ones; 1 also means all of them.

        `clock` returns POSIX seconds of the API server, `monotonic` those of the stores' progress.
        """
        self.sources = _make_source_stores(parts=namespaces)
        #: Fills the store of SecretProviderClasses.
        self.provider_classes = ProviderClasses(
            self.sources[PROVIDER_CLASS], defaults.dialect, parts=namespaces
        )
        self.consumers = _make_consumer_stores(defaults.dialect.names, parts=namespaces)
        self.namespaces: Store[NamespaceAnnotations] = Store()
        #: Whether sources may exist that are not watched, so that a missing one may exist.
        self.is_partial = is_partial
        self._view = view
        self._defaults = defaults
        self._clock = clock
        self._monotonic = monotonic
        self.history = History(clock)
        self.templates = TemplateChanges(clock)
        self.matches = PatternMatches()
        self.policies = Policies(
            defaults,
            self.namespaces,
            selects_namespaces=selects_namespaces,
            with_template_user=self._with_template_user,
        )
        self._queues: Queues | None = None
        #: The kinds and namespaces of sources whose first list is complete.
        self._listed: set[tuple[str, str | None]] = set()
        self._subscribe()

    def _subscribe(self) -> None:
        for kind, sources in self.sources.items():
            sources.subscribe(self._source_changed)
            if kind != PROVIDER_CLASS:  # an optional kind may be listed at any time
                sources.subscribe_lists(partial(self._sources_listed, kind))
        for consumers in self.consumers.values():
            consumers.subscribe(self._consumer_changed)
        self.namespaces.subscribe(self._namespace_changed)

    # -- queries -------------------------------------------------------------------------

    def store(self, kind: str) -> Store[Any]:
        """Return the store of a kind of sources or consumers."""
        stores: dict[str, Store[Any]] = {**self.sources, **self.consumers}
        return stores[kind]

    def consumer(self, key: ObjectKey) -> Consumer | None:
        """Return a consumer as last observed, or as its view shows it."""
        consumer = self.consumers[key.kind].get(key)
        if consumer is None:
            return None
        consumer = self._with_template_user(consumer)
        return consumer if self._view is None else self._view(consumer)

    def _with_template_user(self, consumer: Consumer) -> Consumer:
        """Return a Deployment as run by the Argo Rollout that uses its template, if any."""
        rollouts = self.consumers["Rollout"].by_index("template_in", consumer.key)
        return rolled_by(consumer, rollouts[0]) if rollouts else consumer

    def knows(self, kind: str, namespace: str) -> bool:
        """Return whether all sources of a kind in a namespace are known."""
        if kind == PROVIDER_CLASS:
            return self.provider_classes.is_complete(namespace)
        return kind in self.sources and self.sources[kind].is_complete(namespace)

    def is_unreadable(self, key: ObjectKey) -> bool:
        """Return whether an object exists and cannot be read, so that nothing is known of it."""
        if key.kind == PROVIDER_CLASS:
            return key in self.provider_classes.classes.unreadable
        store = self.sources.get(key.kind) or self.consumers.get(key.kind)
        return store is not None and key in store.unreadable

    def lacks(self, source: ObjectKey) -> bool:
        """Return whether a ConfigMap or Secret certainly does not exist."""
        if source.kind == PROVIDER_CLASS or self.is_partial or self.is_unreadable(source):
            return False
        return self.knows(source.kind, source.namespace) and (
            source not in self.sources[source.kind]
        )

    def sources_of(self, uses: Iterable[Use]) -> dict[ObjectKey, Source]:
        """Return the sources of some uses, as far as they exist."""
        found = {}
        for use in uses:
            store = self.sources.get(use.source.kind)
            if store is not None and (source := store.get(use.source)) is not None:
                found[use.source] = self.history.bounded(source)
        return found

    def ignored(self, sources: Mapping[ObjectKey, Source]) -> set[ObjectKey]:
        """Return the sources that are annotated to be ignored."""
        return {
            key
            for key, source in sources.items()
            if source_ignored(source.annotations, self._defaults)
        }

    def is_offered(self, key: ObjectKey) -> bool:
        """Return whether a source is offered to consumers that search.

        One that does not exist counts as offered, so that its recreation is not adopted as new.
        """
        store = self.sources.get(key.kind)
        return self._offers(store.get(key) if store else None)

    def _offers(self, source: Source | None) -> bool:
        return source is None or source_offered(source.annotations, self._defaults)

    def sources_in(self, namespace: str) -> list[ObjectKey]:
        """List the sources of a namespace."""
        return [
            key
            for store in self.sources.values()
            for key in store.keys_by_index("namespace", namespace)
        ]

    def all_consumers(self) -> Iterator[Consumer]:
        """Iterate over all followed consumers."""
        for store in self.consumers.values():
            for consumer in store.values():
                if not consumer.owned and is_relevant(self.policies.of(consumer)):
                    yield consumer

    async def read_policies(self) -> None:
        """Read the policies of all consumers, in slices; with them, uses are found."""
        for store in self.consumers.values():
            for key in list(store):
                await share_loop()
                consumer = store.get(key)
                if consumer is not None and not consumer.owned:
                    self.policies.of(consumer)

    def users_of(
        self, source: ObjectKey, *, among: Callable[[Consumer], bool] = lambda consumer: True
    ) -> list[Consumer]:
        """List the consumers that use a source, opted in or not.

        `among` selects some of them first, since their uses have to be found or unpacked.
        """
        return [
            consumer
            for store in self.consumers.values()
            for consumer in store.by_index("sources", hash(source))
            if among(consumer) and source in consumer.uses.sources()
        ]

    def candidates_for(self, source: ObjectKey) -> set[ObjectKey]:
        """Return the consumers among which are all that use or follow a source.

        Few are others, and that is quick; `uses_or_follows` tells, and may have to find uses.
        """
        found = set()
        for store in self.consumers.values():
            found.update(store.keys_by_index("sources", hash(source)))
            for naming in self._naming(store, source.namespace):
                if (named := self._with_template_of(naming)) is not None:
                    found.add(named.key)
        return found

    def uses_or_follows(self, consumer: Consumer, source: ObjectKey) -> bool:
        """Return whether a consumer uses a source, opted in or not, or follows it by name."""
        return source in consumer.uses.sources() or self._may_follow(
            consumer, source, referenced=False, offered=self.is_offered(source)
        )

    def followers_of(self, source: ObjectKey, *, offered: bool | None = None) -> list[Consumer]:
        """List the consumers that follow a source.

        `offered` says whether those that search find it; None: as it is now.
        """
        is_offered = self.is_offered(source) if offered is None else offered
        found = {consumer.key: consumer for consumer in self._followers(source, is_offered)}
        return list(found.values())

    def is_followed(self, source: ObjectKey) -> bool:
        """Return whether any consumer follows a source."""
        return any(True for _ in self._followers(source, self.is_offered(source)))

    def _followers(self, source: ObjectKey, is_offered: bool) -> Iterator[Consumer]:
        """Iterate over the consumers that follow a source, over some twice."""
        for store in self.consumers.values():
            for consumer in store.by_index("sources", hash(source)):
                # The policy first: most have not opted in, and uses have to be unpacked.
                if self._may_follow(consumer, source, referenced=True, offered=is_offered) and (
                    source in consumer.uses.sources()
                ):
                    yield consumer
            for naming in self._naming(store, source.namespace):
                named = self._with_template_of(naming)
                if named is not None and self._may_follow(
                    named, source, referenced=False, offered=is_offered
                ):
                    yield named

    def _with_template_of(self, consumer: Consumer) -> Consumer | None:
        """Return the consumer that has its pod template: of some Argo Rollouts a Deployment."""
        for key in _template_in(consumer):
            return self.consumers[key.kind].get(key)
        return consumer

    def _may_follow(
        self, consumer: Consumer, source: ObjectKey, *, referenced: bool, offered: bool
    ) -> bool:
        """Return whether a consumer follows a source, as far as there is time to match patterns."""
        policy = self.policies.of(consumer)
        if not policy.named.expressions and not policy.excluded.expressions:
            return policy.follows(source, referenced=referenced, offered=offered)
        if not policy.opted_in:
            return False
        # That an exclusion covers it is found out when the consumer is decided on.
        return referenced or self.matches.may_cover(policy.named, source)

    def _naming(self, store: Store[Consumer], namespace: str) -> list[Consumer]:
        """List the consumers that may follow sources by name."""
        inherited = self.policies.annotations_of(namespace) or {}
        if names_sources(self._defaults.follow) or names_sources(inherited.get(FOLLOW, "")):
            return store.by_index("namespace", namespace)
        return store.by_index("names", namespace)

    # -- from changes to keys ------------------------------------------------------------------

    def set_queues(self, queues: Queues | None) -> None:
        """Add the consumers affected by changes to these queues from now on; None: to none."""
        self._queues = queues

    def _source_changed(self, key: ObjectKey, old: Source | None, new: Source | None) -> None:
        # Sources of the first list have not changed, but they are known now.
        first = not self.sources[key.kind].is_complete(key.namespace)
        since, listed = self._missed(key)
        noted = not first and self.history.record_change(key, old, new, since=since, listed=listed)
        if self._queues and (first or noted or _annotations_differ(old, new)):
            # Also consumers that no longer follow it: their status has to be derived again.
            offered = self._offers(old) or self._offers(new)
            for consumer in self.followers_of(key, offered=offered):
                self._enqueue_for_source(self._queues, consumer, key)

    def _sources_listed(self, kind: str, namespace: str | None) -> None:
        """Record when a first list is complete: objects that are not in it were deleted before."""
        if (kind, namespace) not in self._listed:
            self._listed.add((kind, namespace))
            self.history.record_list()

    def decide_again(self, source: ObjectKey) -> None:
        """Enqueue the consumers that follow a source: whether they are held may have changed."""
        if self._queues is None:
            return
        for consumer in self.followers_of(source):
            policy = self.policies.of(consumer)
            self._queues.reconcile(consumer.key, policy.settle, policy.settle_max)

    def _missed(self, key: ObjectKey) -> tuple[float | None, bool]:
        """Return since when a change that arrives now may have happened, and if it was listed."""
        missed = self.sources[key.kind].progress.missed(key.namespace)
        if missed is None:
            return None, False
        return self._clock() - (self._monotonic() - missed.since), missed.listed

    def _consumer_changed(self, key: ObjectKey, old: Consumer | None, new: Consumer | None) -> None:
        before = self.policies.drop(key)
        if new is None:
            self.templates.forget(key)
        elif old is None or old.uid != new.uid:
            self.templates.record_creation(new)
        else:
            self.templates.record_change(old, new)
        if key.kind == "Rollout":
            self._rollout_changed(old, new)
        if new is not None and not new.owned and _may_change_decision(old, new):
            self._enqueue_consumer(new, before)

    def _rollout_changed(self, old: Consumer | None, new: Consumer | None) -> None:
        """Enqueue the Deployments whose template an Argo Rollout uses, or used before."""
        if old is not None and new is not None and not _may_change_decision(old, new):
            return
        for deployment in {key for item in (old, new) if item for key in _template_in(item)}:
            before = self.policies.drop(deployment)
            if (consumer := self.consumers["Deployment"].get(deployment)) is not None:
                self._enqueue_consumer(consumer, before)

    def _namespace_changed(
        self, key: ObjectKey, old: NamespaceAnnotations | None, new: NamespaceAnnotations | None
    ) -> None:
        for store in self.consumers.values():
            for consumer in store.by_index("namespace", key.name):
                before = self.policies.drop(consumer.key)
                self._enqueue_consumer(consumer, before)

    def _enqueue_for_source(self, queues: Queues, consumer: Consumer, source: ObjectKey) -> None:
        """Enqueue a consumer since a source changed."""
        policy = self.policies.of(consumer)
        if _is_nudgeable(consumer, policy, source):
            queues.refresh(consumer.key)
        queues.reconcile(consumer.key, policy.settle, policy.settle_max)

    def _enqueue_consumer(self, consumer: Consumer, before: Policy | None) -> None:
        """Enqueue a consumer since it, or an annotation that it inherits, changed."""
        if self._queues is None:
            return
        policy = self.policies.of(consumer)
        if policy.opted_in and not (before is not None and before.opted_in):
            # The initial content has to be recorded before an edit.
            self._queues.refresh(consumer.key)
        if is_relevant(policy) or (before is not None and is_relevant(before)):
            # A rollout waits longer for further edits, as the decision says; a check of its pods,
            # which follows one, does not.
            settle = min(policy.settle, _CONSUMER_SETTLE)
            settle_max = min(policy.settle_max, _CONSUMER_SETTLE_MAX)
            self._queues.reconcile(consumer.key, settle, settle_max)


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


def _make_source_stores(*, parts: int) -> dict[str, Store[Source]]:
    return {
        kind: Store(
            {"namespace": _namespace_of_source},
            parts=parts,
            filed_alike=lambda old, new: True,  # the namespace is kept
        )
        for kind in SOURCE_KINDS
    }


def _make_consumer_stores(names: Names, *, parts: int) -> dict[str, Store[Consumer]]:
    naming = frozenset((names.config_map, names.secret, names.provider_class))
    indexes = {
        "sources": _named_sources,
        "names": _names_by(naming),
        "namespace": _namespace_of_consumer,
    }
    return {
        kind: Store(
            {**indexes, "template_in": _template_in} if kind == "Rollout" else indexes,
            parts=parts,
            filed_alike=_has_equal_index_values,
        )
        for kind in CONSUMER_KINDS
    }


def _template_in(rollout: Consumer) -> tuple[ObjectKey, ...]:
    """Return the Deployment that an Argo Rollout takes its pod template from, if any."""
    key = rollout.argo.template_in if rollout.argo else None
    return (key,) if key and key.kind == "Deployment" else ()


def _named_sources(consumer: Consumer) -> Iterable[Hashable]:
    """Return the hashes of the sources that are named: a fifth of what their keys would take.

    Two sources may share one, and not all are used, so callers check the uses too.
    """
    return () if consumer.owned else consumer.uses.filed_under()


def _has_equal_index_values(old: Consumer, new: Consumer) -> bool:
    """Return whether all inputs of the indexes are unchanged."""
    before = (old.uses, old.owned, old.annotations, old.template_annotations)
    after = (new.uses, new.owned, new.annotations, new.template_annotations)
    return before == after and _template_in(old) == _template_in(new)


def _names_by(annotations: frozenset[str]) -> Callable[[Consumer], Iterable[Hashable]]:
    """Create an index of the consumers that may name sources, by their namespace.

    `annotations` are those of Reloader's dialect that name sources.
    """

    def names(consumer: Consumer) -> Iterable[Hashable]:
        for found in (consumer.annotations, consumer.template_annotations):
            if found and (
                not annotations.isdisjoint(found) or names_sources(found.get(FOLLOW, ""))
            ):
                return (consumer.key.namespace,)
        return ()

    return names


def _namespace_of_consumer(consumer: Consumer) -> Iterable[Hashable]:
    return (consumer.key.namespace,)


def _namespace_of_source(source: Source) -> Iterable[Hashable]:
    return (source.key.namespace,)
