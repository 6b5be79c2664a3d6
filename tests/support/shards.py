"""Writes the text of one Secret with records."""

from __future__ import annotations

from collections.abc import Iterable

from hotmap.core.model.state import Record, SourceChanges, changes_line, join_lines, record_line

__all__ = ["write_shard"]


def write_shard(
    records: Iterable[Record],
    changes: Iterable[SourceChanges] = (),
    *,
    watched_until: float | None = None,
) -> str:
    """Write records and observed changes of sources as the text of one shard, sorted."""
    lines = [record_line(each) for each in sorted(records, key=lambda record: record.uid)]
    lines += [changes_line(each) for each in sorted(changes, key=lambda change: change.source)]
    return join_lines(lines, watched_until=watched_until).decode()
