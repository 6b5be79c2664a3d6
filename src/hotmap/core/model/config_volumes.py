"""Volumes that are made of ConfigMaps alone, and the digest of what each of them is to hold.

An agent in the pod compares its directories with these digests exactly; the keyed fingerprints
beside them it can only tell apart. Looked for where an agent is announced in the pod template,
and nowhere else: nobody else would read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hotmap.core.errors import InvalidPayload
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

__all__ = ["ConfigVolume", "find_config_volumes", "volume_digest"]


class _Part(NamedTuple):
    """One ConfigMap in a volume."""

    source: ObjectKey
    items: tuple[Item, ...]
    optional: bool


class ConfigVolume(NamedTuple):
    """A volume with nothing but ConfigMaps in it; of one path, the last part's file is there."""

    parts: tuple[_Part, ...]

    def sources(self) -> tuple[ObjectKey, ...]:
        """Name the ConfigMaps that it is made of."""
        return tuple(part.source for part in self.parts)


def find_config_volumes(template: PodTemplate, namespace: str) -> tuple[ConfigVolume, ...]:
    """List the volumes of a pod template that are made of ConfigMaps alone."""
    found = (_config_volume(volume, namespace) for volume in template.spec.volumes or ())
    return tuple(volume for volume in found if volume is not None)


def _config_volume(volume: Volume, namespace: str) -> ConfigVolume | None:
    if volume.config_map:
        return ConfigVolume((_part(volume.config_map, namespace),))
    projections = (volume.projected.sources or ()) if volume.projected else ()
    parts = tuple(_part(one.config_map, namespace) for one in projections if one.config_map)
    # A projection that is none of a ConfigMap is a Secret, a token, or another thing of the pod's.
    return ConfigVolume(parts) if parts and len(parts) == len(projections) else None


def _part(volume: ConfigMapVolume | ConfigMapProjection, namespace: str) -> _Part:
    return _Part(
        ObjectKey("ConfigMap", namespace, volume.name),
        tuple(Item(item.key, item.path) for item in volume.items or ()),
        bool(volume.optional),
    )


def volume_digest(
    volume: ConfigVolume, files: Mapping[ObjectKey, Mapping[str, bytes] | None]
) -> str | None:
    """Digest what a volume is to hold, given the file digest of each data key of its ConfigMaps.

    None stands for a ConfigMap that does not exist. None is returned where the kubelet would not
    project the volume: something is missing that is not optional, or a path may not be.
    """
    payloads: list[Payload] = []
    try:
        for part in volume.parts:
            held = files[part.source]
            if held is None and not part.optional:
                return None
            # The rules are about paths; what a file holds goes through them as it is.
            payload = configmap_payload(
                part.source.name, {}, held or {}, items=part.items, optional=part.optional
            )
            payloads.append(payload)
        merged = clean_payload(merge_payloads(payloads))
    except InvalidPayload:
        return None
    return payload_digest({path: file.data for path, file in merged.items()})
