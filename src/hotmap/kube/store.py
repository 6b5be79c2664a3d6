"""Objects by key with secondary indexes: what is known to exist (client-go: cache.Indexer).

One writer, the reflector; everyone else reads or listens. Nothing here talks to a server, and
what is kept of an object is decided by the reflector's transform.
"""

from __future__ import annotations

import asyncio
import logging
import operator
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

from hotmap.core.model.objects import ObjectKey

__all__ = ["Listener", "Store", "StoreStatistics"]

S = TypeVar("S")

#: Called with the object key, what was kept before, and what is kept now; None means nothing.
Listener = Callable[[ObjectKey, S | None, S | None], None]

#: Keys that stand in a tuple, whose every change is a copy.
_FEW = 8

_log = logging.getLogger(__name__)


class StoreStatistics(NamedTuple):
    #: objects kept now
    objects: int
    #: True once the first complete list has arrived
    synced: bool
    #: changes told to listeners since the start
    changes: int
    #: the server's position that the content is known to equal, "" before the first list
    resource_version: str


class Store(Generic[S]):
    """Keeps one slim value per object key and finds it by key or by index.

    `indexes` maps the name of an index to the function that gives the values an object is
    found under. Values must not change after they were put; equality decides whether an object
    has changed at all. Everything is synchronous: a reader on the event loop sees a state
    between two changes, never half of one. `filed_alike` tells of two states of one object that
    every index gives the same values for both, more quickly than the indexes could; False is
    always right. `parts` is how many reflectors fill it, each with a
    namespace of its own; it counts as synced when all of them have been complete.
    """

    def __init__(
        self,
        indexes: Mapping[str, Callable[[S], Iterable[Hashable]]] | None = None,
        *,
        parts: int = 1,
        filed_alike: Callable[[S, S], bool] = operator.eq,
    ) -> None:
        #: Set when the first complete list is in, and never cleared: later gaps only make the
        #: content old, not partial.
        self.synced = asyncio.Event()
        self.resource_version = ""
        self._objects: dict[ObjectKey, S] = {}
        self._index_functions = dict(indexes or {})
        # Index name → value → keys. Few keys stand in a tuple, which is a fifth of a dict; many
        # in a dict, for its order: a restart with the same objects walks them alike. A value
        # without keys has no entry.
        self._indexes: dict[str, dict[Hashable, tuple[ObjectKey, ...] | dict[ObjectKey, None]]] = {
            name: {} for name in self._index_functions
        }
        #: The namespaces whose first complete list is in; None stands for all of them.
        self._complete: set[str | None] = set()
        self._parts = parts
        self._filed_alike = filed_alike
        self._listeners: list[Listener[S]] = []
        self._changes = 0

    # -- for readers ---------------------------------------------------------------------------

    def get(self, key: ObjectKey) -> S | None:
        """Return what is kept for a key, or None when no such object is known."""
        return self._objects.get(key)

    def by_index(self, name: str, value: Hashable) -> list[S]:
        """List the objects that an index files under a value; empty when there are none."""
        return [self._objects[key] for key in self._indexes[name].get(value, ())]

    def keys_by_index(self, name: str, value: Hashable) -> list[ObjectKey]:
        """List the keys of the objects that an index files under a value."""
        return list(self._indexes[name].get(value, ()))

    def keys(self) -> list[ObjectKey]:
        """List every object key, as a copy that outlives later changes."""
        return list(self._objects)

    def values(self) -> list[S]:
        """List every kept value, as a copy that outlives later changes."""
        return list(self._objects.values())

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: object) -> bool:
        return key in self._objects

    def __iter__(self) -> Iterator[ObjectKey]:
        return iter(self._objects)

    def subscribe(self, callback: Listener[S]) -> Callable[[], None]:
        """Call `callback(key, old, new)` after each change; returns the way to stop it.

        Called synchronously in the order of subscription, so it must be quick and only note
        what to do (rule of client-go's informers). Objects already kept are not replayed. A
        callback that raises is logged and does not keep the others from hearing.
        """
        self._listeners.append(callback)

        def unsubscribe() -> None:
            if callback in self._listeners:
                self._listeners.remove(callback)

        return unsubscribe

    def is_complete(self, namespace: str) -> bool:
        """Return whether everything in a namespace has been listed once."""
        return self.synced.is_set() or None in self._complete or namespace in self._complete

    def statistics(self) -> StoreStatistics:
        """Count what is kept and what has changed."""
        return StoreStatistics(
            len(self._objects), self.synced.is_set(), self._changes, self.resource_version
        )

    # -- for the reflector ---------------------------------------------------------------------

    def put(self, key: ObjectKey, value: S) -> None:
        """Keep a value; an equal one is no change and nobody hears of it."""
        old = self._objects.get(key)
        if old is not None and old == value:
            return
        if old is None or not self._filed_alike(old, value):
            self._reindex(key, old, value)
        self._objects[key] = value
        self._tell(key, old, value)

    def remove(self, key: ObjectKey) -> None:
        """Drop a key; an unknown one is no change."""
        old = self._objects.pop(key, None)
        if old is None:
            return
        self._reindex(key, old, None)
        self._tell(key, old, None)

    def retain(
        self, keys: Collection[ObjectKey], *, resource_version: str, namespace: str | None = None
    ) -> None:
        """End a complete list of a namespace (None: of all): drop what it did not have."""
        for key in [key for key in self._objects if key not in keys]:
            if namespace in (None, key.namespace):
                self.remove(key)
        self.resource_version = resource_version
        self._complete.add(namespace)
        if len(self._complete) >= self._parts:
            self.synced.set()

    def replace_all(self, objects: Mapping[ObjectKey, S], *, resource_version: str) -> None:
        """Make the content equal to a complete list; listeners hear each difference."""
        for key, value in objects.items():
            self.put(key, value)
        self.retain(objects.keys(), resource_version=resource_version)

    def _reindex(self, key: ObjectKey, old: S | None, new: S | None) -> None:
        # All of the new values before any is filed: what raises must leave the indexes whole.
        filed = [
            (name, tuple(values_of(new)) if new is not None else ())
            for name, values_of in self._index_functions.items()
        ]
        for name, values in filed:
            index = self._indexes[name]
            if old is None:  # nearly always, at the start
                for value in values:
                    there = index.get(value)
                    index[value] = (key,) if there is None else _with(there, key)
                continue
            before = dict.fromkeys(self._index_functions[name](old))
            after = dict.fromkeys(values)
            if before == after:
                continue
            for value in before:
                if value not in after:
                    self._take_out(index, value, key)
            for value in after:
                if value not in before:
                    index[value] = _with(index.get(value, ()), key)

    @staticmethod
    def _take_out(
        index: dict[Hashable, tuple[ObjectKey, ...] | dict[ObjectKey, None]],
        value: Hashable,
        key: ObjectKey,
    ) -> None:
        keys = index[value]
        if isinstance(keys, dict):
            del keys[key]
        else:
            keys = index[value] = tuple(one for one in keys if one != key)
        if not keys:
            del index[value]

    def _tell(self, key: ObjectKey, old: S | None, new: S | None) -> None:
        self._changes += 1
        for listener in tuple(self._listeners):
            try:
                listener(key, old, new)
            except Exception:
                _log.exception("internal error in a listener on %s; the others are called", key)


def _with(
    keys: tuple[ObjectKey, ...] | dict[ObjectKey, None], key: ObjectKey
) -> tuple[ObjectKey, ...] | dict[ObjectKey, None]:
    """Add a key, which may move all of them to where more have room."""
    if isinstance(keys, dict):
        keys[key] = None
        return keys
    if key in keys:
        return keys
    keys = (*keys, key)
    return keys if len(keys) <= _FEW else dict.fromkeys(keys)
