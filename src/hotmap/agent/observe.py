"""Decides when to look at the directories, looks, and hands on what it read.

A swap, a timer or somebody's wish leads to a look; a look that finds a directory missing or
unreadable is repeated until it succeeds, and says why in one sentence, once.
"""

from __future__ import annotations

import os

from hotmap.agent.announcement import read_announcement
from hotmap.agent.decide import Settle
from hotmap.agent.detect import Detector, NotReadable, describe
from hotmap.agent.loop import READ, Alarm

__all__ = ["Observer"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from hotmap.agent.announcement import Announcement
    from hotmap.agent.detect import Snapshot
    from hotmap.agent.log import Log
    from hotmap.agent.loop import Loop
    from hotmap.agent.settings import Settings
    from hotmap.volume.watcher import WatcherStatistics

#: Seconds between two looks while something cannot be read.
_RETRY_READ = 1.0

#: Seconds to the next look, and how many looks, while a writer makes its links.
_LINKS_PAUSE, _LINKS_LOOKS = 0.002, 50

#: Passes of the detector that may be missed before the agent does not count as healthy.
_MISSED = 3


class Observer:
    """Watches the directories and the announcement's file."""

    def __init__(
        self,
        loop: Loop,
        log: Log,
        settings: Settings,
        key: bytes,
        *,
        seen: Callable[[Snapshot], None],
        announced: Callable[[Announcement], None],
        passed: Callable[[], None],
    ) -> None:
        """Prepare it; `seen` gets each reading, `passed` is called after each pass."""
        self._loop = loop
        self._log = log
        self._settings = settings
        self._seen = seen
        self._announced = announced
        self._passed = passed
        target = settings.target_file
        self._target_directory = os.path.dirname(target) if target else ""
        also = [self._target_directory] if target else []
        self._detector = Detector(settings.directories, key, also=also, payloads=bool(target))
        self._described = {one: describe(one) for one in settings.directories}
        self._settle = Settle(settings.settle, settings.settle_max)
        self._look_alarm = Alarm(loop, self.look)
        self._pass_alarm = Alarm(loop, self._pass_again)
        self._link_looks = 0
        self._last_pass = loop.now()
        self._announcement: Announcement | None = None
        #: Why announcements cannot be read; "" while they can.
        self.problem = ""
        #: Why the directories cannot be read now, and which of them it is; "" while they can.
        self.unreadable = self.unreadable_directory = ""

    def begin(self) -> None:
        """Say what is there, look at it, and go on looking."""
        if (descriptor := self._detector.fileno()) >= 0:
            self._loop.watch(descriptor, READ, self._swapped)
        for directory in self._described.values():
            if directory.note:
                self._log.warning("directory", directory.note)
        statistics = self.statistics()
        if statistics.reason:
            self._log.warning("detector", statistics.reason, mode=statistics.mode)
        self._read_announcement()
        self.look()
        self._pass_again()

    def close(self) -> None:
        """Give the inotify instance back."""
        self._detector.close()

    def statistics(self) -> WatcherStatistics:
        """Say by which means directories are watched, and what was seen."""
        return self._detector.statistics()

    def about(self) -> dict[str, dict[str, Any]]:
        """Describe each directory: what it is, and how its changes are noticed."""
        return {
            one: {
                "kind": self._described[one].kind,
                "note": self._described[one].note,
                "detector": self._detector.mode_of(one),
            }
            for one in self._settings.directories
        }

    @property
    def settling(self) -> bool:
        """Whether a change waits for its settle time."""
        return self._settle.due_at() is not None

    @property
    def since_last_pass(self) -> float:
        """Seconds since all directories were looked at."""
        return self._loop.now() - self._last_pass

    @property
    def healthy(self) -> bool:
        """Whether the directories are looked at as often as they should be."""
        return self.since_last_pass <= _MISSED * self._interval()

    def pass_now(self) -> None:
        """Look for changes in all directories, and at the announcement."""
        self._note_changes(self._detector.poll())
        if self._target_directory:
            self._read_announcement()
        self._last_pass = self._loop.now()
        self._passed()

    def look(self) -> None:
        """Read the directories as they are now, unless a writer is at work in them."""
        if self._link_looks < _LINKS_LOOKS and self._detector.incomplete():
            self._link_looks += 1
            self._look_alarm.set(self._loop.now() + _LINKS_PAUSE)
            return
        self._link_looks = 0
        self._settle.clear()
        try:
            snapshot = self._detector.read()
        except NotReadable as error:
            self._complain(error)
            return
        if self.unreadable:
            self.unreadable = self.unreadable_directory = ""
            self._described = {one: describe(one) for one in self._settings.directories}
        self._seen(snapshot)

    def _swapped(self) -> None:
        self._note_changes(self._detector.changed())

    def _pass_again(self) -> None:
        self.pass_now()
        if self.unreadable:
            self.look()
        self._pass_alarm.set(self._loop.now() + self._interval())

    def _interval(self) -> float:
        wanted = self._settings.check_interval or self._detector.poll_interval
        return min(wanted, _RETRY_READ) if self.unreadable else wanted

    def _note_changes(self, changed: list[str]) -> None:
        if self._target_directory in changed:
            self._read_announcement()
        if not any(one in self._settings.directories for one in changed):
            return
        self._settle.touch(self._loop.now())
        due = self._settle.due_at()
        if due is None or due <= self._loop.now():
            self.look()
        else:
            self._look_alarm.set(due)

    def _complain(self, error: NotReadable) -> None:
        if str(error) == self.unreadable:
            return
        self.unreadable, self.unreadable_directory = str(error), error.directory
        self._log.warning("unreadable", self.unreadable)
        self._pass_alarm.set(self._loop.now() + _RETRY_READ)

    def _read_announcement(self) -> None:
        if not self._settings.target_file:
            return
        try:
            with open(self._settings.target_file, encoding="utf-8", errors="replace") as file:
                found = read_announcement(file.read())
        except OSError as error:
            self._miss_announcement(error)
            return
        self.problem = ""
        if found is None or found == self._announcement:
            return
        self._announcement = found
        self._announced(found)

    def _miss_announcement(self, error: OSError) -> None:
        reason = (error.strerror or "").lower()
        problem = (
            f"{self._settings.target_file} cannot be read: {reason}; it is a file of a downwardAPI "
            "volume with the pod's metadata.annotations"
        )
        if problem != self.problem:
            self.problem = problem
            self._log.warning("announced", problem)
