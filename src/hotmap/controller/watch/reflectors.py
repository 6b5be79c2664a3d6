"""The controller's reflectors, which keep the index's stores equal to the cluster.

They run from the start, also on a standby, so that its stores are warm. Before a new leader acts on
stores that were filled earlier, it makes consistent lists (`renew`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from hotmap.controller.settings import Settings
from hotmap.controller.watch.index import Index
from hotmap.controller.watch.missing_namespaces import MissingNamespaces
from hotmap.controller.watch.optional_kind import OptionalKind
from hotmap.controller.watch.policies import NamespaceAnnotations
from hotmap.controller.watch.transforms import Transforms
from hotmap.core.fingerprint import FingerprintKey
from hotmap.core.model.annotations import WATCH_LABEL, known_annotations
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import (
    ConfigMap,
    CronJob,
    Job,
    Namespace,
    ObjectKey,
    Pod,
    ProviderClass,
    ProviderClassPodStatus,
    Rollout,
    Secret,
    Workload,
)
from hotmap.core.model.provider_class import (
    MOUNTS,
    PROVIDER_CLASS,
    ClassObject,
    MountedVersions,
    read_mounted_versions,
)
from hotmap.core.model.source import Source, source_from_config_map, source_from_secret
from hotmap.kube.client import Client
from hotmap.kube.reflector import Reflector
from hotmap.kube.reflector_statistics import ReflectorStatistics
from hotmap.kube.resources import BY_KIND, NAMESPACES, Selection
from hotmap.kube.store import Store
from hotmap.kube.store_writer import StoreWriter
from hotmap.kube.supervisor import Supervisor

__all__ = ["Reflectors"]

#: Seconds between two log lines about incomplete stores.
_LOG_INTERVAL = 60.0

#: Types of the Secrets that hotmap keeps for itself.
_OUR_TYPES = ("hotmap.dev/key", "hotmap.dev/pending", "hotmap.dev/state")

_ROLLED = ("Deployment", "StatefulSet", "DaemonSet")

_log = logging.getLogger(__name__)


class _Watched(NamedTuple):
    """One watched kind, with its transform and store."""

    kind: str
    type: type[Any]
    #: Gets an object and its stored value, if there is one.
    transform: Callable[..., Any]
    label_selector: str = ""


class Reflectors:
    """All reflectors of one controller."""

    def __init__(
        self,
        client: Client,
        *,
        index: Index,
        settings: Settings,
        keys: tuple[FingerprintKey, ...],
        supervisor: Supervisor,
    ) -> None:
        self._client = client
        self._index = index
        self._settings = settings
        self._keys = keys
        #: The fingerprint keys of what the stores hold.
        self.keys_in_stores = keys
        #: Set once reflectors were started.
        self.started = asyncio.Event()
        self._namespaces = MissingNamespaces(
            client,
            # Our own exists: the manifests for one namespace grant no permission to read it.
            [name for name in settings.watch_namespaces if name != settings.namespace],
            known=index.sources["ConfigMap"].synced,
            is_empty=lambda namespace: not index.sources_in(namespace),
        )
        self._fixed: list[Reflector[Any, Any]] = []
        #: The watched kinds.
        self._watched: dict[str, _Watched] = {}
        self._optional: list[OptionalKind] = []
        self._supervisor = supervisor
        self._tasks = supervisor.tasks()

    def start(self) -> None:
        """Start to fill the stores."""
        self.keys_in_stores = self._keys
        self._fixed = self._make_reflectors()
        self._index.provider_classes.use_keys(self._keys)
        self._optional = [*self._watch_rollouts(), *self._watch_provider_classes()]
        for reflector in self._fixed:
            self._tasks.start(f"watch {reflector.statistics().resource}", reflector.run)
        for optional in self._optional:
            self._tasks.start(f"discover {optional.plural}", optional.run)
        self._tasks.start("check namespaces", self._namespaces.run, may_return=True)
        self.started.set()

    async def stop(self) -> None:
        """Stop watching; the stores stay unchanged."""
        await self._tasks.stop()

    def use_keys(self, keys: tuple[FingerprintKey, ...]) -> None:
        """Fingerprint with other keys from the next `start` or `renew` on."""
        self._keys = keys

    async def complete(self) -> None:
        """Wait until every store is complete, or access to its kind is denied.

        Logs once a minute what is missing.
        """
        for optional in self._optional:
            await self._answers(optional)
        for reflector in self._all():
            await self._answers(reflector)

    async def renew(self) -> None:
        """List everything again, consistently, and wait until the stores are equal to that.

        A watch may lag unnoticed for as long as a silent connection is trusted; a new leader must
        not act on old state (for a source that went backwards this is detected, for a consumer
        not).
        """
        await self.stop()
        self.start()
        await self.complete()

    def _all(self) -> list[Reflector[Any, Any]]:
        return [
            *self._fixed,
            *(each for kind in self._optional for each in kind.reflectors),
        ]

    async def _answers(self, reflector: Reflector[Any, Any] | OptionalKind) -> None:
        while not reflector.answered.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOG_INTERVAL):
                    await reflector.answered.wait()
                    break
            self._log_missing_lists()

    def _log_missing_lists(self) -> None:
        for statistic in self.statistics():
            if not statistic.synced:
                _log.warning(
                    "waiting for %s: %s", statistic.resource, statistic.last_error or "no response"
                )

    async def reread(self, key: ObjectKey) -> None:
        """Read one object of a watched kind consistently into its store.

        Raises:
            ApiError, Unreachable: as the client raises them.
        """
        if key.kind in self._watched:
            for reflector in self._all():
                if reflector.selects(key.kind, key.namespace):
                    await reflector.reread(key)

    @property
    def namespaces(self) -> Sequence[str | None]:
        """The namespaces with watches of their own; (None,) if all are watched at once."""
        return self._settings.watch_namespaces or (None,)

    def selection(self, kind: str, namespace: str | None) -> Selection | None:
        """Return which objects of a kind are kept of a namespace; None: none, or none yet."""
        watched = self._watched.get(kind)
        ignored = self._settings.ignored_namespaces
        if watched is None or namespace in ignored or not self._index.store(kind).synced.is_set():
            return None
        # A kind whose CustomResourceDefinition was removed has no objects to read.
        if not any(reflector.selects(kind, namespace or "") for reflector in self._all()):
            return None
        fields = [_excluding_selector(ignored)] if namespace is None else []
        if kind == "Secret":
            fields += (f"type!={each}" for each in _OUR_TYPES)
        excluding = ",".join(filter(None, fields))
        return Selection(BY_KIND[kind], namespace, watched.label_selector, excluding)

    def has_delivered(self, key: ObjectKey, resource_version: str) -> bool:
        """Return whether the watch of an object certainly delivered this version or a newer one."""
        return any(
            reflector.selects(key.kind, key.namespace) and reflector.has_delivered(resource_version)
            for reflector in self._all()
        )

    def is_behind(self) -> bool:
        """Return whether more watch events have probably arrived than were read."""
        return any(reflector.is_behind for reflector in self._all())

    def problems(self) -> list[str]:
        """Return problems that prevent nothing, but are probably not intended."""
        return [f"namespace {name} does not exist" for name in sorted(self._namespaces.absent)]

    def refused(self) -> list[Reflector[Any, Any]]:
        """Return those that are denied access now, so that changes are not seen."""
        return [reflector for reflector in self._all() if reflector.refusal]

    def statistics(self) -> list[ReflectorStatistics]:
        """Return the statistics of each watched resource, over all its namespaces."""
        by_resource: dict[str, list[ReflectorStatistics]] = {}
        for reflector in self._all():
            statistics = reflector.statistics()
            by_resource.setdefault(statistics.resource, []).append(statistics)
        return [_together(parts) for parts in by_resource.values()]

    def _make_reflectors(self) -> list[Reflector[Any, Any]]:
        settings, keys = self._settings, self._keys
        dialect = settings.defaults.dialect
        transforms = Transforms(settings.defaults)

        def config_map(item: ConfigMap, known: Source | None = None) -> Source:
            return source_from_config_map(item, keys, dialect, known=known)

        def secret(item: Secret, known: Source | None = None) -> Source | None:
            return None if _is_ours(item) else source_from_secret(item, keys, dialect, known=known)

        labels = settings.source_selector
        bare = f"{WATCH_LABEL}=true"
        watched = [
            _Watched("ConfigMap", ConfigMap, config_map, labels),
            _Watched("Secret", Secret, secret, labels),
            *(_Watched(kind, Workload, transforms.workload(kind)) for kind in _ROLLED),
            _Watched("CronJob", CronJob, transforms.cron_job),
            _Watched("Job", Job, transforms.job),
            _Watched("ReplicaSet", Workload, transforms.workload("ReplicaSet"), bare),
            _Watched("Pod", Pod, transforms.pod, bare),
        ]
        reflectors: list[Reflector[Any, Any]] = []
        for entry in watched:
            if entry.kind in dialect.ignored_sources | dialect.ignored_workloads:
                self._index.store(entry.kind).synced.set()
            else:
                reflectors += self._reflect(entry, self._index.store(entry.kind))
        if settings.watch_namespaces:
            self._index.namespaces.synced.set()
            _log.info("namespaced mode: annotations of the Namespace are not read")
            return reflectors
        namespaces = Reflector(
            self._client,
            Selection(NAMESPACES, label_selector=settings.namespace_selector),
            type=Namespace,
            writer=StoreWriter(self._index.namespaces, _namespace_annotations),
        )
        return [*reflectors, namespaces]

    def _watch_rollouts(self) -> Iterator[OptionalKind]:
        """Watch Argo Rollouts while their kind exists, unless flags disable it."""
        defaults, store = self._settings.defaults, self._index.store("Rollout")
        if "Rollout" in defaults.dialect.ignored_workloads:
            store.synced.set()
        else:
            watched = _Watched("Rollout", Rollout, Transforms(defaults).rollout)
            yield self._watch_optional(watched, store)

    def _watch_provider_classes(self) -> Iterator[OptionalKind]:
        """Watch SecretProviderClasses and what pods have mounted of them, if flags enable it."""
        if PROVIDER_CLASS in self._settings.defaults.dialect.ignored_sources:
            return
        known, labels = self._index.provider_classes, self._settings.source_selector
        statuses = _Watched(MOUNTS, ProviderClassPodStatus, read_mounted_versions)
        yield self._watch_optional(statuses, known.statuses)
        classes = _Watched(PROVIDER_CLASS, ProviderClass, known.read_class, labels)
        yield self._watch_optional(classes, known.classes)

    def _watch_optional(self, watched: _Watched, store: Store[Any]) -> OptionalKind:
        return OptionalKind(
            self._client,
            BY_KIND[watched.kind],
            make=lambda: self._reflect(watched, store),
            store=store,
            supervisor=self._supervisor,
        )

    def _reflect(self, watched: _Watched, store: Store[Any]) -> list[Reflector[Any, Any]]:
        """Create the reflectors of a kind: one, or one for each configured namespace."""
        settings = self._settings
        if watched.kind not in (PROVIDER_CLASS, MOUNTS):  # a class is a source by its statuses
            self._watched[watched.kind] = watched
        return [
            Reflector(
                self._client,
                Selection(
                    BY_KIND[watched.kind],
                    namespace,
                    watched.label_selector,
                    _excluding_selector(settings.ignored_namespaces) if not namespace else "",
                ),
                type=watched.type,
                writer=StoreWriter(
                    store,
                    watched.transform,
                    key_of=_key_of,
                    transform_known=watched.transform,
                ),
            )
            for namespace in self.namespaces
        ]


def _together(parts: Sequence[ReflectorStatistics]) -> ReflectorStatistics:
    """Combine the watches of one resource: sums of counts, the worst of other values."""
    first = parts[0]
    return first._replace(
        connected=all(part.connected for part in parts),
        last_byte_age=max(part.last_byte_age for part in parts),
        lists=sum(part.lists for part in parts),
        watches=sum(part.watches for part in parts),
        events=sum(part.events for part in parts),
        bookmarks=sum(part.bookmarks for part in parts),
        silences=sum(part.silences for part in parts),
        errors=sum(part.errors for part in parts),
        unreadable=sum(part.unreadable for part in parts),
        refused=any(part.refused for part in parts),
        last_error=next((part.last_error for part in parts if part.last_error), ""),
    )


def _excluding_selector(namespaces: Sequence[str]) -> str:
    """Return the field selector that excludes some namespaces."""
    return ",".join(f"metadata.namespace!={name}" for name in namespaces)


def _key_of(value: Source | Consumer | ClassObject | MountedVersions) -> ObjectKey:
    return value.key


def _is_ours(secret: Secret) -> bool:
    """Return whether a Secret is our own; state is written every second."""
    return secret.type in _OUR_TYPES


def _namespace_annotations(item: Namespace) -> NamespaceAnnotations:
    metadata = item.metadata
    return NamespaceAnnotations(
        metadata.name,
        known_annotations(metadata.annotations),
        metadata.uid,
        terminating=metadata.deletion_timestamp is not None,
    )
