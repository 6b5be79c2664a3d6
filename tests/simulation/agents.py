"""Agents of simulated pods: their real decisions, what they answer, and the I/O as a model of it.

An agent sees the directories that a kubelet writes, reads them, checks them, and tells a process.
All that is decided in between is decided by the code of the product. An agent that restarts has
forgotten everything but its state file, if it has one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tests.simulation.applications import Application, is_refused
from tests.simulation.attempts import TICK, Attempt, make_attempt, ticks

from hotmap.agent.act.attempt import ContentHistory
from hotmap.agent.decide.announcement import parse_announcement
from hotmap.agent.decide.digest import KEY_LENGTH
from hotmap.agent.decide.facts import (
    ERROR,
    PASSED,
    REFUSED,
    AttemptFinished,
    CheckFinished,
    ReadDirectories,
    StartAttempt,
    StartCheck,
)
from hotmap.agent.decide.progress import KeptAttempt
from hotmap.agent.decide.readings import Readings
from hotmap.agent.decide.reconciler import Reconciler
from hotmap.agent.decide.snapshot import Snapshot
from hotmap.agent.decide.start_evidence import (
    Lookups,
    ProcessStart,
    WrittenContent,
    find_start_evidence,
)
from hotmap.agent.process.application import ApplicationStatus
from hotmap.agent.report.pod_document import make_pod_document
from hotmap.agent.settings.flags import parse_arguments
from hotmap.agent.settings.loader import load_settings
from hotmap.agent.settings.settings import FROZEN, Settings
from hotmap.agent.watch.detector import make_snapshot
from hotmap.agent.watch.observer import ObserverStatus
from hotmap.core.status.agent_answers import AgentState, read_answer
from hotmap.core.target import Target
from hotmap.volume.watcher import WatcherStatistics

if TYPE_CHECKING:
    from hotmap.agent.decide.reconciler import Command, Fact

__all__ = ["AgentHost", "MountedVolume", "SimulatedAgent"]


class MountedVolume:
    """What a kubelet has written into one volume, and when."""

    def __init__(self, now: float) -> None:
        self.revision = 0
        self.written = now

    def update(self, now: float) -> None:
        self.revision += 1
        self.written = now


class AgentHost(Protocol):
    """The pod of an agent, as the agent sees it."""

    uid: str
    volumes: dict[str, MountedVolume]
    applications: dict[str, Application]

    def directory(self, volume: str) -> dict[str, str]:
        """Return the files of a volume."""
        ...

    def annotations_file(self) -> str:
        """Return the file with the pod's annotations."""
        ...

    def terminate(self, container: str, now: float) -> None:
        """End a container's process; its kubelet starts the container again."""
        ...


class _StateFile(NamedTuple):
    """What is kept for the next start."""

    key: bytes
    attempts: dict[str, KeptAttempt]
    saved_at: float = 0.0
    revisions: dict[str, tuple[str, str]] = {}  # noqa: RUF012 - never changed


class _Served:
    """The process that an agent tells to load."""

    def __init__(self, pod: AgentHost, container: str) -> None:
        self._pod, self._container = pod, container

    def find(self) -> Application | None:
        return self._pod.applications.get(self._container)

    def terminate(self, now: float) -> None:
        self._pod.terminate(self._container, now)


class SimulatedAgent:
    """One container with an agent."""

    def __init__(
        self,
        pod: AgentHost,
        args: tuple[str, ...],
        chance: random.Random,
        *,
        checks: bool,
        starts_at: float,
    ) -> None:
        """`checks`: it refuses content with the value that applications may refuse."""
        self._pod = pod
        self._chance = chance
        self._checks = checks
        self._settings = _settings_of(args)
        self._directories = self._settings.watch.directories
        #: The names of the volumes that it watches, in the order of its answer.
        self.volumes = tuple(directory.strip("/") for directory in self._directories)
        #: Whether it only calls an endpoint; which process answers there is not known to it.
        self.calls_only = all(
            action.kind in ("http", "none")
            for rule in self._settings.rules
            for action in rule.actions
        )
        #: Whether content was replaced and reverted, while it ran, before it has read it.
        self.missed_content = False
        self._served = _Served(pod, self.served_by)
        # Without it, an agent takes what is announced at its start for what processes have read.
        restarts = any(rule.name == FROZEN for rule in self._settings.rules)
        self._keeps_state = restarts or chance.random() < 0.5
        #: How long it may take to see an update; 0 with inotify.
        self._poll_interval = chance.choice((0.0, 0.0, 1.0, 5.0))
        self._file = _StateFile(chance.randbytes(KEY_LENGTH), {})
        self.is_running = False
        self.starts = 0
        #: How often it told a process to load its files, and how often that did not succeed.
        self.told = self.failures = 0
        #: How often other content was announced that is read at start.
        self.announced = 0
        self._starts_at = starts_at

    @property
    def served_by(self) -> str:
        """The container whose process it tells."""
        return "web" if "v" in self.volumes else "side"

    def loaded_volumes(self, now: float) -> list[str]:
        """Return the volumes that it would say are loaded; it is not asked, so it does not look."""
        if self._revisions() != self._seen:
            return []  # it looks for updates before it answers
        answer = read_answer(self._document(now), self._pod.uid).answer
        assert answer is not None
        # As the controller reads it: all directories are as far as the worst.
        is_loaded = answer.of_present_files.worst is AgentState.LOADED
        return list(self.volumes) if is_loaded else []

    def restart(self, at: float) -> None:
        """End now, whatever it does, and start again."""
        self.is_running = False
        self._starts_at = at

    def answer(self, now: float) -> bytes:
        """Return the document that the controller reads."""
        self._look_for_updates(now, quiet_at=0.0)
        return self._document(now)

    def _document(self, now: float) -> bytes:
        observer = ObserverStatus(
            directories={},
            detector=_NOT_WATCHING,
            changing=self._readings.due_at() is not None or bool(self._observed),
            unreadable="",
            unreadable_directory="",
            poll_age=0.0,
        )
        return make_pod_document(
            now, self._pod.uid, observer, self._reconciler, ApplicationStatus(0, 0)
        )

    def step(self, now: float) -> None:
        """Do everything that is due, as one turn of the agent's loop does."""
        if not self.is_running:
            if now < self._starts_at:
                return
            self._start(now)
        facts = list(self._observe(now))
        while True:
            facts += self._results(now)
            for fact in facts:
                self._reconciler.record(fact, now)
            commands = self._reconciler.decide(now)
            self._save(now)
            for command in commands:
                self._execute(command, now)
            if not facts and not commands:
                break
            facts = []
        self._turned_at = now

    def _start(self, now: float) -> None:
        self.is_running = True
        self.starts += 1
        if not self._keeps_state:
            self._file = _StateFile(self._chance.randbytes(KEY_LENGTH), {})
        state = self._file
        self._reconciler = Reconciler(
            self._settings, state.key, state.attempts, self._chance.random
        )
        self._reconciler.doubt_processes_since(state.saved_at, state.revisions)
        self._readings = Readings(self._settings.watch.settle, self._settings.watch.settle_max, now)
        self._turned_at = now
        self._polls_at = now + self._poll_interval
        self._seen = self._revisions()
        self._reads = True
        self._announcement: Target | None = None
        self._observed: list[Fact] = []
        self._attempts: dict[str, Attempt] = {}
        self._next: dict[str, StartAttempt] = {}
        self._histories: dict[str, ContentHistory] = {}
        self._check: tuple[float, CheckFinished] | None = None
        self._finished: list[Fact] = []

    def _save(self, now: float) -> None:
        attempts, revisions = self._reconciler.attempts(), self._reconciler.revisions
        is_same = attempts == self._file.attempts and revisions == self._file.revisions
        if not is_same or not self._file.saved_at:
            self._file = _StateFile(self._file.key, attempts, now, revisions)

    # -- what it observes ----------------------------------------------------------------------

    def _revisions(self) -> dict[str, str]:
        volumes = self._pod.volumes
        return {path: str(volumes[path.strip("/")].revision) for path in self._directories}

    def _observe(self, now: float) -> Iterator[Fact]:
        """Return what it has read: the announcement first, then the directories if that is due."""
        is_polled = self._poll_interval > 0
        if not is_polled or now >= self._polls_at or self._reads:
            self._look_for_updates(now, quiet_at=0.0 if is_polled else self._turned_at)
        observed, self._observed = self._observed, []
        yield from observed
        if is_polled and now >= self._polls_at:
            self._readings.poll(now)
            self._polls_at = now + self._poll_interval
        due = self._readings.due_at()
        if self._reads or (due is not None and due <= now):
            self._reads = False
            yield self._read(now)

    def _look_for_updates(self, now: float, *, quiet_at: float) -> None:
        announced = parse_announcement(self._pod.annotations_file())
        if announced is not None and announced != self._announcement:
            before = self._announcement
            self.announced += before is None or before.frozen != announced.frozen
            self._announcement = announced
            self._observed.append(announced)
        if (revisions := self._revisions()) != self._seen:
            self._seen = revisions
            self._readings.update(now, quiet_at=quiet_at)

    def _read(self, now: float) -> Snapshot:
        self._readings.begin(now)
        contents = {
            path: {
                name: text.encode() for name, text in self._pod.directory(path.strip("/")).items()
            }
            for path in self._directories
        }
        snapshot = make_snapshot(contents, self._file.key, payloads=True)
        written = {path: self._pod.volumes[path.strip("/")].written for path in self._directories}
        complete = self._readings.complete(snapshot._replace(written=written), self._revisions())
        is_same = snapshot.digest == self._reconciler.gate.seen
        self.missed_content |= is_same and complete.replaced
        return complete

    # -- what it does --------------------------------------------------------------------------

    def _results(self, now: float) -> list[Fact]:
        """Return the results of checks and attempts that have ended."""
        results, self._finished = self._finished, []
        if self._check is not None and self._check[0] <= now:
            results.append(self._check[1])
            self._check = None
        for name, attempt in tuple(self._attempts.items()):
            told = attempt.told
            result = attempt.step(now)
            self.told += attempt.told - told
            if result is None:
                continue
            self.failures += bool(result.error)
            del self._attempts[name]
            if (command := self._next.pop(name, None)) is not None:
                self._attempt(command, now)
            else:
                results.append(result)
        return results

    def _execute(self, command: Command, now: float) -> None:
        if isinstance(command, ReadDirectories):
            self._reads = True
        elif isinstance(command, StartCheck):
            result, error = PASSED, ""
            if self._chance.random() < 0.02:
                result, error = ERROR, "timed out"
            elif self._checks and self._is_refused(command.snapshot.contents):
                result, error = REFUSED, "not accepted"
            ends = now + self._chance.choice((0.0, 0.0, 0.3, 1.0))
            self._check = ends, CheckFinished(command.snapshot, result, error)
        elif isinstance(command, StartAttempt):
            self._attempt(command, now)
        else:
            raise AssertionError(command)

    @staticmethod
    def _is_refused(contents: Mapping[str, Mapping[str, bytes]]) -> bool:
        return is_refused(
            {name: data.decode() for name, data in files.items()} for files in contents.values()
        )

    def _attempt(self, command: StartAttempt, now: float) -> None:
        """Start an attempt as `act/rule_attempts` does."""
        name = command.rule.name
        running = self._attempts.get(name)
        if running is not None and now < running.busy_until:
            self._next[name] = command
            return
        self._attempts.pop(name, None)
        self._next.pop(name, None)
        evidence = find_start_evidence(command, self._lookups(), self._directories, published=False)
        if evidence is not None:
            by_itself = not evidence.error
            self._finished.append(
                AttemptFinished(name, evidence.error, 0, now, by_itself, evidence.doubt)
            )
            return
        history = self._histories.get(name)
        if history is None or history.desired_since != command.desired_since:
            limit = self._settings.actions.timeout
            history = ContentHistory(command.desired_since, limit, repeats=True)
            self._histories[name] = history
        self._attempts[name] = make_attempt(
            command, history, self._served, self._settings, self._chance
        )

    def _lookups(self) -> Lookups:
        def written(path: str) -> WrittenContent:
            volume = self._pod.volumes[path.strip("/")]
            return WrittenContent(ticks(volume.written), volume.revision == 0)

        return Lookups(self._find, self._find, lambda: None, written, TICK)

    def _find(self, target: str) -> ProcessStart | str:
        application = self._pod.applications.get(target.partition(":")[2])
        if application is None:
            return f"no process with {target} found"
        return ProcessStart(application.pid, ticks(application.started))


@cache
def _settings_of(args: tuple[str, ...]) -> Settings:
    return load_settings(parse_arguments(list(args[1:])))


_NOT_WATCHING = WatcherStatistics("inotify", "", 0, 0, 0, 0, 0, 0)
