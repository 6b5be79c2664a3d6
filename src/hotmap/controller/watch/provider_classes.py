"""Follows SecretProviderClasses: one source for each, from its object and its pods' statuses.

The statuses that the CSI driver writes for each pod are many and come one by one; the rules for
what they say of the class are in `core.model.provider_class`. Consumers, the history and the
records see a class as they see any other source.
"""

from __future__ import annotations

from collections.abc import Container

from hotmap.core.fingerprint import FingerprintKey
from hotmap.core.model.objects import ObjectKey, ProviderClass
from hotmap.core.model.provider_class import (
    ClassContent,
    ClassMounts,
    ClassObject,
    MountedVersions,
    class_source,
    describe_mounts,
    first_content,
    next_content,
    read_provider_class,
)
from hotmap.core.model.source import Source
from hotmap.core.reloader.annotations import DialectSettings
from hotmap.kube.store import Store

__all__ = ["ProviderClasses"]


class ProviderClasses:
    """The known SecretProviderClasses, and what pods have mounted of them.

    Invariant: a class has a source while its object exists; where the objects cannot be read, while
    a pod has mounted it. There are no sources of a namespace before its statuses were listed.
    """

    def __init__(self, sources: Store[Source], dialect: DialectSettings, *, parts: int) -> None:
        """`sources` is filled; `parts` is the number of separately watched namespaces."""
        self._sources = sources
        self._dialect = dialect
        self._keys: tuple[FingerprintKey, ...] = ()
        self._contents: dict[ObjectKey, ClassContent] = {}
        #: The statuses of each class; there may be one for each of thousands of pods.
        self._mounts: dict[ObjectKey, dict[ObjectKey, MountedVersions]] = {}
        #: What was described of a class since the last change of one of its statuses.
        self._described: dict[ObjectKey, ClassMounts] = {}
        self.statuses: Store[MountedVersions] = Store(parts=parts)
        self.classes: Store[ClassObject] = Store(parts=parts)
        #: The namespaces whose statuses, and whose classes, were listed; None: all.
        self._listed_statuses: set[str | None] = set()
        self._listed_classes: set[str | None] = set()
        self.statuses.subscribe(self._status_changed)
        self.classes.subscribe(self._class_changed)
        self.statuses.subscribe_lists(self._statuses_listed)
        self.classes.subscribe_lists(self._classes_listed)

    def use_keys(self, keys: tuple[FingerprintKey, ...]) -> None:
        """Fingerprint with other keys from now on."""
        self._keys = keys
        for key in list(self._sources):
            self._publish(key)

    def read_class(self, item: ProviderClass, _known: ClassObject | None = None) -> ClassObject:
        """Reduce a class to what is stored of it."""
        return read_provider_class(item, self._dialect)

    def is_complete(self, namespace: str) -> bool:
        """Return whether all classes of a namespace are known, and what pods have mounted."""
        return _has(self._listed_classes, namespace) and _has(self._listed_statuses, namespace)

    def mounts(self, key: ObjectKey) -> ClassMounts:
        """Describe what pods have mounted of a class."""
        described = self._described.get(key)
        if described is None:
            content = self._contents.get(key, ClassContent())
            mounts = self._mounts.get(key, {}).values()
            described = self._described[key] = describe_mounts(content, mounts)
        return described

    def _statuses_listed(self, namespace: str | None) -> None:
        self._listed_statuses.add(namespace)
        for key in {*self.classes, *self._mounts}:
            if namespace in (None, key.namespace) and key not in self._contents:
                self._contents[key] = first_content(self._mounts.get(key, {}).values())
                self._publish(key)
        self._sources.retain(self._sources.keys(), resource_version="", namespace=namespace)

    def _classes_listed(self, namespace: str | None) -> None:
        self._listed_classes.add(namespace)
        for key in list(self._sources):
            if namespace in (None, key.namespace) and key not in self.classes:
                self._publish(key)

    def _status_changed(
        self, key: ObjectKey, old: MountedVersions | None, new: MountedVersions | None
    ) -> None:
        if old is not None and (new is None or old.provider_class != new.provider_class):
            mounts = self._mounts[old.provider_class]
            del mounts[key]
            if not mounts:
                del self._mounts[old.provider_class]
            self._mounts_changed(old.provider_class, old, None)
            old = None
        if new is not None:
            self._mounts.setdefault(new.provider_class, {})[key] = new
            self._mounts_changed(new.provider_class, old, new)

    def _mounts_changed(
        self, key: ObjectKey, old: MountedVersions | None, new: MountedVersions | None
    ) -> None:
        self._described.pop(key, None)
        if not _has(self._listed_statuses, key.namespace):
            return
        mounts, known = self._mounts.get(key, {}).values(), self._contents.get(key)
        content = first_content(mounts) if known is None else next_content(known, old, new, mounts)
        self._contents[key] = content
        if content != known or not mounts:
            self._publish(key)

    def _class_changed(
        self, key: ObjectKey, old: ClassObject | None, new: ClassObject | None
    ) -> None:
        self._publish(key)

    def _publish(self, key: ObjectKey) -> None:
        """Store the source of a class, or drop it."""
        if not self._keys or not _has(self._listed_statuses, key.namespace):
            return
        found, is_mounted = self.classes.get(key), key in self._mounts
        if found is None and not is_mounted:
            self._contents.pop(key, None)
            self._described.pop(key, None)
        if found is None and (not is_mounted or _has(self._listed_classes, key.namespace)):
            self._sources.remove(key)
            return
        content = self._contents.setdefault(key, ClassContent())
        self._sources.put(key, class_source(key, content, found, self._keys, self._dialect))


def _has(listed: Container[str | None], namespace: str) -> bool:
    return None in listed or namespace in listed
