"""Immutable sources in use that the record of a consumer does not have yet.

A kubelet serves an immutable source for as long as a pod on its node uses it, whatever replaces it
in the cluster. So a new use is recorded at once, before a decision is made: a decision may have to
wait, and the controller may end meanwhile. It is dropped once the record has a source of that name;
from then on the freshness rules assess the source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from hotmap.core.decide.snapshot import Snapshot
from hotmap.core.decide.source_snapshot import SourceSnapshot
from hotmap.core.model.state import ImmutableUse, Record, SourceRecord, records_by_source

__all__ = [
    "add_immutable_uses",
    "has_immutable_predecessor",
    "has_unrecorded_predecessor",
    "immutable_uses",
    "keep_added_uses",
    "remaining_immutable_uses",
]

#: Uids that are kept for one name. Two are enough: any third uid differs from one of them.
_PER_NAME = 2

#: Latest uses that are kept: a template that never rolls out may name new sources again and again.
_AT_MOST = 128


def immutable_uses(snapshot: Snapshot) -> tuple[ImmutableUse, ...]:
    """List the immutable sources that the pods of a consumer use now."""
    return tuple(
        ImmutableUse(item.source.kind, item.source.name, item.uid)
        for item in snapshot.sources
        if item.immutable and any(use.container for use in item.uses)
    )


def add_immutable_uses(record: Record, uses: Iterable[ImmutableUse]) -> Record:
    """Remember the immutable sources in use that a record does not have; itself if it has all."""
    known = records_by_source(record)
    kept = list(record.immutable_uses)
    unrecorded = [use for use in uses if not _is_recorded(use, known.get(_name(use)))]
    for use in unrecorded[-_AT_MOST:]:
        others = [each.uid for each in kept if _name(each) == _name(use)]
        if use.uid not in others and len(others) < _PER_NAME:
            kept.append(use)
    if len(kept) == len(record.immutable_uses):
        return record  # nothing was added
    return msgspec.structs.replace(record, immutable_uses=tuple(kept[-_AT_MOST:]))


def keep_added_uses(record: Record, before: Record | None, latest: Record | None) -> Record:
    """Keep in a new record the uses that were added while it was made.

    `before` is the record that it was made from, `latest` what was in its place when it was done.
    """
    known = before.immutable_uses if before is not None else ()
    added = [use for use in latest.immutable_uses if use not in known] if latest else []
    return add_immutable_uses(record, added)


def _is_recorded(use: ImmutableUse, recorded: SourceRecord | None) -> bool:
    if recorded is None:
        return False
    return recorded.pinned or (recorded.immutable and recorded.uid == use.uid)


def remaining_immutable_uses(
    record: Record,
    results: Iterable[tuple[SourceSnapshot, SourceRecord | None]],
    is_served: Callable[[tuple[str, str]], bool],
) -> tuple[ImmutableUse, ...]:
    """Select what is to be remembered beside the new record of each source in use.

    A source has been judged if its new record is of the one that is there now. `is_served` returns
    whether kubelets may serve one that is not followed now, by its kind and name.
    """
    if not record.immutable_uses:
        return ()
    found = {current.source.kind_and_name: (current, recorded) for current, recorded in results}

    def is_remembered(use: ImmutableUse) -> bool:
        if _name(use) not in found:
            return is_served(_name(use))
        current, recorded = found[_name(use)]
        if _is_recorded(use, recorded):
            return False
        is_judged = recorded is not None and current.exists and recorded.uid == current.uid
        return not is_judged or use.uid == current.uid

    return tuple(filter(is_remembered, record.immutable_uses))


def has_immutable_predecessor(record: Record | None, name: tuple[str, str], uid: str) -> bool:
    """Return whether a kubelet may serve an immutable source that was deleted since.

    `uid` is that of the source now, "" if there is none.
    """
    uses = record.immutable_uses if record is not None else ()
    return any(_name(use) == name and use.uid != uid for use in uses)


def has_unrecorded_predecessor(record: Record, current: SourceSnapshot) -> bool:
    """Return whether a kubelet may serve an immutable source that was never applied.

    Its content is not known, even if what came after it equals what was applied before: it may have
    become immutable with other content than was applied of it.
    """
    return has_immutable_predecessor(record, current.source.kind_and_name, current.uid)


def _name(use: ImmutableUse) -> tuple[str, str]:
    return use.kind, use.name
