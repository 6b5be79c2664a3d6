"""Volumes that consist of ConfigMaps only, and the digest of their desired content.

An agent in the pod compares its directories with these digests exactly; keyed fingerprints it can
only compare for equality. Only computed if the pod template announces an agent, which is the only
reader.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hotmap.core.errors import InvalidPayload
from hotmap.core.model.limits import check_volumes_size
from hotmap.core.model.objects import (
    ConfigMapProjection,
    ConfigMapVolume,
    ObjectKey,
    PodTemplate,
    Volume,
)
from hotmap.core.payload import (
    Item,
    Payload,
    clean_payload,
    configmap_payload,
    merge_payloads,
)
from hotmap.core.payload_digest import payload_digest

__all__ = ["ConfigVolume", "VolumeDigest", "find_config_volumes", "volume_digest"]


class _Part(NamedTuple):
    """One ConfigMap in a volume."""

    source: ObjectKey
    items: tuple[Item, ...]
    optional: bool


class ConfigVolume(NamedTuple):
    """A volume that consists of ConfigMaps only; for equal paths, the last part wins."""

    name: str
    parts: tuple[_Part, ...]

    def sources(self) -> tuple[ObjectKey, ...]:
        """Return its ConfigMaps."""
        return tuple(part.source for part in self.parts)


class VolumeDigest(NamedTuple):
    """The digest of a volume's desired content."""

    volume: str
    digest: str


def find_config_volumes(template: PodTemplate, namespace: str) -> tuple[ConfigVolume, ...]:
    """List the volumes of a pod template that consist of ConfigMaps only.

    Raises:
        LimitExceeded: their names and paths are too large to be kept.
    """
    found = (_config_volume(volume, namespace) for volume in template.spec.volumes or ())
    volumes = tuple(volume for volume in found if volume is not None)
    check_volumes_size(sum(map(_size, volumes)))
    return volumes


def _size(volume: ConfigVolume) -> int:
    """Count the characters of a volume's names and paths."""
    size = len(volume.name)
    for part in volume.parts:
        size += len(part.source.name)
        size += sum(len(item.key) + len(item.path) for item in part.items)
    return size


def _config_volume(volume: Volume, namespace: str) -> ConfigVolume | None:
    if volume.config_map:
        return ConfigVolume(volume.name, (_part(volume.config_map, namespace),))
    projections = (volume.projected.sources or ()) if volume.projected else ()
    parts = tuple(
        _part(projection.config_map, namespace)
        for projection in projections
        if projection.config_map
    )
    # Any other projection is a Secret, a token, or a property of the pod.
    return ConfigVolume(volume.name, parts) if parts and len(parts) == len(projections) else None


def _part(volume: ConfigMapVolume | ConfigMapProjection, namespace: str) -> _Part:
    return _Part(
        ObjectKey("ConfigMap", namespace, volume.name),
        tuple(Item(item.key, item.path) for item in volume.items or ()),
        bool(volume.optional),
    )


def volume_digest(
    volume: ConfigVolume, files: Mapping[ObjectKey, Mapping[str, bytes] | None]
) -> str | None:
    """Digest the desired content of a volume, given the file digests of its ConfigMaps' data keys.

    None means a ConfigMap that does not exist. Returns None if the kubelet would not project the
    volume: a required source or data key is missing, or a path is invalid.
    """
    payloads: list[Payload] = []
    try:
        for part in volume.parts:
            held = files[part.source]
            if held is None and not part.optional:
                return None
            # The rules concern paths; content is passed through.
            payload = configmap_payload(
                part.source.name, {}, held or {}, items=part.items, optional=part.optional
            )
            payloads.append(payload)
        merged = clean_payload(merge_payloads(payloads))
    except InvalidPayload:
        return None
    return payload_digest({path: file.data for path, file in merged.items()})
