"""Follows immutable sources that were deleted until no pod uses them.

A kubelet serves such a source for as long as a pod on its node uses it, also to pods that start
after it has been recreated. At the first decision on a new workload, the pods from before may have
ended a moment ago, and the first pods of the workload may have started beside them. Only a moment
that was seen in between, at which no pod used the source, excludes that.

The records of consumers tell the next controller which sources that were, also those of consumers
that are deleted: what they used is stored until such a moment.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from math import inf
from typing import NoReturn

from hotmap.controller.storage.records import Records, immutable_objects
from hotmap.controller.watch.other_uses import FindUses
from hotmap.core.decide.assessment import OtherUse
from hotmap.core.errors import HotmapError
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.source import Source
from hotmap.core.model.state import Record
from hotmap.kube.bounded_dict import put_latest
from hotmap.kube.loop_clock import loop_time
from hotmap.kube.workqueue import WorkQueue

__all__ = ["DeletedImmutables"]

#: Seconds between two searches of the pods of a namespace, at first and after a minute: most pods
#: end within the 30 s of their grace period.
_PAUSE, _LATER_PAUSE, _LATER = 1.0, 10.0, 60.0

#: How much longer than a search the pause after it takes at least: a tenant may have 10,000 pods,
#: and delete sources all the time.
_REST = 20.0

#: Seconds for which a deleted source is followed, and what a deleted consumer used is kept; and how
#: many of either in a namespace at most, the last ones: a tenant may delete any number that are in
#: use, and must not displace those of others.
_FOLLOWED_FOR = 600.0
_AT_MOST = 256


class DeletedImmutables:
    """Searches for pods that use deleted immutable sources, by namespace."""

    def __init__(
        self,
        find: FindUses,
        records: Records,
        *,
        is_replaced: Callable[[ObjectKey, str], bool],
        clock: Callable[[], float] = loop_time,
    ) -> None:
        """`is_replaced` returns whether the object with a uid is not the source any more.

        `clock` returns monotonic seconds.
        """
        self._find = find
        self._records = records
        self._is_replaced = is_replaced
        self._clock = clock
        #: When they were deleted, by namespace, oldest first; in monotonic seconds.
        self._deleted: dict[str, dict[ObjectKey, float]] = {}
        #: The same of deleted consumers that used immutable sources, by uid.
        self._retired: dict[str, dict[str, float]] = {}
        #: The namespaces that have some.
        self._due = WorkQueue[str](clock=clock)
        #: The namespace whose pods are searched now; "" for none.
        self._searched = ""
        #: When the pods of a namespace may be searched again, in monotonic seconds.
        self._rests_until: dict[str, float] = {}

    def source_changed(self, key: ObjectKey, old: Source | None, new: Source | None) -> None:
        """Follow a source that is deleted, as a subscriber of its store."""
        if old is not None and old.immutable and (new is None or new.uid != old.uid):
            self._follow(key)

    def begin(self) -> None:
        """Follow the sources that were deleted or recreated since the records were made."""
        for record in self._records.values():
            self._follow_replaced(record)
        for record in list(self._records.retired()):
            self.consumer_deleted(record)

    def consumer_deleted(self, kept: Record) -> None:
        """Follow the sources that a deleted consumer used; `kept` is what is kept of it."""
        retired = self._retired.setdefault(kept.namespace, {})
        retired.pop(kept.uid, None)
        retired[kept.uid] = self._clock()
        if len(retired) > _AT_MOST:
            self._drop(kept.namespace, next(iter(retired)))
        self._due.add_after(kept.namespace, _FOLLOWED_FOR)
        self._follow_replaced(kept)

    def _follow_replaced(self, record: Record) -> None:
        for source, served in immutable_objects(record):
            if self._is_replaced(source, served.uid):
                self._follow(source)

    def _drop(self, namespace: str, uid: str) -> None:
        del self._retired[namespace][uid]
        self._records.drop(namespace, uid)

    def _follow(self, key: ObjectKey) -> None:
        deleted = self._deleted.setdefault(key.namespace, {})
        put_latest(deleted, key, self._clock(), most=_AT_MOST)
        if key.namespace != self._searched:  # else the next search follows from this one
            rest = self._rests_until.get(key.namespace, -inf) - self._clock()
            self._due.add_after(key.namespace, max(rest, 0.0))

    def may_be_kept(self, source: ObjectKey) -> bool:
        """Return whether pods have used a source in each search since an immutable one was deleted.

        Then kubelets may still serve that one. False for a source that is not followed any more.
        """
        return self._clock() - self._deleted_at(source) < _FOLLOWED_FOR

    def _deleted_at(self, source: ObjectKey) -> float:
        return self._deleted.get(source.namespace, {}).get(source, -inf)

    async def find_uses(
        self, sources: Collection[ObjectKey], own: Collection[str]
    ) -> dict[ObjectKey, OtherUse | None]:
        """Find pods as OtherUses does, and remember the sources that no pod uses.

        Raises:
            ApiError, Unreachable: as the client raises them.
        """
        deleted_at = {source: self._deleted_at(source) for source in sources}
        uses = await self._find(sources, own)
        for source, use in uses.items():
            # Another one may have been deleted meanwhile.
            if use is None and not own and self._deleted_at(source) == deleted_at[source]:
                self._deleted.get(source.namespace, {}).pop(source, None)
                self._records.release(source)
        return uses

    async def run(self) -> NoReturn:
        """Search until cancelled."""
        while True:
            self._searched = namespace = await self._due.get()
            began = self._clock()
            try:
                pause = await self._search(namespace)
            except HotmapError:
                self._due.retry(namespace)
            else:
                self._due.forget(namespace)
                rest = self._rest(namespace, began)
                if pause:
                    self._due.add_after(namespace, max(pause, rest))
            finally:
                self._searched = ""
                self._due.done(namespace)

    def _rest(self, namespace: str, began: float) -> float:
        """Return the least pause in seconds after a search that began then; remember its end."""
        now = self._clock()
        rest = (now - began) * _REST
        kept = {name: until for name, until in self._rests_until.items() if until > now}
        self._rests_until = kept | {namespace: now + rest}
        return rest

    async def _search(self, namespace: str) -> float:
        """Search for pods that use the sources of a namespace; returns seconds until the next.

        0: no source is left.
        """
        self._drop_retired(namespace)
        deleted = self._deleted.get(namespace, {})
        if followed := [source for source in deleted if self.may_be_kept(source)]:
            await self.find_uses(followed, ())
        left = {source: at for source, at in deleted.items() if self.may_be_kept(source)}
        if not left:
            self._deleted.pop(namespace, None)
            return self._expires_in(namespace)
        self._deleted[namespace] = left
        return _PAUSE if self._clock() - max(left.values()) < _LATER else _LATER_PAUSE

    def _drop_retired(self, namespace: str) -> None:
        """Drop what was kept for long enough of the deleted consumers of a namespace."""
        retired = self._retired.get(namespace, {})
        for uid, at in list(retired.items()):
            if self._clock() - at >= _FOLLOWED_FOR:
                self._drop(namespace, uid)
        if not retired:
            self._retired.pop(namespace, None)

    def _expires_in(self, namespace: str) -> float:
        """Return the seconds until the first of them is dropped; 0: there are none."""
        retired = self._retired.get(namespace, {})
        oldest = next(iter(retired.values()), None)
        return 0.0 if oldest is None else oldest + _FOLLOWED_FOR - self._clock() + _PAUSE
