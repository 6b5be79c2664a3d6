"""The part of the answer to a write that is read: the version of the object."""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = ["METADATA", "Written"]

#: The Accept header for metadata alone; a server that does not know the form sends whole objects.
METADATA: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"


class _Version(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    generation: int = 0


class Written(msgspec.Struct):
    """An object without its content; as a type of `Client`, the server sends no more than that."""

    metadata: _Version
