"""The part of the answer to a write that is read: the version and annotations of the object."""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = ["METADATA", "Written"]

#: The Accept header for metadata alone; a server that does not know the form sends whole objects.
METADATA: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    generation: int = 0
    #: Admission may have changed what was written.
    annotations: dict[str, str] | None = None


class Written(msgspec.Struct):
    """An object without its content; as a type of `Client`, the server sends no more than that."""

    metadata: _Metadata
