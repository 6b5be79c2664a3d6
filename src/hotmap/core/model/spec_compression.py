"""Compresses pod specs that are kept and hardly read: to half, in the time of two decodings."""

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

#: No header, and 4 KB to look back, with tables as small as that needs: setting up those that zlib
#: has by default takes longer than compressing.
_WINDOW_BITS, _MEMORY_LEVEL = -12, 5

#: What begins nothing in MessagePack begins what is compressed.
_COMPRESSED = b"\xc1"

#: Copied for each spec, as its begin is the same.
_begun = zlib.compressobj(1, zlib.DEFLATED, _WINDOW_BITS, _MEMORY_LEVEL, zlib.Z_FIXED, _FIELD_NAMES)


def compress_spec(spec: bytes) -> bytes:
    """Compress a pod spec encoded as MessagePack; equal ones are equal when compressed."""
    compressor = _begun.copy()
    return _COMPRESSED + compressor.compress(spec) + compressor.flush()


def decompress_spec(kept: bytes) -> bytes:
    """Return what `compress_spec` was given; what is not compressed is returned as it is."""
    if not kept.startswith(_COMPRESSED):
        return kept
    return zlib.decompressobj(_WINDOW_BITS, _FIELD_NAMES).decompress(kept[len(_COMPRESSED) :])
