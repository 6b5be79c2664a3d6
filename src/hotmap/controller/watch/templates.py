"""When the pod template of each consumer was last observed to change."""

from __future__ import annotations

from collections.abc import Callable

from hotmap.core.decide.snapshot import TemplateChange
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey

__all__ = ["TemplateChanges"]


class TemplateChanges:
    """The latest change of each pod template since this controller started."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last: dict[ObjectKey, TemplateChange] = {}
        #: When a generation first increased since the template was observed to change.
        self._moved_at: dict[ObjectKey, float] = {}

    def last_change(self, key: ObjectKey) -> TemplateChange | None:
        """Return when a pod template was last observed to change; None: not since the start."""
        return self._last.get(key)

    def record_change(self, old: Consumer, new: Consumer) -> None:
        """Record when a pod template was edited, once its own controller reports it.

        That report is late, maybe after a change of a source that the new pods did not read. So the
        edit is dated by the first increase of the generation since the previous report.
        """
        if old.template_version == new.template_version:
            if old.generation != new.generation:
                self._moved_at.setdefault(new.key, self._clock())
        elif (at := self._moved_at.pop(new.key, None)) is not None:
            self._last[new.key] = TemplateChange(at, new.generation)

    def forget(self, key: ObjectKey) -> None:
        """Drop the last change of a consumer that was deleted or replaced."""
        self._last.pop(key, None)
        self._moved_at.pop(key, None)
