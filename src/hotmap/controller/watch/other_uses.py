"""Finds pods of any workload that use a source: kubelets keep immutable ones for all of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import NamedTuple

from hotmap.core.decide.assessment import OtherUse, join_uses, oldest_use
from hotmap.core.errors import NotFound
from hotmap.core.model.objects import ObjectKey, Pod
from hotmap.core.model.pod_conditions import FINISHED
from hotmap.core.model.source import parse_time
from hotmap.core.model.template_uses import referenced_sources
from hotmap.kube.bounded_dict import put_latest
from hotmap.kube.client import Client
from hotmap.kube.loop_clock import loop_time
from hotmap.kube.paging import list_items
from hotmap.kube.resources import PODS, Selection

__all__ = ["FindUses", "OtherUses"]

#: Finds a pod that uses each of some sources of one namespace, beside pods with these uids.
FindUses = Callable[
    [Collection[ObjectKey], Collection[str]], Awaitable[dict[ObjectKey, OtherUse | None]]
]

#: Sources for which a pod is remembered at most.
_AT_MOST = 1024

#: Seconds for which a pod that was read is taken to exist.
_READ_FOR = 1.0


class _Found(NamedTuple):
    uid: str
    use: OtherUse
    #: When it was read, in monotonic seconds.
    at: float


class OtherUses:
    """Lists the pods of a namespace, and remembers which of them uses a source.

    The next question about that source reads this pod alone, at most once a second, so that a
    namespace of many consumers is not listed for each of them.
    """

    def __init__(self, client: Client, clock: Callable[[], float] = loop_time) -> None:
        """`clock` returns monotonic seconds."""
        self._client = client
        self._clock = clock
        self._found: dict[ObjectKey, _Found] = {}

    async def find(
        self, sources: Collection[ObjectKey], own: Collection[str]
    ) -> dict[ObjectKey, OtherUse | None]:
        """Return the use of each source of one namespace by the oldest pod that uses it.

        Pods with the uids in `own` count only while they terminate: a kubelet keeps their sources
        until they have ended. Beside one of them, a pod of another workload is named. "None" is
        confirmed by a consistent read.

        Raises:
            ApiError, Unreachable: as the client raises them.
        """
        uses = {source: await self._known(source, own) for source in sources}
        if left := [source for source, use in uses.items() if use is None]:
            uses |= await self._list(left, own)
        return uses

    async def _known(self, source: ObjectKey, own: Collection[str]) -> OtherUse | None:
        found = self._found.get(source)
        if found is None or found.uid in own:
            return None
        began = self._clock()
        if began - found.at < _READ_FOR:
            return found.use
        try:
            pod = await self._client.get(PODS, source.namespace, found.use.pod, type=Pod)
        except NotFound:
            return None
        if pod.metadata.uid != found.uid or _has_released(pod):
            return None
        use = found.use._replace(ends=_is_ending(pod))
        self._remember(source, found._replace(use=use, at=began))
        return use

    async def _list(
        self, sources: Collection[ObjectKey], own: Collection[str]
    ) -> dict[ObjectKey, OtherUse | None]:
        namespace, began = next(iter(sources)).namespace, self._clock()
        oldest: dict[ObjectKey, _Found] = {}
        others: dict[ObjectKey, OtherUse] = {}
        ending: dict[ObjectKey, OtherUse] = {}
        selection = Selection(PODS, namespace)
        async for pod in list_items(self._client, selection, type=Pod, cached=False, is_long=True):
            metadata = pod.metadata
            if _has_released(pod):
                continue
            created, ends = parse_time(metadata.creation_timestamp) or 0.0, _is_ending(pod)
            use = OtherUse(metadata.name, created, ends=ends)
            for source in referenced_sources(pod.spec, namespace, sources):
                if (first := oldest.get(source)) is None or created < first.use.created:
                    oldest[source] = _Found(metadata.uid, use, began)
                if metadata.uid not in own:
                    others[source] = oldest_use(use, others.get(source))
                elif ends:
                    ending[source] = oldest_use(use, ending.get(source))
        for source, found in oldest.items():  # own ones too: they are others to the next question
            self._remember(source, found)
        return {source: join_uses(others.get(source), ending.get(source)) for source in sources}

    def _remember(self, source: ObjectKey, found: _Found) -> None:
        put_latest(self._found, source, found, most=_AT_MOST)


def _is_ending(pod: Pod) -> bool:
    return bool(pod.metadata.deletion_timestamp)


def _has_released(pod: Pod) -> bool:
    """Return whether a kubelet has released what a pod used, since all its containers have ended.

    One that is being deleted is finished a moment earlier, and gone when that is done.
    """
    return pod.status.phase in FINISHED and not _is_ending(pod)
