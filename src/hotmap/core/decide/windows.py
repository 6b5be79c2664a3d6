"""Determines when sources of a consumer had other content than what is applied."""

from __future__ import annotations

from hotmap.core.decide.own_rollouts import is_already_applied
from hotmap.core.decide.snapshot import Snapshot
from hotmap.core.decide.source_snapshot import SourceSnapshot
from hotmap.core.model.state import SourceRecord, Window

__all__ = ["find_windows"]


def find_windows(snapshot: Snapshot) -> tuple[Window, ...]:
    """Collect the edits that were reverted since the last applied version (rule 3).

    Two kinds are left out. A source was immutable and was recreated with other content: new pods
    would read the old content (rule 7). A rollout has applied new content, and its record was lost
    in a crash (rule 0): no pod of its revision has seen other content.
    """
    began = snapshot.earliest_change
    return tuple(
        window
        for source, recorded in snapshot.recorded_sources()
        if (window := source.changes.window or _find_replaced_window(began, source, recorded))
        and not (recorded.immutable and _is_other_object(source, recorded))
        and not (recorded.frozen != source.frozen and is_already_applied(snapshot, source))
    )


def _find_replaced_window(
    began: float | None, source: SourceSnapshot, recorded: SourceRecord
) -> Window | None:
    """Find when a data key was in use that another source replaced before, and that is gone now.

    Its only change has led back to the applied content; it was in use since the other one changed,
    at `began`.
    """
    last = source.changes.last
    if began is None or last is None or began >= last or source.mounts is not None:
        return None
    applied = recorded.uses, recorded.frozen, recorded.live
    return Window(began, last) if applied == (source.digest, source.frozen, source.live) else None


def _is_other_object(source: SourceSnapshot, recorded: SourceRecord) -> bool:
    """Return whether a source is another object than the recorded one, with other content."""
    is_same = (recorded.frozen, recorded.live) == (source.frozen, source.live)
    return recorded.uid != source.uid and not is_same
