"""Starts and stops the controller: which task when, and what each hands to the next.

1. the keyring is read, or made at the very first start
2. the records are read: what was last asked of every consumer
3. reflectors fill the stores; until all are complete nobody acts
4. every consumer is looked at once, then whenever something changes
5. at the end: workers finish their key, records and Events are written, the server closes

One replica acts. Leader election belongs between 3 and 4, with the stores kept warm.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Self

from hotmap.controller.executor import Executor
from hotmap.controller.index import CONSUMER_KINDS, Index, NamespaceNotes, Queues
from hotmap.controller.journal import Entry, Journal
from hotmap.controller.keyring import load_keyring
from hotmap.controller.metrics import CONTENT_TYPE, Metrics
from hotmap.controller.reconcile import Reconciler
from hotmap.controller.records import Records
from hotmap.controller.server import StatusServer
from hotmap.controller.settings import Settings
from hotmap.controller.webhooks import Webhooks
from hotmap.core.consumer import Consumer, consumer_from_workload
from hotmap.core.errors import ApiError, HotmapError, Unreachable
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
from hotmap.kube.recorder import Recorder
from hotmap.kube.reflector import Reflector, ReflectorStatistics
from hotmap.kube.resources import BY_KIND, NAMESPACES
from hotmap.kube.store import Store
from hotmap.kube.workqueue import QueueShutDown, WorkQueue, WorkQueueStatistics

__all__ = ["Controller"]

#: Seconds of silence after which /healthz fails: four times a reflector's own limit, so that
#: only a watch that cannot be mended from within asks for a restart.
_UNHEALTHY_AFTER = 300.0

#: Seconds that workers get to finish their key at the end.
_GRACE = 5.0

_log = logging.getLogger(__name__)


class Controller:
    """One controller, from entering the context to leaving it."""

    def __init__(self, client: Client, settings: Settings) -> None:
        self._client = client
        self._settings = settings
        self.index = Index(
            defaults=settings.defaults,
            namespaces=max(1, len(settings.watch_namespaces)),
            is_partial=bool(settings.source_selector),
            selects_namespaces=bool(settings.namespace_selector) and not settings.watch_namespaces,
        )
        self.records = Records(client, settings.namespace)
        self.journal = Journal(wall_clock=time.time)
        self._webhooks = Webhooks(settings.webhooks, followers=self.index.followers_of)
        self._refreshes: WorkQueue[ObjectKey] = WorkQueue()
        self._reconciles: WorkQueue[ObjectKey] = WorkQueue()
        self._reflectors: list[Reflector[Any, Any]] = []
        self._tasks: list[asyncio.Task[Any]] = []
        self._workers: list[asyncio.Task[None]] = []
        self._acting = False
        self.port = 0

    async def __aenter__(self) -> Self:
        """Start, and return when the first look at every consumer is queued.

        Raises:
            SettingsError: the key cannot be had, or the listen address not be used.
            ApiError, Unreachable: the API server does not answer as it should.
        """
        self._recorder = Recorder(self._client, component="hotmap")
        self._metrics = Metrics(
            client=self._client,
            journal=self.journal,
            records=self.records,
            reflectors=self.reflector_statistics,
            queues=self.queue_statistics,
        )
        self._server = StatusServer(
            metrics=self._metrics.render,
            metrics_type=CONTENT_TYPE,
            health=self._health,
            readiness=self._readiness,
            status=self._status,
        )
        try:
            await self._start()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stop()

    async def _start(self) -> None:
        if self._settings.listen is not None:
            await self._server.start(*self._settings.listen)
            self.port = self._server.port
        keys = await load_keyring(self._client, self._settings.namespace)
        await self.records.load()
        self._reconciler = Reconciler(
            self._client,
            index=self.index,
            records=self.records,
            keys=keys,
            executor=Executor(self._client),
            recorder=self._recorder,
            journal=self.journal,
            observe_delay=self._metrics.observe_delay,
            alert=self._webhooks.rolled,
        )
        self._reflectors = self._make_reflectors(keys)
        self._tasks += [asyncio.create_task(one.run()) for one in self._reflectors]
        await self._synced()
        self._act()

    async def _synced(self) -> None:
        """Wait until every store is complete; say once a minute what is missing."""
        synced = [store.synced for store in self.index.sources.values()]
        synced += [store.synced for store in self.index.consumers.values()]
        synced.append(self.index.namespaces.synced)
        for event in synced:
            while not event.is_set():
                try:
                    async with asyncio.timeout(60):
                        await event.wait()
                except TimeoutError:
                    self._say_what_is_missing()

    def _say_what_is_missing(self) -> None:
        for one in self.reflector_statistics():
            if not one.synced:
                _log.warning("waiting for %s: %s", one.resource, one.last_error or "no answer")

    def _act(self) -> None:
        """Start the workers and look at every consumer once."""
        queues = Queues(
            refresh=self._refreshes.add,
            reconcile=lambda key, settle, most: self._reconciles.add_settled(
                key, settle=settle, settle_max=most
            ),
        )
        self.index.feed(queues)
        for sources in self.index.sources.values():
            sources.subscribe(self._webhooks.source_changed)
        self._webhooks.start()
        for store in self.index.consumers.values():
            store.subscribe(self._forget_deleted)
        if not _is_scoped(self._settings):  # else some belong to consumers out of sight
            stores = self.index.consumers.values()
            self.records.retain({one.uid for store in stores for one in store.values()})
        for consumer in self.index.all_consumers():
            self._reconciles.add(consumer.key)
        for _ in range(self._settings.workers):
            for queue, work in (
                (self._refreshes, self._reconciler.refresh),
                (self._reconciles, self._reconciler.reconcile),
            ):
                self._workers.append(asyncio.create_task(_work(queue, work)))
        self._tasks.append(asyncio.create_task(self.records.run()))
        self._acting = True
        _log.info("watching %d consumers", sum(1 for _ in self.index.all_consumers()))

    async def _stop(self) -> None:
        self._acting = False
        self._refreshes.shutdown()
        self._reconciles.shutdown()
        if self._workers:
            await asyncio.wait(self._workers, timeout=_GRACE)
        for task in (*self._workers, *self._tasks):
            task.cancel()
        await asyncio.gather(*self._workers, *self._tasks, return_exceptions=True)
        await self.records.flush()
        await self._webhooks.aclose()
        await self._recorder.aclose()
        await self._server.close()

    # -- what is watched -----------------------------------------------------------------------

    def _make_reflectors(self, keys: tuple[FingerprintKey, ...]) -> list[Reflector[Any, Any]]:
        settings = self._settings
        dialect = settings.defaults.dialect

        def config_map(item: ConfigMap) -> Source:
            return source_from_config_map(item, keys, dialect)

        def secret(item: Secret) -> Source | None:
            return None if _is_ours(item) else source_from_secret(item, keys, dialect)

        def workload(kind: str) -> Callable[[Workload], Consumer]:
            return lambda item: consumer_from_workload(kind, item, dialect)

        sources, consumers = self.index.sources, self.index.consumers
        labels = settings.source_selector
        watched: list[tuple[str, type[Any], Callable[[Any], Any], Store[Any], str]] = [
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
                )
                for namespace in settings.watch_namespaces or (None,)
            ]
        if settings.watch_namespaces:
            self.index.namespaces.synced.set()
            _log.info("namespaced mode: annotations of the Namespace are not read")
            return reflectors
        namespaces = Reflector(
            self._client,
            NAMESPACES,
            type=Namespace,
            transform=lambda item: NamespaceNotes(
                item.metadata.name, spoken_annotations(item.metadata)
            ),
            store=self.index.namespaces,
            label_selector=settings.namespace_selector,
        )
        return [*reflectors, namespaces]

    def _forget_deleted(self, key: ObjectKey, old: Consumer | None, new: Consumer | None) -> None:
        if old is not None and (new is None or new.uid != old.uid):
            self.records.forget(old.uid)
            self._reconciler.forget(key)

    # -- what is shown -------------------------------------------------------------------------

    def reflector_statistics(self) -> list[ReflectorStatistics]:
        """Say of each watched resource how it stands, over all its namespaces."""
        by_resource: dict[str, list[ReflectorStatistics]] = {}
        for one in self._reflectors:
            statistics = one.statistics()
            by_resource.setdefault(statistics.resource, []).append(statistics)
        return [_together(parts) for parts in by_resource.values()]

    def queue_statistics(self) -> dict[str, WorkQueueStatistics]:
        """Count the consumers that are waited for and worked on, by queue."""
        return {
            "refresh": self._refreshes.statistics(),
            "reconcile": self._reconciles.statistics(),
        }

    def _health(self) -> tuple[bool, dict[str, Any]]:
        watches = {
            one.resource: {
                "lastByteAgeSeconds": round(one.last_byte_age, 1),
                "error": one.last_error,
            }
            for one in self.reflector_statistics()
        }
        dead = [
            one.resource
            for one in self.reflector_statistics()
            if one.last_byte_age > _UNHEALTHY_AFTER
        ]
        return not dead, {"healthy": not dead, "silent": dead, "watches": watches}

    def _readiness(self) -> tuple[bool, dict[str, Any]]:
        missing = [one.resource for one in self.reflector_statistics() if not one.synced]
        return self._acting, {"ready": self._acting, "role": "leader", "notSynced": missing}

    async def _status(self, consumer: str | None) -> dict[str, Any]:
        """Show the last decision on every consumer, or on those named `[KIND/]NAMESPACE/NAME`."""
        history = self.journal.history()
        return {
            "apiVersion": "hotmap.dev/v1",
            "kind": "ControllerStatus",
            "ready": self._acting,
            "sources": sum(len(store) for store in self.index.sources.values()),
            "consumers": [
                _consumer_document(key, entries)
                for key, entries in history.items()
                if consumer is None or _is_named(key, consumer)
            ],
        }


async def _work(
    queue: WorkQueue[ObjectKey], work: Callable[[ObjectKey], Awaitable[float | None]]
) -> None:
    """Take keys and work on them until the queue is shut down.

    Failures are retried for ever, with pauses that grow per key; a defect of ours is treated
    alike, so that it stays the trouble of one consumer.
    """
    while True:
        try:
            key = await queue.get()
        except QueueShutDown:
            return
        try:
            again = await work(key)
        except (ApiError, Unreachable) as error:
            pause = queue.retry(key)
            _log.info("%s: tried again in %.1f s: %s", key, pause, error)
        except HotmapError as error:
            pause = queue.retry(key)
            _log.error("%s: tried again in %.1f s: %s", key, pause, error)
        except Exception:
            queue.retry(key)
            _log.exception("a defect met %s; the others go on", key)
        else:
            queue.forget(key)
            if again is not None:
                queue.add_after(key, again)
        finally:
            queue.done(key)


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
        last_error=next((one.last_error for one in parts if one.last_error), ""),
    )


def _is_scoped(settings: Settings) -> bool:
    """Tell whether consumers exist that are out of sight."""
    return bool(settings.watch_namespaces or settings.ignored_namespaces)


def _outside(namespaces: Sequence[str]) -> str:
    """Select, on the server's side, what lies in none of some namespaces."""
    return ",".join(f"metadata.namespace!={name}" for name in namespaces)


def _is_ours(secret: Secret) -> bool:
    """Tell whether a Secret is our own key or state, which we write every second."""
    return secret.type in ("hotmap.dev/key", "hotmap.dev/state")


def _is_named(key: ObjectKey, text: str) -> bool:
    parts = text.split("/")
    if len(parts) == 3 and parts[0].lower() != key.kind.lower():
        return False
    return parts[-2:] == [key.namespace, key.name]


def _consumer_document(key: ObjectKey, entries: Sequence[Entry]) -> dict[str, Any]:
    """Show a consumer with its latest decisions, newest first."""
    return {
        "kind": key.kind,
        "namespace": key.namespace,
        "name": key.name,
        "decisions": [
            {
                "at": round(entry.at, 3),
                "verdict": entry.verdict,
                "reason": entry.reason,
                "actions": list(entry.actions),
                "revision": entry.revision,
                "outcome": entry.outcome,
            }
            for entry in reversed(entries)
        ],
    }
