"""Random histories of a workload with agents, from an edit to what its processes have loaded."""

from __future__ import annotations

import logging
import random
from typing import NamedTuple

from tests.simulation.agent_cluster import AgentCluster
from tests.simulation.agent_controller import AgentController
from tests.simulation.applications import REFUSED
from tests.simulation.pods import AGENT_TEMPLATES, RESTARTED_IN_PLACE, SOURCES

from hotmap.core.model.state import read_shard
from hotmap.core.status.consumer import ConsumerStatus, State

__all__ = ["AgentHistoryResult", "broken_promise", "play_agent_history", "report"]

#: Seconds of a step while things happen, and once it is quiet.
_STEP, _QUIET_STEP = 0.1, 1.0

#: Seconds after which everything is loaded, once nothing happens: a kubelet syncs its pods, agents
#: are queried again, and attempts are repeated.
_CALM = 300.0

#: Seconds for which that has to stay so.
_STAYS = 8.0

#: What happens, and how often beside the rest.
_EVENTS = {
    "edit": 12,
    "revert": 6,
    "flip": 6,
    "remove": 2,
    "recreate": 2,
    "delete": 1,
    "seal": 1,
    "sync": 3,
    "restart_agent": 4,
    "crash": 3,
    "evict": 2,
    "scale": 1,
    "template": 1,
    "down": 3,
    "crash_controller": 1,
    "cut_off": 2,
    "lose_responses": 1,
}

#: What a history has in its log if pods with the present content may be called older.
_EXCUSES = (" crash_controller ", "crashed before it recorded", " seal ")

#: Seconds between two events.
_PAUSES = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 4.0, 15.0, 100.0)


class AgentHistoryResult(NamedTuple):
    """How a history ended."""

    status: ConsumerStatus | None
    #: What processes hold at the end that is not the present content.
    stale: tuple[str, ...]
    #: What was said in the middle of it that was not so.
    false: str
    #: Whether new pods could not start, or something was refused.
    blocked: bool
    #: Whether agents restart containers in place for what is read at start.
    in_place: bool
    #: What happened, in words.
    log: tuple[str, ...]


def broken_promise(result: AgentHistoryResult) -> str:
    """Return which promise a history breaks, "" for none."""
    if result.false:
        return result.false
    status = result.status
    if status is None:
        return ""
    # Where other content comes and goes while an agent is away, it restarts nothing.
    is_named = result.in_place and status.state is State.LATENT
    if result.stale and not (result.blocked or is_named):
        return f"left behind as {status.state.value} ({status.reason}): {'; '.join(result.stale)}"
    # What a controller knows of the time of a change, and has not written, is lost in a crash.
    excused = is_named or any(reason in line for line in result.log for reason in _EXCUSES)
    if not (result.blocked or excused or status.is_reached):
        return f"everything is loaded, and it is {status.state.value} ({status.reason})"
    return ""


def report(seed: int, result: AgentHistoryResult) -> str:
    """Report a history that breaks a promise."""
    return "\n  ".join([f"history {seed}: {broken_promise(result)}", *result.log])


class _Errors(logging.Handler):
    """Keeps what the controller logs as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(self.format(record))


class _AgentHistory:
    def __init__(self, seed: int, template: int | None) -> None:
        chance = self._chance = random.Random(seed)
        drawn = chance.choice(AGENT_TEMPLATES)
        kind = chance.choice(("Deployment", "Deployment", "StatefulSet", "DaemonSet"))
        self._cluster = AgentCluster(chance, kind, drawn if template is None else template)
        self._controller = AgentController(self._cluster, chance)
        self._before: dict[str, dict[str, str] | None] = {}
        self._log: list[str] = []
        self._false = ""
        self._errors = _Errors()

    def run(self) -> AgentHistoryResult:
        chance, controller = self._chance, self._controller
        logger = logging.getLogger("hotmap")
        logger.addHandler(self._errors)
        try:
            # Changes before the first sight are unknown: managedFields show no removal.
            while not (controller.is_up and read_shard(controller.state)):
                if not controller.is_up:
                    controller.start()
                self._pass(2.0)
            self._pass(chance.choice((0.5, 3.0, 30.0)))
            for _ in range(chance.randint(3, 12)):
                self._disturb()
                self._pass(chance.choice(_PAUSES))
            return self._end()
        finally:
            logger.removeHandler(self._errors)
            controller.close()

    def _pass(self, seconds: float, step: float = _STEP) -> None:
        cluster, controller = self._cluster, self._controller
        ends = cluster.now + seconds
        while cluster.now < ends:
            is_quiet = step == _STEP and ends - cluster.now > 10 and seconds > 50
            cluster.now += (_QUIET_STEP if is_quiet else step) * self._chance.uniform(0.5, 1.5)
            cluster.step()
            controller.step()
            if not self._false:
                self._false = self._find_false()

    def _find_false(self) -> str:
        cluster, controller = self._cluster, self._controller
        if self._errors.found:
            return self._errors.found[0]
        if wrong := cluster.wrong_claims():
            return f"at {cluster.now:.2f} {'; '.join(wrong)}"
        if needless := cluster.needless_calls():
            return f"at {cluster.now:.2f} {'; '.join(needless)}"
        if not (controller.is_up and controller.is_idle and not controller.is_cut_off):
            return ""
        if not cluster.old_content(all_processes=True):
            return ""
        status = controller.get_status()
        if status is None or not status.is_reached:
            return ""
        only_files = status.state is State.DELIVERED
        if old := cluster.old_content(files=only_files, all_processes=not only_files):
            said = f"called {status.state.value} ({status.reason})"
            return f"at {cluster.now:.2f} {said}, but {'; '.join(old)}"
        return ""

    # -- events --------------------------------------------------------------------------------

    def _disturb(self) -> None:
        kind = self._chance.choices(tuple(_EVENTS), tuple(_EVENTS.values()))[0]
        name = self._chance.choice(SOURCES)
        getattr(self, f"_{kind}")(name)
        self._note(f"{kind} {name}")

    def _note(self, what: str) -> None:
        cluster, up = self._cluster, "up" if self._controller.is_up else "down"
        self._log.append(
            f"{cluster.now:.2f} {what}: one {cluster.data('one')}, two {cluster.data('two')}, {up}"
        )

    def _write(self, name: str, data: dict[str, str] | None) -> None:
        self._before[name] = self._cluster.data(name)
        self._cluster.write(name, data)

    def _edit(self, name: str) -> None:
        chance = self._chance
        data = self._cluster.data(name) or {"a": "0", "name": name}
        self._write(name, {**data, chance.choice("abc"): chance.choice("012")})

    def _revert(self, name: str) -> None:
        if self._before.get(name) is not None:
            self._write(name, self._before[name])

    def _flip(self, name: str) -> None:
        """Edit a source and revert that soon; a process may start in between."""
        self._edit(name)
        self._pass(self._chance.choice((0.3, 0.5, 1.0, 2.0)))
        if self._chance.random() < 0.5:
            self._cluster.crash_container()
            self._pass(self._chance.choice((0.1, 0.5, 1.5)))
        self._revert(name)

    def _remove(self, name: str) -> None:
        if data := self._cluster.data(name):
            gone = self._chance.choice(sorted(data.keys() - {"name"}) or ["a"])
            self._write(name, {key: value for key, value in data.items() if key != gone})

    def _recreate(self, name: str) -> None:
        if (data := self._cluster.data(name)) is not None:
            self._write(name, None)
            self._pass(self._chance.choice((0.0, 0.5, 3.0)))
            self._cluster.write(name, {**data, "b": self._chance.choice("012")})

    def _delete(self, name: str) -> None:
        if not self._cluster.is_kept(name):
            self._write(name, None)

    def _seal(self, name: str) -> None:
        if self._chance.random() < 0.3:
            self._cluster.seal(name)

    def _sync(self, name: str) -> None:
        self._cluster.sync_pod()

    def _restart_agent(self, name: str) -> None:
        self._cluster.restart_agent()

    def _crash(self, name: str) -> None:
        self._cluster.crash_container()

    def _evict(self, name: str) -> None:
        self._cluster.evict()

    def _scale(self, name: str) -> None:
        self._cluster.scale(self._chance.choice((1, 2, 3)))

    def _template(self, name: str) -> None:
        self._cluster.set_template(self._cluster.template.spec, self._chance.randrange(3))

    def _down(self, name: str) -> None:
        if self._controller.is_up:
            self._controller.stop(crash=False)
        else:
            self._controller.start()

    def _crash_controller(self, name: str) -> None:
        if self._controller.is_up:
            self._controller.stop(crash=True)

    def _cut_off(self, name: str) -> None:
        if self._controller.is_cut_off:
            self._controller.reconnect(listing=self._chance.random() < 0.5)
        else:
            self._controller.cut_off(outage=self._chance.random() < 0.5)

    def _lose_responses(self, name: str) -> None:
        self._controller.api.loses_responses ^= True

    # -- the end -------------------------------------------------------------------------------

    def _end(self) -> AgentHistoryResult:
        """Let everything go on, with content that is accepted, and wait until it is loaded."""
        cluster, controller = self._cluster, self._controller
        controller.reconnect(listing=self._chance.random() < 0.5)
        controller.api.loses_responses, cluster.unreachable = False, 0.0
        for name in SOURCES:
            data = cluster.first_data(name) | (cluster.data(name) or {})
            accepted = {key: value if value != REFUSED else "1" for key, value in data.items()}
            self._write(name, accepted)
        self._note("ends")
        began = reached_at = cluster.now
        while cluster.now < began + _CALM and cluster.now < reached_at + _STAYS:
            if not controller.is_up:
                controller.start()
            self._pass(1.0, _STEP if cluster.now < began + 10 else _QUIET_STEP)
            if not self._is_reached():
                reached_at = cluster.now
        is_kept = any(cluster.is_kept(name) for name in SOURCES)
        return AgentHistoryResult(
            controller.get_status(),
            tuple(cluster.old_content()),
            self._false,
            is_kept
            or cluster.missing([cluster.template])
            or cluster.controller.holds_back
            or not cluster.is_settled,
            cluster.template.spec == RESTARTED_IN_PLACE,
            tuple(sorted([*self._log, *controller.said], key=lambda line: float(line.split()[0]))),
        )

    def _is_reached(self) -> bool:
        """Return whether everything is loaded, and the controller says so."""
        cluster, status = self._cluster, self._controller.get_status()
        is_loaded = cluster.is_settled and not cluster.old_content()
        return is_loaded and status is not None and status.is_reached


def play_agent_history(seed: int, template: int | None = None) -> AgentHistoryResult:
    """Play one history, of a template with agents or of any; equal seeds give equal ones."""
    return _AgentHistory(seed, template).run()
