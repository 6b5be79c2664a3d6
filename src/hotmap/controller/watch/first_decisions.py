"""The consumers that a term has still to decide on, and their sources as they were at its start.

A consumer without a record is adopted: its pods are assumed to have the content that is found. At a
first start thousands of consumers wait for their decision. An edit that is made meanwhile must not
be adopted, or it would never reach the pods. So a consumer is adopted with the content at the start
of the term and decided on once more, with the edit as a change.

The sources of a consumer that was created while no controller watched may have been edited in that
time too, after its pods had started. The rules check the pods before they adopt it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.source import Source
from hotmap.kube.store import Store

__all__ = ["FirstDecisions"]


class FirstDecisions:
    """Keeps what first decisions need until all of them are made."""

    def __init__(self, stores: Iterable[Store[Source]]) -> None:
        """`stores` have all sources."""
        self._stores = tuple(stores)
        self._waiting: set[ObjectKey] = set()
        #: Consumers whose first decision is to act, which is not done yet.
        self._pending: set[ObjectKey] = set()
        #: The consumers that were there at the start; later ones started with the current content.
        self._early: frozenset[ObjectKey] = frozenset()
        #: Sources that have changed since the start, as they were then; None: did not exist.
        self._before: dict[ObjectKey, Source | None] = {}
        #: Until when an earlier controller watched, POSIX seconds; None: there was none.
        self._watched_until: float | None = None
        #: Consumers for which such a source took the place of the current one.
        self._outdated: set[ObjectKey] = set()
        self._unsubscribe: list[Callable[[], None]] = []

    @property
    def are_made(self) -> bool:
        """Whether every consumer that was waited for has been decided on."""
        return not self._waiting

    def begin(self, consumers: Iterable[ObjectKey]) -> None:
        """Keep the sources as they are now, for the consumers that are there."""
        self._early = frozenset(consumers)
        self._unsubscribe = [store.subscribe(self._keep) for store in self._stores]

    def wait_for(
        self, consumers: Iterable[ObjectKey], *, watched_until: float | None = None
    ) -> None:
        """Set the consumers to be decided on, and until when an earlier controller watched them."""
        self._waiting = set(consumers)
        self._watched_until = watched_until
        if not self._waiting:
            self.end()

    def sources_at_start(
        self, consumer: ObjectKey, used: Iterable[ObjectKey], sources: dict[ObjectKey, Source]
    ) -> dict[ObjectKey, Source]:
        """Return the used sources as the first decision on a consumer needs them.

        `sources` are the current ones; another decision needs these.
        """
        if consumer not in self._waiting or consumer not in self._early:
            return sources
        if consumer in self._pending:
            return sources  # its new pods will have the current ones
        changed = {key: self._before[key] for key in used if key in self._before}
        if not changed:
            return sources
        self._outdated.add(consumer)
        merged = {**sources, **changed}
        return {key: source for key, source in merged.items() if source is not None}

    def unwatched_since(self, consumer: ObjectKey) -> float | None:
        """Return since when no controller has watched, before the first decision on a consumer."""
        is_first = consumer in self._waiting or consumer in self._pending
        return self._watched_until if is_first else None

    def note_pending(self, consumer: ObjectKey) -> None:
        """Note that the first decision on a consumer waits to be carried out, as for its turn.

        When it is repeated, `unwatched_since` still answers as for the first one.
        """
        if consumer in self._waiting:
            self._pending.add(consumer)

    def note_made(self, consumer: ObjectKey) -> bool:
        """Note that a consumer was decided on; returns whether that was with outdated sources."""
        is_outdated = consumer in self._outdated
        self._outdated.discard(consumer)
        self._pending.discard(consumer)
        if consumer in self._waiting:
            self._waiting.discard(consumer)
            if not self._waiting:
                self.end()
        return is_outdated

    def end(self) -> None:
        """Stop waiting for consumers; what is pending stays so."""
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        self._unsubscribe.clear()
        self._waiting.clear()
        self._early = frozenset()
        self._before.clear()
        self._outdated.clear()

    def _keep(self, key: ObjectKey, old: Source | None, new: Source | None) -> None:
        self._before.setdefault(key, old)
