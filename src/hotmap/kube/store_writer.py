"""Writes what a reflector receives into a store, transformed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Generic, TypeVar

from hotmap.core.model.objects import ObjectKey
from hotmap.kube.decoding import decoding_problem
from hotmap.kube.store import Store, UnreadableObject

__all__ = ["StoreWriter"]

T = TypeVar("T")
S = TypeVar("S")

_log = logging.getLogger(__name__)


class StoreWriter(Generic[T, S]):
    """Fills `store` with the transformed objects, and with those that cannot be read.

    `transform` may return None: such an object is not kept. `key_of` reads the object key from
    values that contain it, so that it is stored once. `transform_known` replaces `transform` for
    an object that has a stored value of the same watch; it gets that too, to reuse unchanged parts.
    """

    def __init__(
        self,
        store: Store[S],
        transform: Callable[[T], S | None],
        *,
        key_of: Callable[[S], ObjectKey] | None = None,
        transform_known: Callable[[T, S], S | None] | None = None,
    ) -> None:
        self.store = store
        self._transform = transform
        self._key_of = key_of
        self._transform_known = transform_known or (lambda item, known: transform(item))

    def put(self, key: ObjectKey, item: T, *, uid: str = "", listed: bool = False) -> ObjectKey:
        """Store an object, or leave it out; returns the key as it is stored.

        `listed` means that changes between the stored value and this one may be missing, as after
        an etcd was restored: nothing of the value is reused.
        """
        # One bad object must not stop the watch of all others.
        try:
            known = None if listed else self.store.get(key)
            value = self._transform(item) if known is None else self._transform_known(item, known)
            if value is None:
                self.store.remove(key)
            else:
                key = self._key_of(value) if self._key_of else key
                self.store.put(key, value)
        except Exception as error:
            return self.skip(key, decoding_problem(error), uid=uid)
        return key

    def skip(self, key: ObjectKey, problem: str, *, uid: str) -> ObjectKey:
        """Leave an object out, and log it once as long as the problem is the same."""
        found = UnreadableObject(uid, problem)
        if self.store.unreadable.get(key) != found:
            _log.warning("ignoring %s, which cannot be decoded: %s", key, problem)
        self.store.put_unreadable(key, found)
        return key
