"""What the controller watches: reflectors that keep the index's stores equal to the cluster.

They run from the start, on a standby too, so that its stores are warm. Who begins to act on
stores that were filled before asks for consistent lists first (`renew`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from hotmap.controller.index import CONSUMER_KINDS, Index, NamespaceNotes
from hotmap.controller.settings import Settings
from hotmap.core.consumer import Consumer, consumer_from_workload
from hotmap.core.fingerprint import FingerprintKey
from hotmap.core.objects import (
    ConfigMap,
    Namespace,
    ObjectKey,
    Secret,
    Workload,
    spoken_annotations,
)
from hotmap.core.source import Source, source_from_config_map, source_from_secret
from hotmap.kube.client import Client
from hotmap.kube.reflector import Reflector, ReflectorStatistics
from hotmap.kube.resources import BY_KIND, NAMESPACES
from hotmap.kube.store import Store

__all__ = ["Watching"]

#: Seconds between two complaints about what is missing.
_COMPLAIN = 60.0

_log = logging.getLogger(__name__)


class Watching:
    """All reflectors of one controller."""

    def __init__(
        self,
        client: Client,
        *,
        index: Index,
        settings: Settings,
        keys: tuple[FingerprintKey, ...],
    ) -> None:
        self._client = client
        self._index = index
        self._settings = settings
        self._keys = keys
        #: Set once anything was ever watched.
        self.started = asyncio.Event()
        self._reflectors: list[Reflector[Any, Any]] = []
        self._tasks: list[asyncio.Task[Any]] = []

    def start(self) -> None:
        """Begin to fill the stores."""
        self._reflectors = self._make_reflectors()
        self._tasks = [asyncio.create_task(one.run()) for one in self._reflectors]
        self.started.set()

    async def stop(self) -> None:
        """Stop watching; the stores stay as they are."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    async def complete(self) -> None:
        """Wait until every store is complete, or the server has refused what it would hold.

        Says once a minute what is missing.
        """
        for one in self._reflectors:
            while not one.answered.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(_COMPLAIN):
                        await one.answered.wait()
                        break
                self._complain()

    async def renew(self) -> None:
        """List everything anew, consistently, and wait until the stores are equal to that.

        A watch may lag without anybody noticing for as long as a silent connection is trusted;
        who takes over must not act on what was true before (a source that went backwards
        would be noticed, a consumer would not).
        """
        await self.stop()
        self.start()
        await self.complete()

    def _complain(self) -> None:
        for one in self.statistics():
            if not one.synced:
                _log.warning("waiting for %s: %s", one.resource, one.last_error or "no answer")

    def statistics(self) -> list[ReflectorStatistics]:
        """Say of each watched resource how it stands, over all its namespaces."""
        by_resource: dict[str, list[ReflectorStatistics]] = {}
        for one in self._reflectors:
            statistics = one.statistics()
            by_resource.setdefault(statistics.resource, []).append(statistics)
        return [_together(parts) for parts in by_resource.values()]

    def _make_reflectors(self) -> list[Reflector[Any, Any]]:
        settings, keys = self._settings, self._keys
        dialect = settings.defaults.dialect

        def config_map(item: ConfigMap, known: Source | None = None) -> Source:
            return source_from_config_map(item, keys, dialect, known=known)

        def secret(item: Secret, known: Source | None = None) -> Source | None:
            return None if _is_ours(item) else source_from_secret(item, keys, dialect, known=known)

        def workload(kind: str) -> Callable[..., Consumer]:
            return lambda item, known=None: consumer_from_workload(kind, item, dialect, known=known)

        sources, consumers = self._index.sources, self._index.consumers
        labels = settings.source_selector
        watched: list[tuple[str, type[Any], Callable[..., Any], Store[Any], str]] = [
            ("ConfigMap", ConfigMap, config_map, sources["ConfigMap"], labels),
            ("Secret", Secret, secret, sources["Secret"], labels),
        ]
        watched += [
            (kind, Workload, workload(kind), consumers[kind], "") for kind in CONSUMER_KINDS
        ]
        reflectors: list[Reflector[Any, Any]] = []
        for kind, type_, transform, store, label_selector in watched:
            if kind in dialect.ignored_sources:
                store.synced.set()
                continue
            reflectors += [
                Reflector(
                    self._client,
                    BY_KIND[kind],
                    type=type_,
                    transform=transform,
                    store=store,
                    namespace=namespace,
                    label_selector=label_selector,
                    field_selector=_outside(settings.ignored_namespaces) if not namespace else "",
                    key_of=_key_of,
                    transform_known=transform,
                )
                for namespace in settings.watch_namespaces or (None,)
            ]
        if settings.watch_namespaces:
            self._index.namespaces.synced.set()
            _log.info("namespaced mode: annotations of the Namespace are not read")
            return reflectors
        namespaces = Reflector(
            self._client,
            NAMESPACES,
            type=Namespace,
            transform=lambda item: NamespaceNotes(
                item.metadata.name, spoken_annotations(item.metadata), item.metadata.uid
            ),
            store=self._index.namespaces,
            label_selector=settings.namespace_selector,
        )
        return [*reflectors, namespaces]


def _together(parts: Sequence[ReflectorStatistics]) -> ReflectorStatistics:
    """Sum the watches of one resource up: counts together, and the worst of the rest."""
    first = parts[0]
    return first._replace(
        connected=all(one.connected for one in parts),
        last_byte_age=max(one.last_byte_age for one in parts),
        lists=sum(one.lists for one in parts),
        watches=sum(one.watches for one in parts),
        events=sum(one.events for one in parts),
        bookmarks=sum(one.bookmarks for one in parts),
        errors=sum(one.errors for one in parts),
        unreadable=sum(one.unreadable for one in parts),
        refused=any(one.refused for one in parts),
        last_error=next((one.last_error for one in parts if one.last_error), ""),
    )


def _outside(namespaces: Sequence[str]) -> str:
    """Select, on the server's side, what lies in none of some namespaces."""
    return ",".join(f"metadata.namespace!={name}" for name in namespaces)


def _key_of(value: Source | Consumer) -> ObjectKey:
    return value.key


def _is_ours(secret: Secret) -> bool:
    """Tell whether a Secret is our own key or state, which we write every second."""
    return secret.type in ("hotmap.dev/key", "hotmap.dev/state")
