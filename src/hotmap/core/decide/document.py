"""Snapshots and decisions as plain maps and lists: to print, to store in a file, to replay.

Written generically from the fields of the values, so that a new field needs nothing here. A field
that has its default is left out. An object key is written as it prints (`ConfigMap shop/app`).
No values of sources are in a snapshot, only fingerprints, so none are in its document.
"""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

from hotmap.core.decide.decision import Decision
from hotmap.core.decide.evidence import PodStart
from hotmap.core.decide.record import Outcome, next_record
from hotmap.core.decide.snapshot import Snapshot
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.references import Use
from hotmap.core.model.uses import Uses, pack_uses

__all__ = [
    "decision_document",
    "read_snapshot",
    "read_starts",
    "snapshot_document",
]


def snapshot_document(snapshot: Snapshot) -> dict[str, Any]:
    """Write a snapshot as maps, lists, texts and numbers."""
    document: dict[str, Any] = _write(snapshot)
    return document


def read_snapshot(document: Mapping[str, Any]) -> Snapshot:
    """Read a snapshot that `snapshot_document` has written.

    Raises:
        KeyError, TypeError, ValueError: the document is not one.
    """
    snapshot: Snapshot = _read(Snapshot, document)
    return snapshot


def read_starts(document: Sequence[Mapping[str, Any]]) -> tuple[PodStart, ...]:
    """Read the starts of pods, which a decision may need beside a snapshot."""
    return tuple(_read(PodStart, start) for start in document)


def decision_document(decision: Decision) -> dict[str, Any]:
    """Write a decision, its reason by source, and the record after it is carried out.

    The record assumes that the consumer has its next generation after a rollout.
    """
    plan, consumer = decision.plan, decision.snapshot.consumer
    generation = consumer.generation + int(decision.starts_new_pods)
    outcome = Outcome(generation, decision.snapshot.revision, decision.snapshot.now)
    record = next_record(decision, outcome)
    return {
        "verdict": plan.verdict.value,
        "reason": plan.reason,
        "actions": [_write(action) for action in plan.actions],
        "sources": [
            {
                "source": str(finding.current.source),
                "verdict": finding.verdict.value,
                "reason": finding.reason,
            }
            for finding in decision.assessment.findings
        ],
        "needsPodStarts": decision.needs_pod_starts,
        "settles": plan.settles,
        "warning": plan.warning,
        "requeueAfter": plan.requeue_after,
        "conflict": decision.conflict.reason if decision.conflict else None,
        "record": None if record is None else _write(record),
    }


# -- writing -----------------------------------------------------------------------------------


def _write(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, ObjectKey):
        return str(value)
    if isinstance(value, Uses):
        return [_write(use) for use in value]
    kind: Any = type(value)
    if fields := _fields(kind):
        return {
            name: _write(item)
            for name, (_, default) in fields.items()
            if (item := getattr(value, name)) != default
        }
    if isinstance(value, Mapping):
        return {str(key): _write(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(_write(item) for item in value)
    if isinstance(value, (tuple, list)):
        return [_write(item) for item in value]
    return value


_MISSING = object()


@cache
def _fields(kind: Any) -> dict[str, tuple[Any, Any]]:
    """Return type and default of each field of a named tuple or Struct; empty for others."""
    if issubclass(kind, msgspec.Struct):
        hints = typing.get_type_hints(kind)
        return {
            field.name: (hints[field.name], _MISSING if field.required else field.default)
            for field in msgspec.structs.fields(kind)
        }
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        hints = typing.get_type_hints(kind)
        defaults: dict[str, Any] = kind._field_defaults
        names: tuple[str, ...] = kind._fields
        # Values that the agent shares have no annotations at run time; their fields are plain.
        return {name: (hints.get(name, object), defaults.get(name, _MISSING)) for name in names}
    return {}


# -- reading -----------------------------------------------------------------------------------


def _read(kind: Any, value: Any) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        (inner,) = (argument for argument in arguments if argument is not type(None))
        return None if value is None else _read(inner, value)
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return tuple(_read(arguments[0], item) for item in value)
        return tuple(_read(entry, item) for entry, item in zip(arguments, value, strict=True))
    if origin is frozenset:
        return frozenset(_read(arguments[0], item) for item in value)
    if origin is dict:
        return {key: _read(arguments[1], item) for key, item in value.items()}
    return _read_class(kind, value)


def _read_class(kind: Any, value: Any) -> Any:
    if kind is ObjectKey:
        name, _, rest = value.partition(" ")
        return ObjectKey(name, *rest.split("/")) if "/" in rest else ObjectKey(name, "", rest)
    if kind is Uses:
        return pack_uses([_read(Use, item) for item in value])
    if issubclass(kind, enum.Enum):
        return kind(value)
    if fields := _fields(kind):
        return kind(**{name: _read(fields[name][0], item) for name, item in value.items()})
    return value
