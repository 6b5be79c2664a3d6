"""The three strategies by which a sync reads ConfigMaps and Secrets.

kubernetes: pkg/kubelet/util/manager (configMapAndSecretChangeDetectionStrategy). The strategy
never decides *when* a sync happens, only how old the result may be:

| strategy | result                                   | age                |
|----------|------------------------------------------|--------------------|
| Watch    | from a cache that a watch keeps          | the watch's delay  |
| Cache    | fetched, kept while some pod refers to it | up to the TTL      |
| Get      | fetched each time                        | none               |
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol

from hotmap.core.errors import ApiError, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hotmap.local.client import Client
    from hotmap.local.informer import Informers
    from hotmap.local.kubelet.environment import SourceName

#: Seconds; kubernetes: pkg/kubelet/kubelet.go, defaultTTL, when the node has no annotation.
DEFAULT_TTL = 60.0
#: Node annotation with the TTL in whole seconds (kubernetes: pkg/controller/ttl).
TTL_ANNOTATION = "node.alpha.kubernetes.io/ttl"

PLURALS = {"ConfigMap": "configmaps", "Secret": "secrets"}


class SourceReader(Protocol):
    """Reads sources for registered pods."""

    def register(self, pod: str, namespace: str, sources: Iterable[SourceName]) -> None:
        """Set the sources that a pod (by uid) refers to; replaces earlier ones."""

    def unregister(self, pod: str) -> None:
        """Forget a pod's references."""

    async def get(self, namespace: str, source: SourceName) -> dict[str, Any]:
        """Get a source, as recent as the strategy guarantees; the caller must not change it.

        Raises:
            NotFound: it does not exist, or did not at the last read.
        """


class _References:
    """Which pods refer to which source; the keys in use are those with a pod."""

    def __init__(self) -> None:
        self._by_pod: dict[str, set[tuple[str, SourceName]]] = {}
        self._pods: Counter[tuple[str, SourceName]] = Counter()

    def replace(
        self, pod: str, wanted: set[tuple[str, SourceName]]
    ) -> tuple[set[tuple[str, SourceName]], set[tuple[str, SourceName]]]:
        """Return (newly referred to by this pod, no longer referred to by any)."""
        before = self._by_pod.pop(pod, set())
        if wanted:
            self._by_pod[pod] = wanted
        self._pods.update(wanted)
        self._pods.subtract(before)
        unused = {key for key in before if not self._pods[key]}
        for key in unused:
            del self._pods[key]
        return wanted - before, unused


class WatchedSources:
    """The strategy Watch, upstream's default.

    An immutable source is kept as first read until no pod on the node refers to it: until then, one
    that was deleted and recreated goes unnoticed (kubernetes#119733).
    """

    def __init__(self, informers: Informers) -> None:
        self._informers = {kind: informers[plural] for kind, plural in PLURALS.items()}
        self._references = _References()
        self._immutable: dict[tuple[str, SourceName], dict[str, Any]] = {}

    def register(self, pod: str, namespace: str, sources: Iterable[SourceName]) -> None:
        _, unused = self._references.replace(pod, {(namespace, source) for source in sources})
        for key in unused:
            self._immutable.pop(key, None)

    def unregister(self, pod: str) -> None:
        self.register(pod, "", ())

    async def get(self, namespace: str, source: SourceName) -> dict[str, Any]:
        kept = self._immutable.get((namespace, source))
        if kept is not None:
            return kept
        found = self._informers[source.kind].objects.get((namespace, source.name))
        if found is None:
            # The kubelet makes this text itself, in the singular.
            raise NotFound(f'{source.kind.lower()} "{source.name}" not found')
        if found.get("immutable"):
            self._immutable[namespace, source] = found
        return found


class FetchedSources:
    """The strategy Get: one read per use."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def register(self, pod: str, namespace: str, sources: Iterable[SourceName]) -> None:
        pass

    def unregister(self, pod: str) -> None:
        pass

    async def get(self, namespace: str, source: SourceName) -> dict[str, Any]:
        return await self._client.get(PLURALS[source.kind], namespace, source.name)


class CachedSources:
    """The strategy Cache: a read per source and TTL.

    A source is read again when a pod begins to refer to it (kubernetes#120255), so that a new pod
    gets the current content. "Not found" is cached like an object; other failures keep the cached
    one. `ttl` returns seconds and is called each time, since a node annotation sets it.
    """

    def __init__(self, client: Client, ttl: Callable[[], float]) -> None:
        self._client = client
        self._ttl = ttl
        self._references = _References()
        self._known: dict[tuple[str, SourceName], tuple[float, dict[str, Any] | NotFound]] = {}

    def register(self, pod: str, namespace: str, sources: Iterable[SourceName]) -> None:
        new, unused = self._references.replace(pod, {(namespace, source) for source in sources})
        for key in new | unused:
            self._known.pop(key, None)

    def unregister(self, pod: str) -> None:
        self.register(pod, "", ())

    async def get(self, namespace: str, source: SourceName) -> dict[str, Any]:
        fetched_at, answer = self._known.get((namespace, source), (None, None))
        if answer is None or fetched_at is None or time.monotonic() - fetched_at >= self._ttl():
            answer = await self._fetch(namespace, source, answer)
            self._known[namespace, source] = (time.monotonic(), answer)
        if isinstance(answer, NotFound):
            raise answer
        return answer

    async def _fetch(
        self, namespace: str, source: SourceName, old: dict[str, Any] | NotFound | None
    ) -> dict[str, Any] | NotFound:
        try:
            return await self._client.get(PLURALS[source.kind], namespace, source.name)
        except NotFound as missing:
            return missing
        except ApiError:
            if old is None:
                raise
            return old


def ttl_of(node: Mapping[str, Any] | None) -> float:
    """Read the TTL of cached sources from a node's annotation, in seconds."""
    annotations = (node or {}).get("metadata", {}).get("annotations") or {}
    text = annotations.get(TTL_ANNOTATION, "")
    return float(text) if text.isdecimal() else DEFAULT_TTL
