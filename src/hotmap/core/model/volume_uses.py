"""What the volumes of a pod bring in, and what the mounts of one container use of it."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from hotmap.core.model.environment_uses import Environment
from hotmap.core.model.limits import StepCounter
from hotmap.core.model.objects import (
    Container,
    KeyToPath,
    ObjectKey,
    ProjectedSource,
    Volume,
    VolumeMount,
)
from hotmap.core.model.references import (
    EVERY_KEY,
    LONGEST_NAME,
    NO_KEYS,
    Keys,
    Override,
    Use,
    UseKind,
    share_keys,
    source_key,
)
from hotmap.core.text import printable

__all__ = ["MountableVolume", "brings_source", "mount_uses", "mounted_class", "volume_sources"]


#: The volume with a token and the cluster's certificates that admission adds to every pod
#: (kubernetes: plugin/pkg/admission/serviceaccount); it is in no template.
_API_ACCESS = "kube-api-access-"
_CLUSTER_CERTIFICATES = ("kube-root-ca.crt", "openshift-service-ca.crt")

#: Later sources of a volume that are compared with one, as for envFrom.
_OVERRIDES = 8


class _Projected(NamedTuple):
    """The files that one source adds to a volume."""

    source: ObjectKey
    keys: Keys
    #: (path with a slash at its end, data key) of each item; None: each data key is a file.
    files: tuple[tuple[str, str], ...] | None
    optional: bool
    #: Later sources of the same volume, whose files replace those of this one.
    overrides: tuple[Override, ...] = ()

    def keys_below(self, path: str | None) -> Keys:
        """Select the data keys whose file is, or lies below, a path inside the volume.

        The path is as `_path_in_volume` returns it. Paths are compared by whole elements.
        """
        if path is None:
            return self.keys
        if self.files is None:
            return (
                NO_KEYS
                if "/" in path
                else share_keys(Keys(frozenset((printable(path, LONGEST_NAME),))))
            )
        below = path + "/"
        keys = [key for file, key in self.files if file.startswith(below)]
        return share_keys(Keys(frozenset(keys))) if keys else NO_KEYS


def _path_in_volume(sub_path: str | None) -> str | None:
    """Return the part of a volume that a subPath selects, or None if it may be all of it.

    `sub_path` None means that the path depends on content.
    """
    if sub_path is None:
        return None
    path = posixpath.normpath(sub_path)
    return None if path in (".", "..data") else path.removeprefix("..data/")


class MountableVolume:
    """A volume with sources in it, prepared once for all of its mounts."""

    def __init__(self, volume: Volume, namespace: str) -> None:
        self.name = printable(volume.name, LONGEST_NAME)
        #: The files of its sources, each once.
        self.projected: Collection[_Projected] = dict.fromkeys(_projected(volume, namespace))
        #: The SecretProviderClass that fills it, if any.
        name = mounted_class(volume)
        self.provider = source_key("SecretProviderClass", namespace, name) if name else None


def mounted_class(volume: Volume) -> str:
    """Return the name of the SecretProviderClass that fills a volume, or ""."""
    if not (volume.csi and volume.csi.volume_attributes):
        return ""
    return volume.csi.volume_attributes.get("secretProviderClass", "")


def brings_source(volume: Volume) -> bool:
    """Return whether a volume has sources, unlike emptyDirs, claims and host paths."""
    return bool(volume.config_map or volume.secret or volume.projected or volume.csi)


def volume_sources(volume: Volume) -> Iterator[tuple[str, str]]:
    """List the ConfigMaps and Secrets that the manifest names in a volume: (kind, name)."""
    if volume.config_map:
        yield "ConfigMap", volume.config_map.name
    if volume.secret:
        yield "Secret", volume.secret.secret_name
    for projection in _projections(volume):
        if projection.config_map:
            yield "ConfigMap", projection.config_map.name
        if projection.secret:
            yield "Secret", projection.secret.name


def _projections(volume: Volume) -> Sequence[ProjectedSource]:
    sources = (volume.projected.sources or ()) if volume.projected else ()
    if not volume.name.startswith(_API_ACCESS):
        return sources
    return [
        each
        for each in sources
        if each.config_map is None or each.config_map.name not in _CLUSTER_CERTIFICATES
    ]


def _projected(volume: Volume, namespace: str) -> Iterator[_Projected]:
    if part := volume.config_map:
        source = source_key("ConfigMap", namespace, part.name)
        yield _with_items(source, part.items, part.optional)
    if secret := volume.secret:
        source = source_key("Secret", namespace, secret.secret_name)
        yield _with_items(source, secret.items, secret.optional)
    parts = []
    for projection in _projections(volume):
        for kind, each in (("ConfigMap", projection.config_map), ("Secret", projection.secret)):
            if each is not None:
                source = source_key(kind, namespace, each.name)
                parts.append(_with_items(source, each.items, each.optional))
    for number, projected in enumerate(parts):
        yield _without_replaced(projected, parts[number + 1 : number + 1 + _OVERRIDES])


def _without_replaced(part: _Projected, later: Sequence[_Projected]) -> _Projected:
    """Leave out the files of a source that later ones of its volume replace.

    Later sources win (kubernetes: pkg/volume/projected). Only data keys that are files by
    themselves are compared: the API server refuses two items of one path. What a required item
    replaces is certain, and what a whole source replaces depends on its data keys.
    """
    if part.files is not None or any(each.source == part.source for each in later):
        return part
    hidden = {
        printable(path[:-1], LONGEST_NAME)
        for each in later
        if not each.optional
        for path, _ in each.files or ()
        if path.count("/") == 1
    }
    return part._replace(
        keys=share_keys(Keys(hidden=frozenset(hidden))) if hidden else part.keys,
        overrides=tuple(sorted({Override(each.source) for each in later if each.files is None})),
    )


def _with_items(
    source: ObjectKey, items: Sequence[KeyToPath] | None, optional: bool | None
) -> _Projected:
    if not items:
        return _Projected(source, EVERY_KEY, None, bool(optional))
    named = [(item.path, printable(item.key, LONGEST_NAME)) for item in items]
    return _Projected(
        source,
        share_keys(Keys(frozenset([key for _, key in named]))),
        tuple([(posixpath.normpath(path) + "/", key) for path, key in named]),
        bool(optional),
    )


def mount_uses(
    container: Container,
    place: str,
    volumes: Mapping[str, MountableVolume],
    steps: StepCounter,
    *,
    init: bool,
) -> Iterator[Use]:
    environment: Environment | None = None
    reader = printable(container.name, LONGEST_NAME)
    for mount, count in _different_mounts(container.volume_mounts or (), volumes):
        volume = volumes[mount.name]
        at = f"volumes[{volume.name}] at {place}:{printable(mount.mount_path, LONGEST_NAME)}"
        if count > 1:
            at += f" (and {count - 1} more)"
        by_path = mount.sub_path or mount.sub_path_expr
        if by_path:
            sub_path: str | None = mount.sub_path
            if not sub_path:
                environment = environment or Environment(container, steps)
                sub_path = environment.literal_path(mount.sub_path_expr)
            # A subPath of "." binds the volume's own directory, where the swap is visible.
            whole = sub_path is not None and posixpath.normpath(sub_path) == "."
            kind = UseKind.LIVE if whole and not init else UseKind.FROZEN
            where = f"{at} (subPath {printable(by_path, LONGEST_NAME)})"
        else:
            sub_path = None
            kind = UseKind.FROZEN if init else UseKind.LIVE
            where = at
        path = _path_in_volume(sub_path)
        for item in volume.projected:
            steps.add(1 + len(item.files or ()) if by_path else 1)
            keys = item.keys_below(path)
            if keys.names is None or keys.names:
                overrides = item.overrides if path is None else ()
                yield Use(item.source, kind, keys, where, item.optional, init, reader, overrides)
        if volume.provider:
            pinned = by_path and path is not None
            kind = UseKind.FROZEN if pinned else UseKind.FOREIGN
            yield Use(volume.provider, kind, EVERY_KEY, where, container=reader, init=init)


def _different_mounts(
    mounts: Iterable[VolumeMount], volumes: Collection[str]
) -> Iterable[tuple[VolumeMount, int]]:
    """List the first mount of each part of some volumes, and how often that part is mounted."""
    different: dict[tuple[str, str, str], tuple[VolumeMount, int]] = {}
    for mount in mounts:
        if mount.name in volumes:
            part = mount.name, mount.sub_path, mount.sub_path_expr
            first, count = different.get(part, (mount, 0))
            different[part] = first, count + 1
    return different.values()
