"""Joins the parts on one loop: what is read goes to the gate, what passed goes to the rules.

Each turn of the loop ends in `_decide`, which looks at everything anew; so whatever woke the loop
(a swap, a timer, a child that ended) only says that it is time to look.
"""

from __future__ import annotations

import os
import random
import signal

from hotmap.agent.act import Attempt, Surroundings, changed_files
from hotmap.agent.announcement import Announcement, Pairing, read_announcement
from hotmap.agent.checking import Checker
from hotmap.agent.children import Children
from hotmap.agent.clock import wall
from hotmap.agent.decide import Gate, Progress, Settle, pause
from hotmap.agent.detect import Detector, NotReadable, describe
from hotmap.agent.digest import tree_digest
from hotmap.agent.environment import expand, make_environment
from hotmap.agent.following import Followed
from hotmap.agent.log import Log
from hotmap.agent.loop import READ, Loop, Timer
from hotmap.agent.memory import Memory
from hotmap.agent.processes import look_at_the_clock
from hotmap.agent.report import Calls, overall, render_metrics
from hotmap.agent.server import Server
from hotmap.agent.settings import ALL_CONTAINERS_STATUS, FROZEN
from hotmap.agent.stage import Stage
from hotmap.agent.supervise import Supervisor, take_orphans
from hotmap.core.errors import HotmapError

__all__ = ["Agent"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from hotmap.agent.detect import Snapshot
    from hotmap.agent.http import Call
    from hotmap.agent.settings import Rule, Settings

#: Seconds between two looks while something cannot be read.
_RETRY_READ = 1.0

#: Seconds to the next look, and how many looks, while a writer makes its links.
_LINKS_PAUSE, _LINKS_LOOKS = 0.002, 50

#: Passes of the detector that may be missed before /healthz says so.
_MISSED = 3

#: Signals that a supervised application gets as we get them.
_FORWARDED = (
    signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH, signal.SIGCONT,
    signal.SIGTSTP,
)  # fmt: skip


class Agent:
    """Everything that one start of the agent holds."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._log = Log(settings.log_format)
        self._loop = Loop()
        self._children = Children(self._loop)
        self._memory = Memory(settings.state)
        self._target_directory = (
            os.path.dirname(settings.target_file) if settings.target_file else ""
        )
        also = [self._target_directory] if self._target_directory else []
        self._detector = Detector(settings.directories, self._memory.key, also=also)
        self._settle = Settle(settings.settle, settings.settle_max)
        self._gate = Gate()
        self._checker = Checker(self._children, settings)
        self._stage = (
            Stage(settings.stage, settings.directories, settings.stage_mode)
            if settings.stage
            else None
        )
        self._rules = [
            Followed(rule, settings.directories, self._remembered(rule)) for rule in settings.rules
        ]
        self._announcement: Announcement | None = None
        self._pairing = Pairing()
        self._relation = "none"
        self._supervisor = Supervisor(
            self._loop, self._children, grace=settings.grace, ended=self._application_ended
        )
        self._calls = Calls(
            action.call.url for rule in settings.rules for action in rule.actions if action.call
        )
        self._surroundings = Surroundings(
            self._loop, self._children, settings, self._supervisor.process,
            self._restart_application, self._restart_all, self._called,
        )  # fmt: skip
        self._server = Server(self._loop, settings.listen, settings.socket, self._respond)
        self._snapshot: Snapshot | None = None
        self._good: Snapshot | None = None
        self._environment: dict[str, dict[str, bytes]] = {}
        self._loaded_directories: dict[str, str] = {}
        self._described = {one: describe(one) for one in settings.directories}
        self._seen_directories: dict[str, str] = {}
        self._unreadable = ""
        self._link_looks = 0
        self._checks = {"passed": 0, "failed": 0, "trouble": 0}
        self._last_pass = self._loop.now()
        self._timers: dict[str, Timer] = {}
        self._ending = False
        self._status: int | None = None

    def run(self) -> int:
        """Work until told to end; gives the exit status."""
        try:
            self._begin()
            while self._status is None:
                self._loop.turn()
                self._decide()
            return self._status
        finally:
            self._children.kill_all()
            self._server.close()
            self._detector.close()
            self._checker.close()
            self._loop.close()

    def _remembered(self, rule: Rule) -> Progress:
        known = self._memory.rules.get(rule.name)
        return Progress(tried=known[0], done=known[1]) if known else Progress()

    # Start and end

    def _begin(self) -> None:
        self._loop.on_signals([signal.SIGTERM, signal.SIGINT], lambda _: self._end())
        self._loop.on_signals([signal.SIGHUP], self._hang_up)
        if self._settings.application:
            self._loop.on_signals(_FORWARDED, self._supervisor.forward)
            if not take_orphans():
                self._log.warning("start", "what the application orphans is not ours to reap")
        if (descriptor := self._detector.fileno()) >= 0:
            self._loop.watch(descriptor, READ, self._swapped)
        self._server.listen()
        self._say_what_is_there()
        self._read_announcement()
        self._read()
        self._decide()
        self._pass_again()

    def _say_what_is_there(self) -> None:
        for text in (*self._settings.notes, self._memory.problem, self._server.problem):
            if text:
                self._log.warning("start", text)
        for directory in self._described.values():
            if directory.note:
                self._log.warning("directory", directory.note)
        statistics = self._detector.statistics()
        if statistics.reason:
            self._log.warning("detector", statistics.reason, mode=statistics.mode)
        self._log.info(
            "started",
            "watching",
            directories=",".join(self._settings.directories),
            detector=statistics.mode,
            port=self._server.port or None,
        )

    def _end(self) -> None:
        self._log.info("ending", "told to end")
        self._ending = True
        self._children.kill_all()
        if self._supervisor.running:
            self._supervisor.end()
        else:
            self._status = 0

    def _hang_up(self, number: int) -> None:
        if self._settings.forward_hup and self._supervisor.running:
            self._supervisor.forward(number)
            return
        self._log.info("look", "told to look now")
        self._gate.forget()
        for state in self._rules:
            state.progress.hurry()
        self._pass()
        self._read()

    def _application_ended(self, status: int) -> None:
        if not self._ending:
            self._log.warning("application", f"it ended with status {status}, so we end, too")
        self._ending = True
        self._status = status

    # Detection

    def _swapped(self) -> None:
        self._note_changes(self._detector.changed())

    def _pass_again(self) -> None:
        self._pass()
        if self._unreadable:
            self._read()
        self._again("pass", self._loop.now() + self._interval(), self._pass_again)

    def _interval(self) -> float:
        wanted = self._settings.check_interval or self._detector.poll_interval
        return min(wanted, _RETRY_READ) if self._unreadable else wanted

    def _pass(self) -> None:
        self._note_changes(self._detector.poll())
        if self._target_directory:
            self._read_announcement()
        self._server.listen()
        look_at_the_clock()
        self._last_pass = self._loop.now()

    def _note_changes(self, changed: list[str]) -> None:
        if self._target_directory in changed:
            self._read_announcement()
        if any(one in self._settings.directories for one in changed):
            self._settle.touch(self._loop.now())
            self._wait_until_settled()

    def _wait_until_settled(self) -> None:
        due = self._settle.due_at()
        if due is None:
            return
        if due <= self._loop.now():
            self._read()
        else:
            self._again("settle", due, self._read)

    def _read(self) -> None:
        if self._link_looks < _LINKS_LOOKS and self._detector.incomplete():
            self._link_looks += 1
            self._again("settle", self._loop.now() + _LINKS_PAUSE, self._read)
            return
        self._link_looks = 0
        self._settle.clear()
        try:
            snapshot = self._detector.read()
        except NotReadable as error:
            if str(error) != self._unreadable:
                self._unreadable = str(error)
                self._log.warning("unreadable", self._unreadable)
                self._again("pass", self._loop.now() + _RETRY_READ, self._pass_again)
            return
        if self._unreadable:
            self._unreadable = ""
            self._described = {one: describe(one) for one in self._settings.directories}
        if snapshot.digest != self._gate.seen:
            self._log.info("seen", "content", digest=snapshot.digest)
        self._gate.see(snapshot.digest)
        self._seen_directories = snapshot.directories
        self._snapshot = snapshot
        self._relate()
        if not self._gate.undecided and self._gate.checking is None:
            self._snapshot = None  # nothing more is asked of it; values are not kept
            if self._gate.seen == self._gate.good:
                self._want(snapshot)

    def _read_announcement(self) -> None:
        try:
            with open(self._settings.target_file, encoding="utf-8", errors="replace") as file:
                found = read_announcement(file.read())
        except OSError:
            return
        if found == self._announcement or found is None:
            return
        self._announcement = found
        self._log.info("announced", "target", sequence=found.sequence, live=found.live)
        self._relate()
        now = self._loop.now()
        for state in self._rules:
            if state.rule.name == FROZEN:
                if state.progress.tried is None:
                    # What was announced at first sight is what the containers started with.
                    state.progress.adopt(found.frozen)
                    self._remember()
                state.progress.want(found.frozen, now)

    def _relate(self) -> None:
        live = self._announcement.live if self._announcement else None
        self._relation = self._pairing.relation(live, self._gate.seen)

    # Decisions

    def _decide(self) -> None:
        if self._ending:
            return
        now = self._loop.now()
        if self._gate.due(now):
            self._check()
        for state in self._rules:
            if state.progress.due(now) and (state.rule.name == FROZEN or self._good is not None):
                self._attempt(state)
        times = [s.progress.retry_at for s in self._rules if self._waits(s.progress)]
        if self._gate.undecided and self._gate.checking is None:
            times.append(self._gate.retry_at)
        if times and not self._ending:
            self._again("retry", min(times), lambda: None)

    @staticmethod
    def _waits(progress: Progress) -> bool:
        return progress.pending and not progress.running

    def _wait(self, failures: int) -> float:
        return pause(
            failures,
            first=self._settings.retry_first,
            last=self._settings.retry_last,
            random=random.random,
        )

    def _check(self) -> None:
        snapshot = self._snapshot
        if snapshot is None or snapshot.digest != self._gate.seen:
            self._read()
            snapshot = self._snapshot
            if snapshot is None or not self._gate.undecided:
                self._gate.postpone(self._loop.now() + _RETRY_READ)
                return
        self._gate.begin()

        def checked(verdict: str, error: str) -> None:
            if verdict == "passed":
                self._passed(snapshot)
            elif verdict == "refused":
                self._refuse(error)
            else:
                self._trouble(error)

        self._checker.check(snapshot, checked)

    def _refuse(self, error: str) -> None:
        self._checks["failed"] += 1
        self._gate.refuse(error)
        self._snapshot = None
        self._log.warning("refused", error, digest=self._gate.refused)
        if self._settings.once:
            self._status = 1

    def _trouble(self, error: str) -> None:
        self._checks["trouble"] += 1
        self._gate.trouble(error, now=self._loop.now(), wait=self._wait)
        self._log.warning("check", error)

    def _passed(self, snapshot: Snapshot) -> None:
        if self._stage is not None:
            try:
                self._stage.publish(snapshot.contents)
            except (OSError, HotmapError) as error:
                self._trouble(f"{self._settings.stage} cannot be written: {error}")
                return
        self._checks["passed"] += 1
        self._gate.passed()
        if self._gate.seen == snapshot.digest:
            self._snapshot = None
        self._environment = {
            one.directory: snapshot.contents[one.directory] for one in self._settings.env_from
        }
        first = self._good is None
        self._want(snapshot)
        if self._settings.once:
            self._log.info("done", "checked and published", digest=snapshot.digest)
            self._status = 0
        elif first and self._settings.application:
            self._start_application()

    def _want(self, snapshot: Snapshot) -> None:
        """Give every rule what it should have loaded; what is kept of a snapshot is digests."""
        self._good = snapshot._replace(contents={})
        now = self._loop.now()
        for state in self._rules:
            if state.rule.name == FROZEN:
                continue
            state.files = state.choose(snapshot.files)
            state.progress.want(tree_digest(state.files, self._memory.key), now)
        self._note_loaded()

    # Actions

    def _attempt(self, state: Followed) -> None:
        progress = state.progress
        if state.loaded_at_start():
            self._log.info("adopted", "loaded at its start already", rule=state.rule.name)
            state.adopt()
            self._remember()
            self._note_loaded()
            return
        changed = changed_files(state.loaded_files, state.files)
        state.attempted_files = state.files
        position = progress.begin()
        self._remember()
        Attempt(
            state.rule,
            position,
            changed,
            progress.wanted_since,
            self._surroundings,
            lambda error, place: self._attempted(state, error, place),
        ).start()

    def _attempted(self, state: Followed, error: str, position: int) -> None:
        now, name = self._loop.now(), state.rule.name
        if error:
            state.failures += 1
            if error != state.progress.error:
                self._log.warning("failed", error, rule=name, digest=state.progress.tried)
            state.progress.failed(error, position=position, now=now, wait=self._wait)
        else:
            state.progress.succeeded(now)
            state.loads += 1
            state.loaded_at = wall()
            state.loaded_files = state.attempted_files
            self._log.info("loaded", "done", rule=name, digest=state.progress.loaded)
        self._remember()
        self._note_loaded()

    def _remember(self) -> None:
        problem = self._memory.problem
        self._memory.rules = {
            state.rule.name: (state.progress.tried, state.progress.done)
            for state in self._rules
            if state.progress.tried is not None
        }
        self._memory.write()
        if self._memory.problem and self._memory.problem != problem:
            self._log.warning("state", self._memory.problem)

    def _note_loaded(self) -> None:
        if self._good is not None and not any(s.progress.pending for s in self._rules):
            self._loaded_directories = dict(self._good.directories)

    def _called(self, call: Call, status: int, seconds: float, error: str) -> None:
        self._calls.record(call.url, status, seconds, error)

    # The application

    def _start_application(self) -> None:
        for state in self._rules:
            if state.rule.name != FROZEN and state.progress.wanted is not None:
                state.adopt()
        words, environment = self._application()
        self._supervisor.start(words, environment)
        self._remember()
        self._note_loaded()
        self._log.info("application", "started", pid=self._supervisor.pid)

    def _application(self) -> tuple[list[str], dict[str, str]]:
        environment = make_environment(
            os.environ, self._environment, self._settings.env_from, self._settings.env
        )
        return [expand(word, environment) for word in self._settings.application], environment

    def _restart_application(self, done: Callable[[], None]) -> None:
        def started() -> None:
            self._log.info("application", "started anew", pid=self._supervisor.pid)
            done()

        self._supervisor.restart(*self._application(), started)

    def _restart_all(self) -> None:
        self._log.info("restart", "ending, so that the kubelet restarts all containers of the pod")
        self._ending = True
        self._status = ALL_CONTAINERS_STATUS

    # Reports

    def _respond(self, path: str) -> tuple[int, str, bytes]:
        import json

        text = "text/plain; charset=utf-8"
        if path == self._settings.metrics_path:
            page = render_metrics(self.status(), self._calls)
            return 200, "text/plain; version=0.0.4; charset=utf-8", page.encode()
        if path == "/status":
            return 200, "application/json", json.dumps(self.status()).encode() + b"\n"
        if path == "/healthz":
            late = self._loop.now() - self._last_pass
            return (
                (503 if late > _MISSED * self._interval() else 200),
                text,
                f"{late:.1f}\n".encode(),
            )
        if path == "/startupz":
            return (200 if self._good is not None else 503), text, b""
        if path == "/readyz":
            state = self.status()["state"]
            ready = bool(self._loaded_directories)
            return (200 if ready else 503), text, f"{state}\n".encode()
        return 404, text, b"there are /status, /metrics, /healthz, /startupz and /readyz\n"

    def status(self) -> dict[str, Any]:
        """Describe everything that may be shown, as JSON values."""
        now = self._loop.now()
        gate, announcement = self._gate, self._announcement
        detector = self._detector.statistics()
        rules = [state.status(now) for state in self._rules]
        state, message = overall(
            unreadable=self._unreadable,
            check=gate.state,
            check_error=gate.error,
            rules=rules,
            moving=gate.undecided or self._settle.due_at() is not None or self._good is None,
        )
        seen = self._seen_directories
        return {
            "state": state,
            "message": message,
            "directories": [
                {
                    "directory": one,
                    "kind": self._described[one].kind,
                    "note": self._described[one].note,
                    "projected": seen.get(one),
                    "good": self._good.directories.get(one) if self._good else None,
                    "loaded": self._loaded_directories.get(one),
                }
                for one in self._settings.directories
            ],
            "rules": rules,
            "check": {
                "state": gate.state,
                "error": gate.error,
                "counts": dict(self._checks),
            },
            "target": {
                "announced": announcement.live if announcement else None,
                "frozen": announcement.frozen if announcement else None,
                "sequence": announcement.sequence if announcement else None,
                "relation": self._relation,
            },
            "detector": {
                "mode": detector.mode,
                "reason": detector.reason,
                "watched": detector.watched,
                "swaps": detector.swaps,
                "swaps_by_poll": detector.swaps_by_poll,
                "watches_lost": detector.watches_lost,
                "overflows": detector.overflows,
            },
            "application": {"pid": self._supervisor.pid, "starts": self._supervisor.starts},
            "last_pass_age_seconds": round(now - self._last_pass, 3),
            "problems": [one for one in (self._server.problem, self._memory.problem) if one],
        }

    # Timers

    def _again(self, name: str, when: float, call: Callable[[], None]) -> None:
        if old := self._timers.get(name):
            if old.at == when and not old.cancelled:
                return
            old.cancel()
        self._timers[name] = self._loop.at(when, call)
