"""Random histories of one Deployment, and what has to be true of each once it is quiet."""

from __future__ import annotations

import random
from typing import NamedTuple

from tests.simulation.cluster import SOURCES, TEMPLATES, Cluster
from tests.simulation.controller import Controller, State

from hotmap.core.model.state import read_shard

__all__ = ["HistoryResult", "run_history"]

#: Seconds, more or less, by which time goes on at once.
STEP = 0.25

#: What happens, and how often beside the rest.
_OFTEN = {
    "edit": 10,
    "remove": 4,
    "label": 1,
    "recreate": 1,
    "template": 4,
    "undo": 3,
    "scale": 3,
    "pause": 1,
    "evict": 2,
    "crash": 2,
    "down": 5,
    "cut_off": 5,
}


class HistoryResult(NamedTuple):
    """How a history ended."""

    state: State
    reason: str
    #: What pods hold that is not the present content.
    stale: tuple[str, ...]
    #: Whether new pods could not start, or wait for somebody.
    blocked: bool
    rollouts: int
    #: What happened, in words.
    log: tuple[str, ...]

    @property
    def is_false(self) -> bool:
        """Whether it is called up to date and is not."""
        return self.state is State.CURRENT and bool(self.stale)


class _History:
    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._rereads = self._chance.random() < 0.3
        self._cluster = Cluster(self._chance)
        self._controller = Controller(self._cluster, self._chance, rereads=self._rereads)
        self._log: list[str] = []

    def run(self) -> HistoryResult:
        chance = self._chance
        # Changes before the first sight are unknown: managedFields show no removal.
        while not (self._controller.is_up and read_shard(self._controller.state)):
            if not self._controller.is_up:
                self._controller.start()
            self._pass(2)
        self._pass(chance.choice((0.5, 3.0, 30.0)))
        for _ in range(chance.randint(4, 14)):
            self._disturb()
            self._pass(chance.choice((0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 15.0)))
        return self._end()

    def _pass(self, seconds: float) -> None:
        for _ in range(round(seconds / STEP)):
            self._cluster.now += STEP * self._chance.uniform(0.8, 1.2)
            if self._chance.random() < 0.7:
                self._cluster.step()
            self._controller.step()

    def _disturb(self) -> None:
        chance, cluster = self._chance, self._cluster
        name = chance.choice(SOURCES)
        kind = chance.choices(tuple(_OFTEN), tuple(_OFTEN.values()))[0]
        if kind in ("edit", "remove", "label", "recreate"):
            getattr(self, f"_{kind}")(name)
        else:
            name = ""
            getattr(self, f"_{kind}")()
        up = "up" if self._controller.is_up else "down"
        self._log.append(
            f"{cluster.now:.1f} {kind} {name}: one {cluster.data('one')}, two"
            f" {cluster.data('two')}, {cluster.template}, {cluster.replicas} replicas, {up}"
        )

    def _edit(self, name: str) -> None:
        data = self._cluster.data(name) or {"a": "0"}
        edited = {self._chance.choice("abc"): self._chance.choice("012")}
        self._cluster.write(name, {**data, **edited})

    def _remove(self, name: str) -> None:
        if data := self._cluster.data(name):
            gone = self._chance.choice(sorted(data))
            self._cluster.write(name, {key: data[key] for key in data if key != gone})

    def _label(self, name: str) -> None:
        if (data := self._cluster.data(name)) is not None:
            self._cluster.write(name, data, label=True)

    def _recreate(self, name: str) -> None:
        if (data := self._cluster.data(name)) is not None:
            self._cluster.write(name, None)
            self._pass(self._chance.choice((0.0, 0.5, 3.0)))
            self._cluster.write(name, {key: self._chance.choice("012") for key in data})

    def _template(self) -> None:
        spec, image = self._chance.randrange(len(TEMPLATES)), self._chance.randrange(3)
        self._cluster.set_template(spec, image)

    def _undo(self) -> None:
        self._cluster.undo()

    def _scale(self) -> None:
        self._cluster.scale(self._chance.choice((0, 1, 2, 3)))

    def _pause(self) -> None:
        self._cluster.pause(paused=not self._cluster.paused)

    def _evict(self) -> None:
        self._cluster.evict()

    def _crash(self) -> None:
        self._cluster.crash_container()

    def _down(self) -> None:
        if self._controller.is_up:
            self._controller.stop(crash=self._chance.random() < 0.5)
        else:
            self._controller.start()

    def _cut_off(self) -> None:
        if self._controller.is_cut_off:
            self._controller.reconnect(listing=self._chance.random() < 0.5)
        else:
            self._controller.cut_off()

    def _end(self) -> HistoryResult:
        cluster, controller = self._cluster, self._controller
        controller.reconnect(listing=self._chance.random() < 0.5)
        for name in SOURCES:  # what everybody needs
            if cluster.data(name) is None or "a" not in (cluster.data(name) or {}):
                cluster.write(name, {**(cluster.data(name) or {}), "a": "0"})
        cluster.pause(paused=False)
        for _ in range(60):
            if not controller.is_up:
                controller.start()
            self._pass(10)
            if cluster.is_settled and controller.is_up and controller.is_idle:
                break
        self._pass(125)  # kubelets sync, pods are checked
        for pod in cluster.pods:
            cluster.refresh_files(pod)
        if not controller.is_up:
            controller.start()
        self._pass(125)
        status = controller.status()
        return HistoryResult(
            status.state,
            status.reason,
            tuple(cluster.stale_pods(rereads=self._rereads)),
            cluster.missing([cluster.template]),
            sum("rolling out" in one for one in controller.said),
            tuple(sorted([*self._log, *controller.said], key=lambda one: float(one.split()[0]))),
        )


def run_history(seed: int) -> HistoryResult:
    """Play one history; equal seeds give equal ones."""
    return _History(seed).run()
