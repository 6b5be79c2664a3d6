"""When the pod template of each consumer was last observed to change, or to be created.

If a consumer was created while its watch was interrupted, only the interruption is known.
"""

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
        #: The first increase of a generation that its own controller has not reported on.
        self._moved: dict[ObjectKey, TemplateChange] = {}
        #: The version that a replacement of the whole Deployment has removed with its annotations.
        self._removed: dict[ObjectKey, str] = {}
        #: Since when consumers had not been watched that were found after that, POSIX seconds.
        self._unwatched_since: dict[ObjectKey, float] = {}

    def last_change(self, key: ObjectKey) -> TemplateChange | None:
        """Return when a pod template was last observed to change; None: not since the start."""
        return self._last.get(key)

    def unwatched_since(self, key: ObjectKey) -> float | None:
        """Return a time before a consumer was created, if no watch saw that; None: one did."""
        return self._unwatched_since.get(key)

    def record_creation(self, new: Consumer, *, unwatched_since: float | None = None) -> None:
        """Record that a consumer was created, if its own controller has made no pods of it yet.

        `unwatched_since` is when the watch was interrupted before that, POSIX seconds; None: it was
        not.
        """
        self.forget(new.key)
        if unwatched_since is not None:
            self._unwatched_since[new.key] = unwatched_since
        # The version of a DaemonSet's template is there from the first on.
        is_first = new.key.kind == "DaemonSet" and new.generation == 1 and not new.wanted
        if new.rolling and (is_first or not new.template_version):
            change = TemplateChange(self._clock(), new.generation, new.resource_version, True)
            self._last[new.key] = change

    def record_change(self, old: Consumer, new: Consumer) -> None:
        """Record when a pod template was edited, once its own controller reports it.

        The report may come after a change of a source that the new pods did not read. So the edit
        gets the time of the first increase of the generation since the previous report. Increases
        that were reported without a new template, such as by an annotation, do not count.

        `kubectl replace` removes the version of a Deployment with its other annotations. Its
        controller writes it again, and with a new template another one.
        """
        before = old.template_version
        if before and not new.template_version:
            self._removed[new.key] = before
        elif new.template_version:
            before = self._removed.pop(new.key, before)
        if before == new.template_version or not new.template_version:
            if not new.rolling:
                self._moved.pop(new.key, None)
            elif old.generation != new.generation:
                change = TemplateChange(self._clock(), new.generation, new.resource_version)
                self._moved.setdefault(new.key, change)
        elif (moved := self._moved.pop(new.key, None)) is not None:
            self._last[new.key] = moved._replace(generation=new.generation)
        elif new.key.kind == "DaemonSet":  # its version changes with the edit itself
            change = TemplateChange(self._clock(), new.generation, new.resource_version)
            self._last[new.key] = change

    def forget(self, key: ObjectKey) -> None:
        """Drop the last change of a consumer that was deleted or replaced."""
        self._last.pop(key, None)
        self._moved.pop(key, None)
        self._removed.pop(key, None)
        self._unwatched_since.pop(key, None)
