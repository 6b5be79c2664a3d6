"""When the pod template of each consumer was last seen to change."""

from __future__ import annotations

from collections.abc import Callable

from hotmap.core.decide.snapshot import TemplateSighting
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey

__all__ = ["TemplateSightings"]


class TemplateSightings:
    """The latest change of each pod template since this controller started."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last: dict[ObjectKey, TemplateSighting] = {}
        #: When a generation first moved on since the template was seen to change.
        self._moved_at: dict[ObjectKey, float] = {}

    def last_change(self, key: ObjectKey) -> TemplateSighting | None:
        """Say when a pod template was last seen to change; None: not since the start."""
        return self._last.get(key)

    def note(self, old: Consumer, new: Consumer) -> None:
        """Note when a pod template was edited, once its own controller says that it was.

        That word comes late, maybe after a change of a source that the new pods did not read. So
        the edit counts as made when the generation first moved on since the word before.
        """
        if old.template_version == new.template_version:
            if old.generation != new.generation:
                self._moved_at.setdefault(new.key, self._clock())
        elif (at := self._moved_at.pop(new.key, None)) is not None:
            self._last[new.key] = TemplateSighting(at, new.generation)

    def forget(self, key: ObjectKey) -> None:
        """Drop what was seen of a consumer that is gone, or is another object now."""
        self._last.pop(key, None)
        self._moved_at.pop(key, None)
