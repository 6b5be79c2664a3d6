"""Numbers the nudges of a pod, by which its agent knows which files belong to which of them.

An agent that has read one nudge after the other takes the files that come next for those of the
last one (`agent.decide.announcement`). That is wrong where a kubelet that is late shows other files
first: those of an edit that another one followed before the pod was told. Such content counts as a
nudge that was not sent, so a number is left out, and the agent does not conclude from the order.
"""

from __future__ import annotations

from hotmap.core.decide.snapshot import ChangeSummary, Snapshot
from hotmap.core.model.state import SourceRecord
from hotmap.core.target import Target

__all__ = ["next_sequence"]

#: Seconds in which every kubelet has shown an edit (kubernetes: pkg/kubelet, syncFrequency).
_SHOWN_WITHIN = 92.0


def next_sequence(snapshot: Snapshot, told: Target | None) -> int:
    """Return the sequence of the next nudge of a pod; `told`: its last one, None without one."""
    last = 0 if told is None else told.sequence
    if told is not None and told.names_same_content(snapshot.target):
        return last + 1
    recorded = snapshot.recorded_target
    is_recorded = told is None or (recorded is not None and told.names_same_content(recorded))
    return last + (1 if is_recorded and not _shows_others(snapshot) else 2)


def _shows_others(snapshot: Snapshot) -> bool:
    """Return whether pods may show files that are neither the applied ones nor the desired ones.

    Where several sources have changed, these are also files of the applied version of one that
    came late, beside new ones of another.
    """
    changed = [
        (changes, recorded)
        for source, changes, recorded in snapshot.recorded_sources()
        if source.live and (changes.first is not None or source.live != recorded.live)
    ]
    if any(changes.window or changes.unobserved_by for changes, _ in changed):
        return True
    return len(changed) > 1 and any(_follows_another(*each) for each in changed)


def _follows_another(changes: ChangeSummary, recorded: SourceRecord) -> bool:
    """Return whether files of the version before may still be about to come."""
    if changes.first is None or recorded.changed_by is None:
        return True
    return changes.first - recorded.changed_by < _SHOWN_WITHIN
