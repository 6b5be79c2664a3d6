"""The types of the built-in kinds: fields, JSON types, protobuf numbers, and how lists merge.

`api_types.json` is made from Kubernetes' Go modules by `tools/generate_api_types.py`. It is read
when it is first needed.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from hotmap.local.scheme import Kind

__all__ = ["METADATA", "APITypes", "Field", "api_types", "type_of", "type_of_kind"]

METADATA = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
DELETE_OPTIONS = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"


class Field(msgspec.Struct, frozen=True):
    """One field.

    `type` is `string`, `bool`, `int32`, `int64`, `bytes`, a named string such as
    `string v1.Protocol`, `#<name>` for a type of the table, `[]<element>`, `{}<value>` for a map
    with string keys, or `wrapped[]<element>` for a list that is a message of its own in protobuf.
    `enum` has the values that upstream documents for a string, or for the strings of a list.
    `number` is the way to it through inlined structs, empty where protobuf has no such field.
    """

    type: str
    number: tuple[int, ...] = ()
    pointer: bool = False
    omitempty: bool = False
    omitzero: bool = False
    required: bool = False
    default: str = ""
    patch_strategy: tuple[str, ...] = ()
    patch_merge_key: str = ""
    list_type: str = ""
    list_keys: tuple[str, ...] = ()
    map_type: str = ""
    enum: tuple[str, ...] = ()


class _KindType(msgspec.Struct, frozen=True):
    group: str
    version: str
    kind: str
    type: str


class APITypes(msgspec.Struct, frozen=True):
    """The whole table; `types` maps a type's name to its fields by their JSON names."""

    version: str
    kinds: tuple[_KindType, ...]
    atomic_types: frozenset[str]
    types: dict[str, dict[str, Field]]


@cache
def api_types() -> APITypes:
    """Read the table."""
    text = (Path(__file__).parent / "api_types.json").read_bytes()
    return msgspec.json.decode(text, type=APITypes)


@cache
def _by_kind() -> dict[tuple[str, str, str], str]:
    return {(known.group, known.version, known.kind): known.type for known in api_types().kinds}


def type_of_kind(api_version: str, kind: str) -> str | None:
    """Name the type of what an object says it is, None where the table does not know it."""
    group, _, version = api_version.rpartition("/")
    return _by_kind().get((group, version, kind))


def type_of(kind: Kind) -> str | None:
    """Name the type of a served kind's objects, None where the table does not know it."""
    return _by_kind().get((kind.group, kind.version, kind.kind))


def fields_of(kind: Kind) -> dict[str, Field] | None:
    """Return the fields of a served kind's objects, None where the table does not know them."""
    name = type_of(kind)
    return None if name is None else api_types().types[name]
