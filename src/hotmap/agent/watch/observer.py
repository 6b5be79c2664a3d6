"""Decides when to poll and to read the directories, and reports what was read.

An inotify event, a timer or a request leads to a reading. While a directory is missing or cannot be
read, reading is repeated until it succeeds; the reason is logged once.
"""

from __future__ import annotations

import os

from hotmap.agent.decide.announcement import parse_announcement
from hotmap.agent.decide.facts import Unreadable
from hotmap.agent.decide.readings import Readings
from hotmap.agent.runtime.loop import READ, Alarm
from hotmap.agent.watch.detector import Detector
from hotmap.agent.watch.mounts import describe_mount
from hotmap.agent.watch.plain_files import NotReadable, read_file
from hotmap.core.value import Value

__all__ = ["DirectoryStatus", "Observer", "ObserverStatus"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from hotmap.agent.decide.snapshot import Snapshot
    from hotmap.agent.runtime.log import Log
    from hotmap.agent.runtime.loop import Loop
    from hotmap.agent.settings.settings import WatchSettings
    from hotmap.core.target import Target
    from hotmap.volume.watcher import WatcherStatistics

#: Seconds between two attempts while something cannot be read, at most.
_RETRY_INTERVAL = 1.0

#: The same while something is too large, at least: each attempt takes as long as the reading of the
#: largest content, and polls detect a change.
_RETRY_TOO_LARGE = 10.0

#: Seconds for which files that change while they are read count as about to be read.
_UNKNOWN_FOR = 10.0

#: Seconds to the next attempt, and how many of them, while a writer makes its links.
_LINKS_INTERVAL, _LINKS_ATTEMPTS = 0.002, 50

#: Seconds after which what is written gets another time than before: a tick of the kernel, at most.
_FILE_TIME_STEP = 0.02

#: Bytes of the file with the pod's annotations; those of a pod have 256 KiB, which are escaped.
_MAX_ANNOTATIONS = 2 << 20

#: Polls that may be missed before the agent is unhealthy.
_MISSED_POLLS = 3


class DirectoryStatus(Value):
    """What one directory is, and how its changes are detected."""

    kind: str
    note: str
    detector: str


class ObserverStatus(Value):
    """The reported state of watching.

    changing: a change waits for its settle time, or was not taken yet, or not read without an error
    unreadable, unreadable_directory: why nothing can be read, and where; "" while it can
    poll_age: seconds since all directories were polled
    unread_since: since when an update was seen, or nothing could be read, in seconds since boot;
        None where everything was read since
    """

    directories: dict[str, DirectoryStatus]
    detector: WatcherStatistics
    changing: bool
    unreadable: str
    unreadable_directory: str
    poll_age: float
    unread_since: float | None = None


class Observer:
    """Watches the directories and the announcement's file."""

    def __init__(
        self,
        loop: Loop,
        log: Log,
        settings: WatchSettings,
        key: bytes,
        *,
        polled: Callable[[], None],
    ) -> None:
        """`key` is that of digests; `polled` is called at each poll."""
        self._polled = polled
        self._loop = loop
        self._log = log
        self._settings = settings
        self._observations: list[Snapshot | Unreadable | Target] = []
        target = settings.target_file
        self._target_directory = os.path.dirname(target) if target else ""
        also = [self._target_directory] if target else []
        self._detector = Detector(
            settings.directories, key,
            also=also, payloads=bool(target), permissions=settings.permissions,
            max_size=settings.max_directory_size,
        )  # fmt: skip
        self._readings = Readings(settings.settle, settings.settle_max, loop.now())
        self._read_alarm = Alarm(loop, self.read)
        self._poll_alarm = Alarm(loop, self._poll_again)
        self._link_attempts = 0
        self._pod_uid = ""
        self._announcement: Target | None = None
        #: Why announcements cannot be read; "" while they can.
        self.problem = ""
        self._unreadable = self._unreadable_directory = ""
        #: By directory: that a link in it is not followed.
        self._ignored: dict[str, str] = {}
        #: Whether the last reading has come to no end, because of an unexpected error.
        self._is_unfinished = False
        #: Whether something changed while it was read, so that nothing is known of what is there.
        self._is_unknown = False
        #: Whether something is too large; when it is read again, though no change was detected.
        self._is_too_large = False
        self._retry_at = 0.0
        #: Why changes are not announced, as it was logged last.
        self._reason = ""

    def begin(self) -> None:
        """Log what is mounted, read it, and go on watching."""
        if (descriptor := self._detector.fileno()) >= 0:
            self._loop.watch(descriptor, READ, self._on_events)
        for mount in map(describe_mount, self._settings.directories):
            if mount.note and mount.kind != "missing":  # the reading says why
                self._log.warning("directory", mount.note)
        self._report_detector()
        self._read_announcement()
        self.read()
        self._poll_again()

    def close(self) -> None:
        """Close the inotify instance."""
        self._detector.close()

    def take(self) -> list[Snapshot | Unreadable | Target]:
        """Return what was read since the last call, in order."""
        taken, self._observations = self._observations, []
        return taken

    def status(self) -> ObserverStatus:
        """Return the reported state of watching."""
        mounts = {path: describe_mount(path) for path in self._settings.directories}
        notes = {path: self._ignored.get(path) or mount.note for path, mount in mounts.items()}
        return ObserverStatus(
            directories={
                path: DirectoryStatus(mount.kind, notes[path], self._detector.mode_of(path))
                for path, mount in mounts.items()
            },
            detector=self._detector.statistics(),
            changing=self.is_changing or bool(self._observations) or self._is_unfinished,
            unreadable=self._unreadable,
            unreadable_directory=self._unreadable_directory,
            poll_age=self.poll_age,
            unread_since=self._readings.unread_since,
        )

    def pod_uid(self) -> str:
        """Read the pod's uid, which injection puts beside its annotations; "" where it is not."""
        # It never changes; its file is away for a moment when the kubelet updates the volume.
        if self._target_directory and not self._pod_uid:
            try:
                data = read_file(os.path.join(self._target_directory, "uid"), 128)
                self._pod_uid = data.decode("ascii").strip()
            except (NotReadable, ValueError):
                return ""
        return self._pod_uid

    @property
    def mode(self) -> str:
        """How changes are detected: inotify or polling."""
        return self._detector.statistics().mode

    @property
    def is_changing(self) -> bool:
        """Whether an update was seen that is going to be read.

        Files that change again and again do not count for longer than some seconds.
        """
        since = self._readings.unread_since
        if self._is_unknown and since is not None and self._loop.now() < since + _UNKNOWN_FOR:
            return True
        return self._readings.due_at() is not None

    @property
    def poll_age(self) -> float:
        """Seconds since all directories were polled."""
        return self._loop.now() - self._readings.polled_at

    @property
    def healthy(self) -> bool:
        """Whether the directories are polled as often as they should be."""
        return self.poll_age <= _MISSED_POLLS * self._interval()

    def poll(self) -> None:
        """Check all directories and the announcement for changes."""
        began = self._loop.now()  # what is written from now on may not be seen
        self._on_changes(self._detector.poll())
        if self._readings.due_at() is None and self._detector.take_doubtful():
            self._read_alarm.set(self._loop.now() + _FILE_TIME_STEP)
        if self._target_directory:
            self._read_announcement()
        self._readings.poll(began)
        self._report_detector()
        self._polled()

    def look_for_updates(self) -> None:
        """Look for updates of volumes now, for a status: those that an event has not shown yet.

        Without inotify, or where a sandbox shows no events of a kubelet, a status between two polls
        would call files loaded that have been replaced.
        """
        self._on_events()
        self._on_changes(self._detector.poll_volumes())

    def _report_detector(self) -> None:
        """Log it once when changes are not announced, and when they are again."""
        statistics = self._detector.statistics()
        if statistics.reason == self._reason:
            return
        self._reason = statistics.reason
        if statistics.reason:
            self._log.warning("detector", f"{statistics.reason}: polling", mode=statistics.mode)
        else:
            self._log.info("detector", "all directories are watched", mode=statistics.mode)

    def read(self) -> None:
        """Read the directories, unless a writer has not finished its links."""
        if self._link_attempts < _LINKS_ATTEMPTS and self._detector.incomplete():
            self._link_attempts += 1
            self._read_alarm.set(self._loop.now() + _LINKS_INTERVAL)
            return
        self._link_attempts = 0
        self._readings.begin(self._loop.now())
        self._is_unfinished = True
        try:
            snapshot = self._detector.read()
        except NotReadable as error:
            self._is_unfinished = False
            self._on_unreadable(error)
            return
        self._is_unfinished = False
        self._unreadable = self._unreadable_directory = ""
        self._is_unknown = False
        self._report_ignored()
        self._observations.append(self._readings.complete(snapshot, self._detector.revisions))

    def _report_ignored(self) -> None:
        """Log once which links are not followed: a change of their files is not seen."""
        before = self._ignored
        self._ignored = {
            directory: f"{links[0]} is a link to a file outside {directory}, whose changes are not "
            "seen: use --dir for the directory of that file as well"
            for directory, links in self._detector.ignored.items()
            if links
        }
        for directory, text in self._ignored.items():
            if before.get(directory) != text:
                self._log.warning("directory", text)

    def recover(self) -> None:
        """Poll and read everything, after an unexpected error; polling continues in any case."""
        self._announcement = None
        self._poll_alarm.set(self._loop.now() + self._interval())
        self.poll()
        self.read()

    def _on_events(self) -> None:
        before = self._detector.poll_interval
        self._on_changes(self._detector.read_events(), quiet_at=self._loop.quiet_at)
        if self._detector.poll_interval < before:  # a watch ended, and there is no other for it
            self._report_detector()
            self._poll_alarm.set(self._loop.now() + self._interval())

    def _poll_again(self) -> None:
        self.poll()
        if self._unreadable and self._loop.now() >= self._retry_at:
            self.read()
        self._poll_alarm.set(self._loop.now() + self._interval())

    def _interval(self) -> float:
        interval = self._settings.poll_interval or self._detector.poll_interval
        if self._unreadable and not self._is_too_large:
            return min(interval, _RETRY_INTERVAL)
        return interval

    def _on_changes(self, changed: list[str], *, quiet_at: float = 0.0) -> None:
        if self._target_directory in changed:
            self._read_announcement()
        if not any(path in self._settings.directories for path in changed):
            return
        now = self._loop.now()
        self._readings.update(now, quiet_at=quiet_at)
        due = self._readings.due_at()
        if due is None or due <= now:
            self.read()
        else:
            self._read_alarm.set(due)

    def _on_unreadable(self, error: NotReadable) -> None:
        self._readings.fail(self._loop.now(), is_unknown=error.is_unknown)
        self._is_unknown, self._is_too_large = error.is_unknown, error.is_too_large
        self._retry_at = self._loop.now() + _RETRY_TOO_LARGE if self._is_too_large else 0.0
        if str(error) == self._unreadable:
            return
        self._unreadable, self._unreadable_directory = str(error), error.directory
        if not error.is_unknown:
            self._observations.append(Unreadable(error.directory))
        self._log.warning("unreadable", self._unreadable)
        self._poll_alarm.set(self._loop.now() + self._interval())

    def _read_announcement(self) -> None:
        if not self._settings.target_file:
            return
        try:
            data = read_file(self._settings.target_file, _MAX_ANNOTATIONS)
        except NotReadable as error:
            self._on_missing_announcement(error)
            return
        self.problem = ""
        found = parse_announcement(data.decode("utf-8", "replace"))
        if found is None or found == self._announcement:
            return
        self._announcement = found
        self._observations.append(found)

    def _on_missing_announcement(self, error: NotReadable) -> None:
        problem = (
            f"{error}; it must be a file of a downwardAPI volume with the pod's "
            "metadata.annotations"
        )
        if problem != self.problem:
            self.problem = problem
            self._log.warning("announced", problem)
