"""Objects without their content, where only their version or annotations are read.

`Client` asks for them by the type `PartialObjectMetadata`; `metadata` has lists of them.
"""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = ["ACCEPT_METADATA", "PartialObjectMetadata"]

#: The Accept header for metadata alone; a server that does not know the form sends whole objects.
ACCEPT_METADATA: Final = (
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
)


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    generation: int = 0
    #: Admission may have changed what was written.
    annotations: dict[str, str] | None = None


class PartialObjectMetadata(msgspec.Struct):
    """What hotmap reads of the metadata of one object (apimachinery: meta/v1, of the same name)."""

    metadata: _Metadata
