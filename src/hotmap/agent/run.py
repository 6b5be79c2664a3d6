"""Joins the parts on one loop: what is read goes to the gate, what passed goes to the rules.

Each turn of the loop ends in `_decide`, which looks at everything anew; so whatever woke the loop
(a swap, a timer, a child that ended) only says that it is time to look.
"""

from __future__ import annotations

import os
import signal

from hotmap.agent.act import Attempt, Surroundings, changed_files
from hotmap.agent.application import Application
from hotmap.agent.checking import Checker
from hotmap.agent.children import Children
from hotmap.agent.clock import wall
from hotmap.agent.decide import Gate, Progress, pause
from hotmap.agent.digest import tree_digest
from hotmap.agent.directories import Directories
from hotmap.agent.following import Followed
from hotmap.agent.log import Log
from hotmap.agent.loop import Alarm, Loop
from hotmap.agent.memory import Memory
from hotmap.agent.observe import Observer
from hotmap.agent.pages import Pages
from hotmap.agent.processes import look_at_the_clock
from hotmap.agent.report import Calls
from hotmap.agent.server import Server
from hotmap.agent.settings import ALL_CONTAINERS_STATUS, FROZEN
from hotmap.agent.stage import Stage
from hotmap.agent.status import make_status
from hotmap.core.errors import HotmapError

__all__ = ["Agent"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hotmap.agent.announcement import Announcement
    from hotmap.agent.detect import Snapshot
    from hotmap.agent.http import Call
    from hotmap.agent.settings import Rule, Settings

#: Seconds until content that is to be checked is looked for again, when it cannot be read.
_RETRY_READ = 1.0


class Agent:
    """Everything that one start of the agent holds."""

    def __init__(self, settings: Settings, loop: Loop) -> None:
        self._settings = settings
        self._log = Log(settings.log_format)
        self._loop = loop
        self._children = Children(loop)
        self._memory = Memory(settings.state)
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
        self._directories = Directories(settings.directories)
        self._observer = Observer(
            loop, self._log, settings, self._memory.key,
            seen=self._see, announced=self._announced, passed=self._passed_by,
        )  # fmt: skip
        self._application = Application(
            loop, self._children, self._log, settings, ended=self._application_ended
        )
        self._calls = Calls(
            action.call.url for rule in settings.rules for action in rule.actions if action.call
        )
        self._surroundings = Surroundings(
            loop, self._children, settings, self._application.process,
            self._application.restart, self._restart_all, self._called,
        )  # fmt: skip
        pages = Pages(
            settings.metrics_path, self._calls, self._observer, status=self.status,
            started=lambda: self._good is not None,
            ready=lambda: self._directories.all_loaded_once,
        )  # fmt: skip
        #: Gives status, content type and body of a page.
        self.respond = pages.respond
        self._server = Server(loop, settings.listen, settings.socket, self.respond)
        #: The content that is to be checked; the content that passed, by digests alone.
        self._snapshot: Snapshot | None = None
        self._good: Snapshot | None = None
        self._checks = {"passed": 0, "failed": 0, "trouble": 0}
        self._retry_alarm = Alarm(loop, lambda: None)
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
            self._observer.close()
            self._checker.close()
            self._loop.close()

    def _remembered(self, rule: Rule) -> Progress:
        known = self._memory.rules.get(rule.name)
        return Progress(tried=known[0], done=known[1]) if known else Progress()

    # Start and end

    def _begin(self) -> None:
        self._loop.on_signals([signal.SIGTERM, signal.SIGINT], lambda _: self._end())
        self._loop.on_signals([signal.SIGHUP], self._hang_up)
        self._application.begin()
        self._server.listen()
        for text in (*self._settings.notes, self._memory.problem, self._server.problem):
            if text:
                self._log.warning("start", text)
        self._log.info(
            "started",
            "watching",
            directories=",".join(self._settings.directories),
            detector=self._observer.statistics().mode,
            port=self._server.port or None,
        )
        self._observer.begin()
        self._decide()

    def _end(self) -> None:
        self._log.info("ending", "told to end")
        self._ending = True
        self._children.kill_all()
        if self._application.running:
            self._application.end()
        else:
            self._status = 0

    def _hang_up(self, number: int) -> None:
        if self._settings.forward_hup and self._application.running:
            self._application.forward(number)
            return
        self._log.info("look", "told to look now")
        self._gate.forget()
        for state in self._rules:
            state.progress.hurry()
        self._observer.pass_now()
        self._observer.look()

    def _application_ended(self, status: int) -> None:
        if not self._ending:
            self._log.warning("application", f"it ended with status {status}, so we end, too")
        self._ending = True
        self._status = status

    # What was seen

    def _passed_by(self) -> None:
        self._server.listen()
        look_at_the_clock()

    def _see(self, snapshot: Snapshot) -> None:
        if snapshot.digest != self._gate.seen:
            self._log.info("seen", "content", digest=snapshot.digest)
        self._gate.see(snapshot.digest)
        self._directories.project(snapshot, self._loop.now())
        self._snapshot = snapshot
        if not self._gate.undecided and self._gate.checking is None:
            self._snapshot = None  # nothing more is asked of it; values are not kept
            if self._gate.seen == self._gate.good:
                self._want(snapshot)

    def _announced(self, found: Announcement) -> None:
        self._log.info("announced", "target", sequence=found.sequence, live=found.live)
        self._directories.announce(found)
        for state in self._rules:
            if state.rule.name == FROZEN:
                if state.progress.tried is None:
                    # What was announced at first sight is what the containers started with.
                    state.progress.adopt(found.frozen)
                    self._remember()
                state.progress.want(found.frozen, self._loop.now())

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
            self._retry_alarm.set(min(times))

    @staticmethod
    def _waits(progress: Progress) -> bool:
        return progress.pending and not progress.running

    def _wait(self, failures: int) -> float:
        return pause(
            failures,
            first=self._settings.retry_first,
            last=self._settings.retry_last,
            random=_chance,
        )

    def _check(self) -> None:
        snapshot = self._snapshot
        if snapshot is None or snapshot.digest != self._gate.seen:
            self._observer.look()
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
        self._application.take(snapshot)
        first = self._good is None
        self._want(snapshot)
        if self._settings.once:
            self._log.info("done", "checked and published", digest=snapshot.digest)
            self._status = 0
        elif first and self._application.wanted:
            self._start_application()

    def _want(self, snapshot: Snapshot) -> None:
        """Give every rule what it should have loaded; what is kept of a snapshot is digests."""
        self._good = snapshot._replace(contents={})
        self._directories.pass_check(snapshot)
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
        pending = [d for s in self._rules if s.progress.pending for d in s.directories]
        self._directories.load(pending, self._loop.now())

    def _called(self, call: Call, status: int, seconds: float, error: str) -> None:
        self._calls.record(call.url, status, seconds, error)

    def _start_application(self) -> None:
        for state in self._rules:
            if state.rule.name != FROZEN and state.progress.wanted is not None:
                state.adopt()
        self._application.start()
        self._remember()
        self._note_loaded()

    def _restart_all(self) -> None:
        self._log.info("restart", "ending, so that the kubelet restarts all containers of the pod")
        self._ending = True
        self._status = ALL_CONTAINERS_STATUS

    # Reports

    def status(self) -> dict[str, Any]:
        """Describe everything that may be shown, as JSON values."""
        return make_status(
            self._loop.now(),
            observer=self._observer,
            gate=self._gate,
            checks=self._checks,
            rules=self._rules,
            directories=self._directories,
            application=self._application.status(),
            undecided=self._gate.undecided or self._good is None,
            problems=[
                one
                for one in (self._server.problem, self._memory.problem, self._observer.problem)
                if one
            ],
        )


def _chance() -> float:
    """Choose a number from 0 to 1; the random module is much for one number."""
    return int.from_bytes(os.urandom(4), "big") / 2**32
