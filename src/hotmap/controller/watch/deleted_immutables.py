"""Follows immutable sources that were deleted until no pod uses them.

A kubelet serves such a source for as long as a pod on its node uses it, also to pods that start
after it has been recreated. At the first decision on a new workload, the pods from before may have
ended a moment ago, and the first pods of the workload may have started beside them. Only a moment
that was seen in between, at which no pod used the source, excludes that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from math import inf
from typing import NoReturn

from hotmap.controller.watch.other_uses import FindUses
from hotmap.core.decide.assessment import OtherUse
from hotmap.core.errors import HotmapError
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.source import Source
from hotmap.kube.loop_clock import loop_time
from hotmap.kube.workqueue import WorkQueue

__all__ = ["DeletedImmutables"]

#: Seconds between two looks at the pods of a namespace, at first and after a minute: most pods end
#: within the 30 s of their grace period.
_PAUSE, _LATER_PAUSE, _LATER = 1.0, 10.0, 60.0

#: How much longer than a look the pause after it takes at least: a tenant may have 10,000 pods, and
#: delete sources all the time.
_REST = 20.0

#: Seconds for which a deleted source is followed, and how many of a namespace at most, the last
#: ones: a tenant may delete any number that are in use, and must not displace those of others.
_FOLLOWED_FOR = 600.0
_AT_MOST = 256


class DeletedImmutables:
    """Looks for pods that use deleted immutable sources, by namespace."""

    def __init__(self, find: FindUses, clock: Callable[[], float] = loop_time) -> None:
        """`clock` returns monotonic seconds."""
        self._find = find
        self._clock = clock
        #: When they were deleted, by namespace, oldest first; in monotonic seconds.
        self._deleted: dict[str, dict[ObjectKey, float]] = {}
        #: The namespaces that have some.
        self._due = WorkQueue[str](clock=clock)
        self._looking_at = ""
        #: When the pods of a namespace may be looked at again, in monotonic seconds.
        self._rests_until: dict[str, float] = {}

    def source_changed(self, key: ObjectKey, old: Source | None, new: Source | None) -> None:
        """Follow a source that is deleted, as a subscriber of its store."""
        if old is None or not old.immutable or (new is not None and new.uid == old.uid):
            return
        deleted = self._deleted.setdefault(key.namespace, {})
        deleted.pop(key, None)
        deleted[key] = self._clock()
        if len(deleted) > _AT_MOST:
            del deleted[next(iter(deleted))]
        if key.namespace != self._looking_at:  # else the next look follows from this one
            rest = self._rests_until.get(key.namespace, -inf) - self._clock()
            self._due.add_after(key.namespace, max(rest, 0.0))

    def may_be_kept(self, source: ObjectKey) -> bool:
        """Return whether pods have used a source at each look since an immutable one was deleted.

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
        return uses

    async def run(self) -> NoReturn:
        """Look until cancelled."""
        while True:
            self._looking_at = namespace = await self._due.get()
            began = self._clock()
            try:
                pause = await self._look(namespace)
            except HotmapError:
                self._due.retry(namespace)
            else:
                self._due.forget(namespace)
                rest = self._rest(namespace, began)
                if pause:
                    self._due.add_after(namespace, max(pause, rest))
            finally:
                self._looking_at = ""
                self._due.done(namespace)

    def _rest(self, namespace: str, began: float) -> float:
        """Return the least pause in seconds after a look that began then, and remember its end."""
        now = self._clock()
        rest = (now - began) * _REST
        kept = {name: until for name, until in self._rests_until.items() if until > now}
        self._rests_until = kept | {namespace: now + rest}
        return rest

    async def _look(self, namespace: str) -> float:
        """Look for pods that use the sources of a namespace; returns seconds until the next look.

        0: there are none left.
        """
        deleted = self._deleted.get(namespace, {})
        if followed := [source for source in deleted if self.may_be_kept(source)]:
            await self.find_uses(followed, ())
        left = {source: at for source, at in deleted.items() if self.may_be_kept(source)}
        if not left:
            self._deleted.pop(namespace, None)
            return 0.0
        self._deleted[namespace] = left
        return _PAUSE if self._clock() - max(left.values()) < _LATER else _LATER_PAUSE
