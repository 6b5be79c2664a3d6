"""Compresses pod specs that are kept but rarely read, to about half of their size."""

from __future__ import annotations

import zlib

import msgspec

from hotmap.core.model.objects import (
    CSI,
    ConfigMapKeySelector,
    ConfigMapVolume,
    Container,
    EnvFromSource,
    EnvVar,
    EnvVarSource,
    KeyToPath,
    LocalRef,
    PodSpec,
    Projected,
    ProjectedSource,
    SecretVolume,
    StorageDriver,
    Volume,
    VolumeMount,
)

__all__ = ["compress_spec", "decompress_spec"]

#: The names of the fields, which are half of a pod spec. Those that most specs have come last,
#: where zlib finds them first.
_FIELD_NAMES = b"".join(
    msgspec.msgpack.encode(name)
    for part in (
        StorageDriver,
        CSI,
        LocalRef,
        Projected,
        ProjectedSource,
        SecretVolume,
        ConfigMapVolume,
        KeyToPath,
        Volume,
        PodSpec,
        VolumeMount,
        EnvFromSource,
        ConfigMapKeySelector,
        EnvVarSource,
        EnvVar,
        Container,
    )
    for name in part.__struct_encode_fields__
)

#: No header, a window of 4 KB, and tables of a matching size: setting up zlib's default tables
#: takes longer than compressing.
_WINDOW_BITS, _MEMORY_LEVEL = -12, 5

#: The first byte of a compressed spec. MessagePack does not use it.
_COMPRESSED = b"\xc1"

#: A compressor that has read the field names; each spec is compressed by a copy of it.
_prepared = zlib.compressobj(
    1, zlib.DEFLATED, _WINDOW_BITS, _MEMORY_LEVEL, zlib.Z_FIXED, _FIELD_NAMES
)


def compress_spec(spec: bytes) -> bytes:
    """Compress a pod spec encoded as MessagePack; equal ones are equal when compressed."""
    compressor = _prepared.copy()
    return _COMPRESSED + compressor.compress(spec) + compressor.flush()


def decompress_spec(kept: bytes) -> bytes:
    """Return what `compress_spec` was given; what is not compressed is returned as it is."""
    if not kept.startswith(_COMPRESSED):
        return kept
    return zlib.decompressobj(_WINDOW_BITS, _FIELD_NAMES).decompress(kept[len(_COMPRESSED) :])
