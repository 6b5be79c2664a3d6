"""Numbers the nudges of a pod, so that its agent knows which files belong to which nudge.

An agent that has read consecutive nudges assumes that the next files belong to the last nudge
(`agent.decide.announcement`). This is wrong if two edits follow each other before the pod is
nudged: a slow kubelet may show the files of the first edit then. That content counts as a nudge
that was not sent: its number is skipped, and the agent draws no conclusion from the order.
"""

from __future__ import annotations

from hotmap.core.decide.snapshot import Snapshot
from hotmap.core.decide.source_snapshot import ChangeSummary
from hotmap.core.model.state import SourceRecord
from hotmap.core.target import Target

__all__ = ["NudgeNumbers"]

#: Seconds in which every kubelet has shown an edit (kubernetes: pkg/kubelet, syncFrequency).
_SHOWN_WITHIN = 92.0


class NudgeNumbers:
    """Numbers the nudges of a consumer's pods with the content of one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._target = snapshot.target
        self._recorded = snapshot.recorded_target
        changed = [
            (source.changes, recorded)
            for source, recorded in snapshot.recorded_sources()
            if source.live and (source.changes.first is not None or source.live != recorded.live)
        ]
        #: Whether pods with the applied content may show other content before the desired one.
        self._shows_others = any(changes.window or changes.unobserved_by for changes, _ in changed)
        #: Whether pods may still have files from before the applied version of a source.
        self._may_lack_applied = any(_follows_another(*each) for each in changed)
        #: Whether such files may be shown beside new files of another source.
        self._is_mixed = len(changed) > 1 and self._may_lack_applied

    def after(self, told: Target | None) -> int:
        """Return the sequence of a pod's next nudge; `told` is its last one, if any."""
        if told is None:
            skips = self._shows_others or self._may_lack_applied
            return 2 if skips else 1
        if told.names_same_content(self._target):
            return told.sequence + 1
        is_recorded = self._recorded is not None and told.names_same_content(self._recorded)
        skips = not is_recorded or self._shows_others or self._is_mixed
        return told.sequence + (2 if skips else 1)


def _follows_another(changes: ChangeSummary, recorded: SourceRecord) -> bool:
    """Return whether pods may still have files from before the applied version."""
    if changes.first is None or recorded.changed_by is None:
        return True
    # Nothing precedes the creation of a source.
    return recorded.edited and changes.first - recorded.changed_by < _SHOWN_WITHIN
