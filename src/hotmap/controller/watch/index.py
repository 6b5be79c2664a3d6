"""Holds the stores that the reflectors fill, and finds the consumers that use a source."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from hotmap.controller.watch.history import History
from hotmap.controller.watch.pattern_matches import PatternMatches
from hotmap.controller.watch.policies import NamespaceAnnotations, Policies, is_relevant
from hotmap.controller.watch.provider_classes import ProviderClasses
from hotmap.controller.watch.stores import make_consumer_stores, make_source_stores, template_in
from hotmap.controller.watch.templates import TemplateChanges
from hotmap.core.model.annotations import FOLLOW
from hotmap.core.model.consumer import Consumer, rolled_by
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.provider_class import PROVIDER_CLASS
from hotmap.core.model.references import Use
from hotmap.core.model.source import Source
from hotmap.core.policy.annotations import source_ignored, source_offered
from hotmap.core.policy.policy import Defaults, Policy
from hotmap.core.policy.values import names_sources
from hotmap.kube.loop_slices import share_loop
from hotmap.kube.store import Store

__all__ = ["Index"]


class Index:
    """Sources and consumers of the cluster, and which consumer uses which source.

    A ChangeListener keeps what is derived from them up to date, such as policies.
    """

    def __init__(
        self,
        *,
        defaults: Defaults,
        namespaces: int = 1,
        is_partial: bool = False,
        selects_namespaces: bool = False,
        view: Callable[[Consumer], Consumer] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`namespaces` is the number of separately watched ones; 1 also means all of them.

        `clock` returns POSIX seconds of the API server.
        """
        self.sources = make_source_stores(parts=namespaces)
        #: Fills the store of SecretProviderClasses.
        self.provider_classes = ProviderClasses(
            self.sources[PROVIDER_CLASS], defaults.dialect, parts=namespaces
        )
        self.consumers = make_consumer_stores(defaults.dialect.names, parts=namespaces)
        self.namespaces: Store[NamespaceAnnotations] = Store()
        #: Whether sources may exist that are not watched, so that a missing one may exist.
        self.is_partial = is_partial
        self._view = view
        self._defaults = defaults
        self.history = History(clock, is_used=self._is_used)
        self.templates = TemplateChanges(clock)
        self.matches = PatternMatches()
        self.policies = Policies(
            defaults,
            self.namespaces,
            selects_namespaces=selects_namespaces,
            with_template_user=self.with_template_user,
        )

    def store(self, kind: str) -> Store[Any]:
        """Return the store of a kind of sources or consumers."""
        stores: dict[str, Store[Any]] = {**self.sources, **self.consumers}
        return stores[kind]

    def consumer(self, key: ObjectKey) -> Consumer | None:
        """Return a consumer as last observed, or as its view shows it."""
        consumer = self.consumers[key.kind].get(key)
        if consumer is None:
            return None
        consumer = self.with_template_user(consumer)
        return consumer if self._view is None else self._view(consumer)

    def with_template_user(self, consumer: Consumer) -> Consumer:
        """Return a Deployment as run by the Argo Rollout that uses its template, if any."""
        rollouts = self.consumers["Rollout"].by_index(
            "template_in", consumer.key.namespace, consumer.key
        )
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
        if source.kind in self._defaults.dialect.ignored_sources:
            return False  # not watched, although its store counts as complete
        return self.knows(source.kind, source.namespace) and (
            source not in self.sources[source.kind]
        )

    def is_replaced(self, source: ObjectKey, uid: str) -> bool:
        """Return whether a ConfigMap or Secret is certainly not the object with a uid any more."""
        store = self.sources.get(source.kind)
        found = store.get(source) if store is not None else None
        return self.lacks(source) if found is None else found.uid != uid

    def sources_of(self, uses: Iterable[Use]) -> dict[ObjectKey, Source]:
        """Return the sources of some uses, as far as they exist."""
        found = {}
        for use in uses:
            store = self.sources.get(use.source.kind)
            if store is not None and (source := store.get(use.source)) is not None:
                found[use.source] = self.history.with_change_time(source)
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
        return self.offers(store.get(key) if store else None)

    def offers(self, source: Source | None) -> bool:
        """Return whether a source, as it is or was, is offered to consumers that search."""
        return source is None or source_offered(source.annotations, self._defaults)

    def why_unfollowed(self, policy: Policy, source: ObjectKey) -> str:
        """Describe why a consumer that is opted in does not follow a source that it uses."""
        store = self.sources.get(source.kind)
        found = store.get(source) if store else None
        if found is not None and self.ignored({source: found}):
            return f"{source} is annotated to be ignored"
        if policy.excluded.covers(source):
            return f"{source} is excluded by an annotation or a flag"
        why = f"{source} is not included in {policy.origin}"
        if policy.searches and not self.offers(found):
            return (
                f"{why}, since it lacks the annotation {self._defaults.dialect.names.match}: true"
            )
        return why

    def is_like_deleted(self, key: ObjectKey) -> bool:
        """Return whether a source has the content of all immutable ones deleted under its name."""
        source = self.sources[key.kind].get(key)
        return source is not None and self.history.is_like_deleted(source)

    def sources_in(self, namespace: str) -> list[ObjectKey]:
        """List the sources of a namespace."""
        return [key for store in self.sources.values() for key in store.keys(namespace)]

    def all_consumers(self, namespace: str | None = None) -> Iterator[Consumer]:
        """Iterate over the followed consumers of a namespace; None: of all."""
        for store in self.consumers.values():
            for consumer in store.values(namespace):
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
            for consumer in store.by_index("sources", source.namespace, hash(source))
            if among(consumer) and source in consumer.uses.sources()
        ]

    def _is_used(self, source: ObjectKey) -> bool:
        """Return whether any consumer uses a source, opted in or not, or follows it."""
        is_used = any(
            source in consumer.uses.sources()
            for store in self.consumers.values()
            for consumer in store.by_index("sources", source.namespace, hash(source))
        )
        return is_used or self.is_followed(source)

    def candidates_for(self, source: ObjectKey) -> set[ObjectKey]:
        """Return the consumers among which are all that use or follow a source.

        Few are others, and that is quick; `uses_or_follows` tells, and may have to find uses.
        """
        found = set()
        for store in self.consumers.values():
            found.update(store.keys_by_index("sources", source.namespace, hash(source)))
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
            for consumer in store.by_index("sources", source.namespace, hash(source)):
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
        for key in template_in(consumer):
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
            return store.values(namespace)
        return store.by_index("naming", namespace, True)
