"""Objects in other forms: rows for people, as `kubectl get` asks for them, and metadata alone.

The columns of a kind belong to its strategy; a kind without any shows its name and when it was
created.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from hotmap.local.apiserver.columns import CREATED_AT, NAME
from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hotmap.local.scheme import Kind
    from hotmap.local.strategy import Column

_GENERIC = (NAME, CREATED_AT)
_PARTIAL = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}


def table(kind: Kind, objects: Sequence[JsonObject], *, now: float, include: str) -> JsonObject:
    """Show objects of one kind as a Table.

    `include` says what each row carries beside its cells: "Metadata", "Object" or "None".
    `now` is POSIX seconds.
    """
    columns = kind.strategy.columns or _GENERIC
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {},
        "columnDefinitions": [_definition(column) for column in columns],
        "rows": [_row(kind, obj, now, include) for obj in objects],
    }


def bookmark_table(kind: Kind, obj: JsonObject, *, now: float, include: str) -> JsonObject:
    """Show a bookmark as a Table: the row of an object without content.

    The object of the row says that the initial events end, so it is not left out then.
    """
    shown = table(kind, [], now=now, include=include)
    row = _row(kind, {"spec": {}, "status": {}, **obj}, now, include)
    if include == "Object":
        row["object"] = obj
    elif include == "None" and "annotations" in obj["metadata"]:
        row["object"] = partial_metadata(kind, obj)
    return {**shown, "rows": [row]}


def row_encoder(kind: Kind, now: float, include: str) -> Callable[[bytes], bytes]:
    """Return a function from an encoded object to an encoded row; arguments as for `table`."""
    return lambda item: msgspec.json.encode(_row(kind, msgspec.json.decode(item), now, include))


def metadata_encoder(kind: Kind) -> Callable[[bytes], bytes]:
    """Return what shows an encoded object as its encoded metadata alone."""
    return lambda item: msgspec.json.encode(partial_metadata(kind, msgspec.json.decode(item)))


def _definition(column: Column) -> JsonObject:
    return {
        "name": column.name,
        "type": column.type,
        "format": _format(column),
        "description": "",
        "priority": column.priority,
    }


def _format(column: Column) -> str:
    if column.format is not None:
        return column.format
    return "name" if column.name == "Name" else ""


def _row(kind: Kind, obj: JsonObject, now: float, include: str) -> JsonObject:
    columns = kind.strategy.columns or _GENERIC
    row: JsonObject = {"cells": [column.cell(obj, now) for column in columns], "object": None}
    if include == "Object":
        row["object"] = obj
    elif include != "None":
        row["object"] = partial_metadata(kind, obj)
    return row


def partial_metadata(kind: Kind, obj: JsonObject) -> JsonObject:
    """Show an object's metadata alone, as a PartialObjectMetadata."""
    metadata = obj["metadata"]
    hidden = kind.strategy.hidden_annotations
    if hidden and "annotations" in metadata:
        shown = {name: v for name, v in metadata["annotations"].items() if name not in hidden}
        metadata = {**metadata, "annotations": shown}
        if not shown:
            del metadata["annotations"]
    return {**_PARTIAL, "metadata": metadata}
