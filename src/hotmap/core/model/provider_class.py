"""The content of a SecretProviderClass, as far as the mounts of its pods show it.

A class names objects of an external secret store; no API shows their current versions. Its CSI
driver reports for each pod which versions it has written into the pod's volume: when it mounts the
volume, and when it later finds other versions there (rotation, which is optional). Each node polls
by itself, so during a rotation pods differ for minutes. The rules:

    an update of a pod's versions       → those objects have these versions now; other objects of
                                          the class stay as they are, since this pod may have read
                                          them earlier than others
    an update to what is known already  → a pod that was behind: nothing. A pod that was mounted
                                          after that content was: its process has read other
                                          content, so a change, although the versions are the same
    an update from one earlier version  → a pod that is still behind: nothing, while a pod with the
    to another                            newer version shows that it is not the store that went
                                          back
    a new pod with other versions       → nothing while a pod has the known ones: stores may hand
                                          out other versions to each pod, and then a rollout would
                                          cause the next one. Once no pod has them, what all pods
                                          mounted since then agree on
    a pod that ends                     → nothing, but see above
    first sight                         → the versions of the latest update; without one, what all
                                          pods agree on; else unknown

Versions are those of the driver's provider: an opaque text for each object.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

from hotmap.core.fingerprint import FingerprintKey
from hotmap.core.model.annotations import known_annotations
from hotmap.core.model.objects import ObjectKey, ObjectMeta, ProviderClass, ProviderClassPodStatus
from hotmap.core.model.references import LONGEST_NAME
from hotmap.core.model.source import Source, make_marks, parse_time
from hotmap.core.reloader.annotations import DEFAULT_SETTINGS, DialectSettings, Writing
from hotmap.core.reloader.patch import digest_of
from hotmap.core.resource_version import version_number
from hotmap.core.text import printable

__all__ = [
    "MOUNTS",
    "PROVIDER_CLASS",
    "ClassContent",
    "ClassMounts",
    "ClassObject",
    "MountedPod",
    "MountedVersions",
    "class_source",
    "describe_mounts",
    "first_content",
    "next_content",
    "read_mounted_versions",
    "read_provider_class",
]

#: The kind of these sources.
PROVIDER_CLASS = "SecretProviderClass"

#: The kind of the statuses that show what a pod has mounted.
MOUNTS = "SecretProviderClassPodStatus"

#: (object ID, version) of each object of a class, sorted.
Versions = tuple[tuple[str, str], ...]

#: Characters of all object IDs and versions of one status, and their number.
_MAX_SIZE = 64 * 1024
_MAX_OBJECTS = 1000

#: Superseded versions that are remembered for a class.
_SUPERSEDED = 256


class MountedVersions(msgspec.Struct, frozen=True, gc=False):
    """The versions in one pod's volume of a class, from a SecretProviderClassPodStatus."""

    #: Of the status itself.
    key: ObjectKey
    uid: str
    #: The class, and the pod by name and uid.
    provider_class: ObjectKey
    pod: str
    owner: str
    versions: Versions
    #: The resourceVersions by which they were mounted and last written, as far as it was observed.
    mounted: int
    written: int
    #: When the status had these versions, POSIX seconds of the API server; None: unknown.
    written_at: float | None
    #: Whether they were updated after they were mounted.
    updated: bool = False


class ClassContent(NamedTuple):
    """The known content of one class; the initial value is that nothing is known."""

    #: None: unknown.
    versions: Versions | None = None
    #: Tells two contents with the same versions apart; "" mostly.
    serial: str = ""
    #: The resourceVersion of the status that showed it, which later mounts exceed.
    since: int = 0
    #: When that was written, POSIX seconds of the API server; None: unknown.
    changed_at: float | None = None
    #: Whether an update showed it, and not the mount of a new pod.
    by_update: bool = False
    #: Earlier versions of its objects, oldest first.
    superseded: tuple[tuple[str, str], ...] = ()


class MountedPod(NamedTuple):
    """What one pod has mounted of a class."""

    pod: str
    #: Whether these are the class's versions.
    current: bool
    #: Whether they were updated after the mount: its containers may have read other versions.
    updated: bool = False
    #: When that was, POSIX seconds of the API server; None: unknown.
    updated_at: float | None = None


class ClassMounts(NamedTuple):
    """What the pods have mounted of a class."""

    #: Whether the class's versions are known at all.
    is_known: bool = False
    #: Whether an update showed them, and not the mount of a new pod.
    by_update: bool = False
    #: Sorted by name.
    pods: tuple[MountedPod, ...] = ()

    def of_pod(self, name: str) -> MountedPod | None:
        """Return what a pod has mounted; None: that is not reported."""
        at = bisect_left(self.pods, name, key=_pod)
        return self.pods[at] if at < len(self.pods) and self.pods[at].pod == name else None


# -- one status ------------------------------------------------------------------------------------


def read_mounted_versions(
    item: ProviderClassPodStatus, known: MountedVersions | None = None
) -> MountedVersions | None:
    """Reduce a status to its versions; `known` is its earlier value. None: it names no class.

    A status of the same name is used again for a pod of the same name (a StatefulSet's); its owner
    tells whether the versions were updated or mounted.

    Raises:
        msgspec.ValidationError: it has more objects, or longer texts, than are read.
    """
    metadata, status = item.metadata, item.status
    if not status.secret_provider_class_name:
        return None
    name = printable(status.secret_provider_class_name, LONGEST_NAME)
    pod = next((o for o in metadata.owner_references or () if o.kind == "Pod"), None)
    owner = pod.uid if pod else metadata.uid
    versions = _versions(item)
    written = version_number(metadata.resource_version)
    if known is not None and known.owner != owner:
        updated, mounted = False, written
    elif known is None:
        updated, mounted = _was_updated(metadata), written
    elif known.versions == versions:
        return msgspec.structs.replace(known, uid=metadata.uid)
    else:
        updated, mounted = True, known.mounted
    return MountedVersions(
        key=known.key if known else ObjectKey(MOUNTS, metadata.namespace, metadata.name),
        uid=metadata.uid,
        provider_class=ObjectKey(PROVIDER_CLASS, metadata.namespace, name),
        pod=printable(status.pod_name or (pod.name if pod else ""), LONGEST_NAME),
        owner=owner,
        versions=versions,
        mounted=mounted,
        written=written,
        written_at=_written_at(metadata, updated=updated),
        updated=updated,
    )


def _versions(item: ProviderClassPodStatus) -> Versions:
    objects = item.status.objects or []
    if len(objects) > _MAX_OBJECTS:
        raise msgspec.ValidationError(f"more than {_MAX_OBJECTS:,} objects")
    if sum(len(each.id) + len(each.version) for each in objects) > _MAX_SIZE:
        raise msgspec.ValidationError(f"IDs and versions of more than {_MAX_SIZE:,} characters")
    return _shared(tuple(sorted({each.id: each.version for each in objects}.items())))


@lru_cache(maxsize=1024)
def _shared(versions: Versions) -> Versions:
    """Return a shared equal value: the pods of a class mostly have the same versions."""
    return versions


def _written_at(metadata: ObjectMeta, *, updated: bool) -> float | None:
    """Return when the status got its versions: the newest write by a manager of its content.

    Others may annotate it, which is not an update.
    """
    entries = metadata.managed_fields or ()
    of_content = [entry for entry in entries if b'"f:status"' in bytes(entry.fields_v1)]
    times = [parse_time(entry.time) for entry in of_content or entries]
    created = None if updated else parse_time(metadata.creation_timestamp)
    return max((at for at in times if at is not None), default=created)


def _was_updated(metadata: ObjectMeta) -> bool:
    """Return whether a new status was updated since its creation.

    Its definition has no subresource, so each change but one of metadata has another generation
    (kubernetes: apiextensions-apiserver/pkg/registry/customresource/strategy.go).
    """
    return metadata.generation > 1


# -- the content of a class ------------------------------------------------------------------------


def first_content(mounts: Collection[MountedVersions]) -> ClassContent:
    """Determine the content of a class from the statuses of all its pods at first sight.

    If a pod mounted other versions after the last update, there was a later update whose pods have
    ended, or the pod has versions of its own: then nothing is known.
    """
    updated = [mount for mount in mounts if mount.updated]
    if updated:
        newest = max(updated, key=_order)
        later = [mount for mount in mounts if _order(mount) > _order(newest)]
        if all(mount.versions == newest.versions for mount in later):
            return ClassContent(
                newest.versions, "", newest.written, newest.written_at, by_update=True
            )
    latest = max((mount.written for mount in mounts), default=0)
    if len({mount.versions for mount in mounts}) == 1:
        times = [mount.written_at for mount in mounts if mount.written_at is not None]
        (versions,) = {mount.versions for mount in mounts}
        return ClassContent(versions, "", latest, min(times, default=None))
    return ClassContent(since=latest)


def _order(mount: MountedVersions) -> tuple[float, int]:
    """Order statuses by when they had their versions."""
    return mount.written_at or 0.0, mount.written


def next_content(
    known: ClassContent,
    old: MountedVersions | None,
    new: MountedVersions | None,
    mounts: Collection[MountedVersions],
) -> ClassContent:
    """Determine the content of a class after the status of one pod has changed.

    `mounts` are the statuses of all its pods after that change.
    """
    if old is not None and new is not None and old.owner == new.owner:
        return known if old.versions == new.versions else _after_update(known, old, new, mounts)
    return _after_mount(known, mounts)


def _after_update(
    known: ClassContent,
    old: MountedVersions,
    new: MountedVersions,
    mounts: Collection[MountedVersions],
) -> ClassContent:
    if known.versions is None:
        return ClassContent(new.versions, "", new.written, new.written_at, by_update=True)
    before, after, versions = dict(old.versions), dict(new.versions), dict(known.versions)
    for name in before.keys() | after.keys():
        if before.get(name) == after.get(name) or _is_behind(known, name, before, after, mounts):
            continue
        if name in after:
            versions[name] = after[name]
        else:
            versions.pop(name, None)
    changed = tuple(sorted(versions.items()))
    if changed != known.versions:
        return ClassContent(
            _shared(changed),
            "",
            new.written,
            new.written_at,
            by_update=True,
            superseded=_superseded(known, versions),
        )
    was_behind = new.mounted <= known.since or new.versions != known.versions
    if was_behind:
        return known
    return known._replace(
        serial=str(new.written), since=new.written, changed_at=new.written_at, by_update=True
    )


def _is_behind(
    known: ClassContent,
    name: str,
    before: Mapping[str, str],
    after: Mapping[str, str],
    mounts: Collection[MountedVersions],
) -> bool:
    """Return whether an object went from one superseded version to another."""
    if not {(name, before.get(name)), (name, after.get(name))} <= set(known.superseded):
        return False
    current = (name, dict(known.versions or ()).get(name))
    return any(current in mount.versions for mount in mounts)


def _superseded(known: ClassContent, versions: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    current = set(versions.items())
    gone = [version for version in known.versions or () if version not in current]
    kept = [
        version for version in known.superseded if version not in current and version not in gone
    ]
    return (*kept, *gone)[-_SUPERSEDED:]


def _after_mount(known: ClassContent, mounts: Collection[MountedVersions]) -> ClassContent:
    """Determine the content after a pod has mounted the class, or has ended."""
    if any(mount.versions == known.versions for mount in mounts):
        return known
    if known.versions is None:
        later = list(mounts)
    else:
        later = [mount for mount in mounts if mount.mounted > known.since]
    if len({mount.versions for mount in later}) != 1:
        return known
    newest = max(later, key=lambda mount: mount.written)
    if newest.written < known.since:
        return known  # the pods with the latest versions have ended
    return ClassContent(
        newest.versions,
        "",
        newest.written,
        newest.written_at,
        superseded=_superseded(known, dict(newest.versions)),
    )


class ClassObject(msgspec.Struct, frozen=True, gc=False):
    """What is kept of a SecretProviderClass itself."""

    key: ObjectKey
    uid: str
    #: The annotations that hotmap reads, or None.
    annotations: dict[str, str] | None


def read_provider_class(item: ProviderClass, dialect: DialectSettings) -> ClassObject:
    """Reduce a SecretProviderClass to its annotations."""
    metadata = item.metadata
    return ClassObject(
        ObjectKey(PROVIDER_CLASS, metadata.namespace, metadata.name),
        metadata.uid,
        known_annotations(metadata.annotations, dialect.names) or None,
    )


def class_source(
    key: ObjectKey,
    content: ClassContent,
    found: ClassObject | None,
    keys: Sequence[FingerprintKey],
    dialect: DialectSettings = DEFAULT_SETTINGS,
) -> Source:
    """Describe a class as a source, whose data keys are its objects.

    `found` is None where classes may not be read, and only the statuses of pods are.
    """
    return Source(
        key=key,
        uid=found.uid if found else PROVIDER_CLASS,
        resource_version=str(content.since),
        immutable=False,
        changed_at=content.changed_at,
        marks=make_marks(key, _values(content), keys),
        annotations=found.annotations if found else None,
        stamp="" if dialect.writing is Writing.REVISION else _digest(key, content),
    )


def _values(content: ClassContent) -> list[tuple[str, bool, bytes]]:
    """Return the objects of a class as data keys; IDs are shortened, and part of the values too."""
    values: dict[str, bytes] = {}
    for object_id, version in content.versions or ():
        name = shown = printable(object_id, LONGEST_NAME)
        while name in values:
            name = f"{shown}#{len(values)}"
        texts = [text.encode() for text in (object_id, version, content.serial)]
        values[name] = b"".join(len(text).to_bytes(4, "big") + text for text in texts)
    return sorted((name, False, value) for name, value in values.items())


def _digest(key: ObjectKey, content: ClassContent) -> str:
    """Digest a status of a class as Reloader does: each `ID=version`, and the name of the class.

    stakater/Reloader 1.4.21: internal/pkg/util/util.go GetSHAfromSecretProviderClassPodStatus.
    """
    if content.versions is None:
        return ""
    objects = [(object_id.encode(), version.encode()) for object_id, version in content.versions]
    return digest_of([*objects, (b"SecretProviderClassName", key.name.encode())])


def describe_mounts(content: ClassContent, mounts: Collection[MountedVersions]) -> ClassMounts:
    """Describe what each pod has mounted of a class, in the order of their names."""
    pods = (
        MountedPod(
            mount.pod,
            mount.versions == content.versions,
            mount.updated,
            mount.written_at if mount.updated else None,
        )
        for mount in mounts
    )
    is_known = content.versions is not None
    return ClassMounts(is_known, content.by_update, tuple(sorted(pods, key=_pod)))


def _pod(mounted: MountedPod) -> str:
    return mounted.pod
