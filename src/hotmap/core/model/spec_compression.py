"""Compresses the pod specs that are kept: to half, in a tenth of the time to read a workload."""

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

#: The names of the fields, which are half of a pod spec. Those that most specs have come last: the
#: search for them begins at the end.
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

#: No header, 2 KB to look back, and small tables: with the largest, most of the time is for setting
#: them up.
_WINDOW_BITS, _MEMORY_LEVEL, _LEVEL = -11, 2, 1


def compress_spec(spec: bytes) -> bytes:
    """Compress a pod spec encoded as MessagePack; equal ones are equal when compressed."""
    compressor = zlib.compressobj(
        _LEVEL,
        zlib.DEFLATED,
        _WINDOW_BITS,
        _MEMORY_LEVEL,
        zlib.Z_DEFAULT_STRATEGY,
        _FIELD_NAMES,
    )
    return compressor.compress(spec) + compressor.flush()


def decompress_spec(compressed: bytes) -> bytes:
    """Return what `compress_spec` was given."""
    return zlib.decompressobj(_WINDOW_BITS, _FIELD_NAMES).decompress(compressed)
