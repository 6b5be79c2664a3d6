"""What the record of a rollout keeps, so that a return to old content is noticed later."""

from __future__ import annotations

from math import floor
from typing import NamedTuple

import msgspec

from hotmap.core.decide.evidence import MARGIN
from hotmap.core.decide.revisions import content_of
from hotmap.core.model.state import ForeignWrites, Record, RetiredRevision, Window
from hotmap.core.text import parse_number

__all__ = [
    "Replacement",
    "distinct_revision",
    "record_reloader_write",
    "record_rollout",
    "was_unmarked",
]

#: How many earlier revisions a record remembers, to notice a return to one of them.
_MAX_RETIRED = 3


class Replacement(NamedTuple):
    """How the content before a rollout was replaced."""

    #: POSIX seconds, as early as possible.
    at: float
    #: Whether that was observed.
    observed: bool = False
    #: Names that content if the template had no revision and all pods were found to have it.
    unmarked: str = ""


def distinct_revision(revision: str, record: Record | None, *, previous: str) -> str:
    """Return a new revision name for content that already had one: `<revision>.<n>`.

    `previous` is what the template carries now. n increases with each use, and is above the
    template's, in case the record was lost.
    """
    return f"{revision}.{_next_serial(record, previous)}"


def was_unmarked(record: Record | None, revision: str) -> bool:
    """Return whether pods without a revision in their template have this content.

    They are from before the first rollout.
    """
    retired = record.retired if record is not None else ()
    return any(item.unmarked and item.revision == revision for item in retired)


def _next_serial(record: Record | None, previous: str) -> int:
    number = previous.split(".")[2:3]
    shown = (parse_number(number[0]) or 0) if number else 0
    return max(record.serial if record else 0, shown) + 1


def record_rollout(
    record: Record,
    *,
    previous: str,
    revision: str,
    distinct: bool,
    replaced: Replacement,
    now: float,
) -> Record:
    """Add to the record of a rollout what a later return to old content needs.

    `previous` and `revision` are the template's revisions before and after, `replaced` says how the
    content before was replaced. A return to a recent revision reuses its ReplicaSet, and a pod of
    that may have started in between, so it opens a window; a `distinct` name creates new pods
    instead.

    The window, widened by MARGIN, ends before the second of `now`: pods that this rollout starts
    read the restored content, and the first one may run within that second.
    """
    wanted = content_of(revision)
    end = floor(now) - 1 - MARGIN
    returned = [item for item in record.retired if item.revision == wanted]
    windows = tuple(Window(item.at, end) for item in returned)
    is_known = bool(returned) and all(item.observed for item in returned) and not distinct
    # With a distinct name the earlier pods of this content remain suspect: the next rollout may
    # come before they are replaced, and a return to their name reuses them.
    retired = tuple(item for item in record.retired if distinct or item.revision != wanted)
    # Windows of it that were not examined are kept, in case it returns.
    earlier = [window.start for window in record.windows]
    if record.replaced_at:
        earlier.append(record.replaced_at)
    since = min([replaced.at, *earlier])
    # Another writer may have removed the revision from the template.
    for before in map(content_of, (record.revision, previous)):
        if (
            before
            and (distinct or before != wanted)
            and before not in {o.revision for o in retired}
        ):
            retired = (*retired, RetiredRevision(before, since, replaced.observed))
    if replaced.unmarked:
        first = RetiredRevision(replaced.unmarked, since, replaced.observed, unmarked=True)
        retired = (*retired, first)
    return msgspec.structs.replace(
        record,
        windows=() if distinct else windows,
        retired=retired[-_MAX_RETIRED:],
        serial=_next_serial(record, previous) if distinct else record.serial,
        revision=distinct_revision(revision, record, previous=previous) if distinct else revision,
        replaced_at=min(item.at for item in returned) if is_known else 0.0,
    )


def record_reloader_write(record: Record, *, now: float) -> Record:
    """Add to a record that we wrote a mark as Reloader does, which is not a conflict.

    `now` is POSIX seconds of the API server, to about a second.
    """
    reported = record.foreign_writes.reported if record.foreign_writes else ""
    return msgspec.structs.replace(record, foreign_writes=ForeignWrites(now + MARGIN, reported))
