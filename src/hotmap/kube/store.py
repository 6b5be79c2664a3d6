"""A store of objects by key with secondary indexes (client-go: cache.Indexer).

The reflector is the only writer; others read or subscribe. The reflector's transform chooses what
is stored of an object.
"""

from __future__ import annotations

import asyncio
import logging
import operator
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Generic, NamedTuple, TypeVar

from hotmap.core.model.objects import ObjectKey
from hotmap.kube.watch_progress import WatchProgress

__all__ = ["Listener", "Store", "StoreStatistics", "UnreadableObject"]

S = TypeVar("S")

#: Called with the object key, the old value and the new value; None means no value.
Listener = Callable[[ObjectKey, S | None, S | None], None]

#: Maximum number of keys in a tuple, which is copied at each change.
_FEW = 8

_log = logging.getLogger(__name__)


class UnreadableObject(NamedTuple):
    """An object that exists and cannot be decoded, or is larger than what is decoded."""

    uid: str
    #: Why, without any of its content.
    problem: str


class StoreStatistics(NamedTuple):
    #: objects stored now
    objects: int
    #: True once the first complete list has arrived
    synced: bool
    #: changes reported to listeners since the start
    changes: int
    #: the resourceVersion of the content, "" before the first list
    resource_version: str


class Store(Generic[S]):
    """Stores one slim value per object key and finds it by key or by index.

    `indexes` maps the name of an index to the function that returns the index values of an object.
    A namespace is indexed when something is first looked up in it: most namespaces of a large
    cluster never are, and an index of all of them is a tenth of the controller's memory (measured).
    Stored values must not be changed; equality decides whether an object has changed. Everything is
    synchronous: a reader on the event loop sees a state between two changes, never half of one.
    `has_same_index_values` returns whether all indexes certainly have the same values for two
    states of one object, as a shortcut; False is always allowed. `parts` is how many reflectors
    fill it, each with a namespace of its own; it counts as synced when all of them have been
    complete.
    """

    def __init__(
        self,
        indexes: Mapping[str, Callable[[S], Iterable[Hashable]]] | None = None,
        *,
        parts: int = 1,
        has_same_index_values: Callable[[S, S], bool] = operator.eq,
    ) -> None:
        #: Set after the first complete list, and never cleared: later gaps make the content old,
        #: not partial.
        self.synced = asyncio.Event()
        self.resource_version = ""
        #: Until when the watches that fill it delivered every change.
        self.progress = WatchProgress()
        # By namespace, which is how they are listed and looked for. A namespace without objects has
        # no entry.
        self._objects: dict[str, dict[ObjectKey, S]] = {}
        #: Objects that exist and cannot be read: neither present nor absent.
        self.unreadable: dict[ObjectKey, UnreadableObject] = {}
        self._index_functions = dict(indexes or {})
        # By namespace, then by the name of the index.
        self._indexes: dict[str, dict[str, _Index]] = {}
        #: The namespaces whose first list is complete; None means all of them.
        self._complete: set[str | None] = set()
        self._parts = parts
        self._has_same_index_values = has_same_index_values
        self._listeners: list[Listener[S]] = []
        self._list_listeners: list[Callable[[str | None], None]] = []
        self._changes = 0

    # -- for readers ---------------------------------------------------------------------------

    def get(self, key: ObjectKey) -> S | None:
        """Return the value of a key, or None if no such object is known."""
        objects = self._objects.get(key.namespace)
        return objects.get(key) if objects else None

    def by_index(self, name: str, namespace: str, value: Hashable) -> list[S]:
        """List the objects of a namespace that have an index value; empty if there are none."""
        objects = self._in(namespace)
        return [objects[key] for key in self._keys_by_index(name, namespace, value)]

    def keys_by_index(self, name: str, namespace: str, value: Hashable) -> list[ObjectKey]:
        """List the keys of the objects of a namespace that have an index value."""
        return list(self._keys_by_index(name, namespace, value))

    def _keys_by_index(self, name: str, namespace: str, value: Hashable) -> Iterable[ObjectKey]:
        if namespace not in self._objects:
            return ()
        indexes = self._indexes.get(namespace)
        if indexes is None:
            indexes = {each: _Index() for each in self._index_functions}
            for key, stored in self._objects[namespace].items():
                for index, values in self._index_values(indexes, stored):
                    index.put(key, values)
            self._indexes[namespace] = indexes
        return indexes[name].keys(value)

    def keys(self, namespace: str | None = None) -> list[ObjectKey]:
        """List the object keys of a namespace (None: of all), as a copy."""
        return list(self) if namespace is None else list(self._in(namespace))

    def values(self, namespace: str | None = None) -> list[S]:
        """List the values of a namespace (None: of all), as a copy."""
        if namespace is not None:
            return list(self._in(namespace).values())
        return [value for objects in self._objects.values() for value in objects.values()]

    def __len__(self) -> int:
        return sum(map(len, self._objects.values()))

    def __contains__(self, key: ObjectKey) -> bool:
        return self.get(key) is not None

    def __iter__(self) -> Iterator[ObjectKey]:
        return chain.from_iterable(self._objects.values())

    def _in(self, namespace: str) -> Mapping[ObjectKey, S]:
        return self._objects.get(namespace, {})

    def subscribe(self, callback: Listener[S]) -> Callable[[], None]:
        """Call `callback(key, old, new)` after each change; returns a function that unsubscribes.

        Called synchronously in the order of subscription, so it must be quick and only enqueue work
        (as for client-go's informers). Objects already stored are not replayed. A callback that
        raises is logged, and the others are still called.
        """
        self._listeners.append(callback)

        def unsubscribe() -> None:
            if callback in self._listeners:
                self._listeners.remove(callback)

        return unsubscribe

    def subscribe_lists(self, callback: Callable[[str | None], None]) -> None:
        """Call `callback(namespace)` each time a list is complete; None: of all namespaces."""
        self._list_listeners.append(callback)

    def is_complete(self, namespace: str) -> bool:
        """Return whether everything in a namespace has been listed once."""
        return self.synced.is_set() or None in self._complete or namespace in self._complete

    def statistics(self) -> StoreStatistics:
        """Return the counts of objects and changes."""
        return StoreStatistics(
            len(self), self.synced.is_set(), self._changes, self.resource_version
        )

    # -- for the reflector ---------------------------------------------------------------------

    def put(self, key: ObjectKey, value: S) -> None:
        """Store a value; an equal one is not a change and is not reported."""
        self.unreadable.pop(key, None)
        old = self.get(key)
        if old is not None and old == value:
            return
        indexes = self._indexes.get(key.namespace)
        if indexes and (old is None or not self._has_same_index_values(old, value)):
            # Compute all values before putting any, so that an exception leaves the indexes
            # consistent.
            for index, values in list(self._index_values(indexes, value)):
                index.put(key, values)
        self._objects.setdefault(key.namespace, {})[key] = value
        self._notify(key, old, value)

    def remove(self, key: ObjectKey) -> None:
        """Drop a key; an unknown one is not a change."""
        self.unreadable.pop(key, None)
        self._drop(key)

    def put_unreadable(self, key: ObjectKey, found: UnreadableObject) -> None:
        """Record that an object exists and cannot be read, and drop its value.

        Listeners get that like any other change; `unreadable` tells it from a deletion.
        """
        self.unreadable[key] = found
        self._drop(key)

    def _drop(self, key: ObjectKey) -> None:
        objects = self._objects.get(key.namespace, {})
        old = objects.pop(key, None)
        if old is None:
            return
        for index in self._indexes.get(key.namespace, {}).values():
            index.remove(key)
        if not objects:
            del self._objects[key.namespace]
            self._indexes.pop(key.namespace, None)
        self._notify(key, old, None)

    def retain(
        self, keys: Collection[ObjectKey], *, resource_version: str, namespace: str | None = None
    ) -> None:
        """Complete the list of a namespace (None: of all): remove what it did not have."""
        for key in [*self.keys(namespace), *self.unreadable]:
            if key not in keys and namespace in (None, key.namespace):
                self.remove(key)
        self.resource_version = resource_version
        self._complete.add(namespace)
        if len(self._complete) >= self._parts:
            self.synced.set()
        for listener in self._list_listeners:
            listener(namespace)

    def _index_values(
        self, indexes: Mapping[str, _Index], stored: S
    ) -> Iterator[tuple[_Index, tuple[Hashable, ...]]]:
        """Iterate over the indexes of a namespace, each with the index values of an object."""
        for name, values_of in self._index_functions.items():
            yield indexes[name], tuple(values_of(stored))

    def _notify(self, key: ObjectKey, old: S | None, new: S | None) -> None:
        self._changes += 1
        for listener in tuple(self._listeners):
            try:
                listener(key, old, new)
            except Exception:
                _log.exception("internal error in an event handler for %s", key)


class _Index:
    """The keys of one namespace by an index value."""

    def __init__(self) -> None:
        # Few keys are in a tuple, which has a fifth of the size of a dict; many in a dict, for its
        # order. A value without keys has no entry.
        self._keys: dict[Hashable, tuple[ObjectKey, ...] | dict[ObjectKey, None]] = {}
        #: The values of each key, as they were put; a key without values has no entry.
        self._values: dict[ObjectKey, tuple[Hashable, ...]] = {}

    def keys(self, value: Hashable) -> Iterable[ObjectKey]:
        """Return the keys that have a value."""
        return self._keys.get(value, ())

    def put(self, key: ObjectKey, values: tuple[Hashable, ...]) -> None:
        """Set the values of a key; where it had one already, it keeps its place."""
        before = self._values.get(key, ())
        for value in set(before).difference(values):
            self._remove(value, key)
        for value in set(values).difference(before):
            self._keys[value] = _with(self._keys.get(value, ()), key)
        if values:
            self._values[key] = values
        else:
            self._values.pop(key, None)

    def remove(self, key: ObjectKey) -> None:
        """Remove a key with all its values; an unknown one has none."""
        self.put(key, ())

    def _remove(self, value: Hashable, key: ObjectKey) -> None:
        keys = self._keys[value]
        if isinstance(keys, dict):
            del keys[key]
        else:
            keys = self._keys[value] = tuple(item for item in keys if item != key)
        if not keys:
            del self._keys[value]


def _with(
    keys: tuple[ObjectKey, ...] | dict[ObjectKey, None], key: ObjectKey
) -> tuple[ObjectKey, ...] | dict[ObjectKey, None]:
    """Add a key; converts the tuple to a dict above the limit."""
    if isinstance(keys, dict):
        keys[key] = None
        return keys
    if key in keys:
        return keys
    keys = (*keys, key)
    return keys if len(keys) <= _FEW else dict.fromkeys(keys)
