"""Digests the desired content of ConfigMap volumes, for agents that compare it exactly.

The stores have keyed marks and no values, so a ConfigMap is read again: one list of one object for
each of its versions, independent of the number of consumers, and only for consumers whose pod
template announces an agent. Only digests are kept.
"""

from __future__ import annotations

import asyncio
import logging
from base64 import b64decode
from collections.abc import Mapping

from hotmap.core.errors import ApiError, Unreachable
from hotmap.core.model.config_volumes import VolumeDigest, volume_digest
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ConfigMap, ObjectKey
from hotmap.core.model.source import Source
from hotmap.core.payload_digest import file_digest
from hotmap.kube.bounded_dict import put_latest
from hotmap.kube.client import Client
from hotmap.kube.resources import CONFIGMAPS
from hotmap.kube.store import Store

__all__ = ["PayloadDigests"]

#: Versions of ConfigMaps whose digests are kept, for the changes in progress.
_KEPT = 256

_log = logging.getLogger(__name__)

FileDigests = Mapping[str, bytes]


class PayloadDigests:
    """Digests of the volumes of consumers with an agent, for one controller."""

    def __init__(self, client: Client, config_maps: Store[Source] | None) -> None:
        self._client = client
        #: None: ConfigMaps are not watched.
        self._config_maps = config_maps
        self._read: dict[tuple[ObjectKey, str], FileDigests] = {}
        self._reading = asyncio.Lock()

    async def digests(self, consumer: Consumer) -> tuple[VolumeDigest, ...]:
        """Digest the desired content of each ConfigMap volume of a consumer.

        A volume is left out if it could not be projected, or if a ConfigMap changed or could not be
        read: the next nudge has it, and until then the agent compares by order.
        """
        digests = []
        for volume in consumer.config_volumes:
            try:
                files = {source: await self._files(source) for source in volume.sources()}
            except (ApiError, Unreachable, _SourceModified) as error:
                _log.debug("%s: no payload digest: %s", consumer.key, error)
                continue
            if (digest := volume_digest(volume, files)) is not None:
                digests.append(VolumeDigest(volume.name, digest))
        return tuple(digests)

    async def _files(self, key: ObjectKey) -> FileDigests | None:
        """Digest each data key of a ConfigMap in the version that the store has."""
        source = self._config_maps.get(key) if self._config_maps is not None else None
        if source is None:
            return None
        version = (key, source.resource_version)
        async with self._reading:
            digests = self._read.get(version)
            if digests is None:
                digests = await self._read_version(key, source.resource_version)
            put_latest(self._read, version, digests, most=_KEPT)
            return digests

    async def _read_version(self, key: ObjectKey, resource_version: str) -> FileDigests:
        page = await self._client.list_page(
            CONFIGMAPS,
            key.namespace,
            type=ConfigMap,
            field_selector=f"metadata.name={key.name}",
            resource_version=resource_version,
            resource_version_match="NotOlderThan",
        )
        for item in page.items:
            if item.metadata.resource_version == resource_version:
                return _file_digests(item)
        raise _SourceModified(f"{key} was modified after resourceVersion {resource_version}")


class _SourceModified(Exception):
    """Raised when the store is behind: the version in it can no longer be read."""


def _file_digests(item: ConfigMap) -> FileDigests:
    binary = {name: b64decode(text) for name, text in (item.binary_data or {}).items()}
    values = binary | {name: text.encode() for name, text in (item.data or {}).items()}
    return {name: file_digest(value) for name, value in values.items()}
