"""Random histories of one workload, and what has to be true of each once it is quiet."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from math import inf
from typing import NamedTuple

from tests.simulation.cluster import Backup, Cluster
from tests.simulation.controller import Controller, State
from tests.simulation.disturbances import EDITS, Disturbance, draw, pause_after
from tests.simulation.pods import BINARY, SOURCES, TEMPLATES

from hotmap.core.model.annotations import FLAP_LIMIT, SETTLE, STRATEGY, SUSPEND
from hotmap.core.model.state import read_shard

__all__ = ["CIRCUMSTANCES", "HistoryResult", "broken_promise", "report", "run_history"]

#: Seconds, more or less, by which time goes on at once.
STEP = 0.25

#: Seconds after which a controller has written what it saw, and what was deleted of that.
_WRITTEN = 2.0
_REWRITTEN = 6.0
_FOREVER = inf

#: The kinds of workloads, as often as they are played.
_KINDS = ("Deployment", "Deployment", "StatefulSet", "DaemonSet")


#: Steps between two looks at what the controller says while a history goes on.
_LOOK_EVERY = 4

#: What may happen in a history in addition, by name: a method of `_History` for each.
CIRCUMSTANCES = (
    "lost_response",
    "late_watch",
    "replace",
    "redeploy",
    "namespace",
    "strategy",
    "old_list",
    "replace_key",
    "old_state",
    "hours",
    "reread",
    "flags",
    "lagging_kind",
    "toggle",
    "owner",
    "meanwhile",
    "permission",
    "limits",
    "binary",
    "swap",
    "nudged",
    "clock",
    "restore",
    "older_list",
    "mixed",
)

#: How often that is what happens next.
_IN_ADDITION = 0.4

#: What a history has in its log if it is enough that pods with other content are named.
_EXCUSES = (
    " undo ",
    " is used now",
    "was immutable and has been recreated",
    " ignore ",
    " follow ",
    " lose_state ",
    " is not watched from its creation on",
    " pods are adopted with what was not applied",
    " is created before its sources",
)


#: How a line of its log ends if a controller saw a workload first after edits.
_UNSEEN = ("starts without its state", "is not watched from its creation on")


class HistoryResult(NamedTuple):
    """How a history ended."""

    state: State
    reason: str
    #: What pods hold that is not the present content.
    stale: tuple[str, ...]
    #: Whether new pods could not start, or wait for a user (OnDelete, a partition).
    blocked: bool
    rollouts: int
    #: What happened, in words.
    log: tuple[str, ...]
    #: Whether all pods are said to have proven the present content.
    is_proven: bool = False
    #: What pods hold of optional sources that do not exist any more.
    kept: tuple[str, ...] = ()
    #: What pods held when it was called up to date first and was not, in the middle of the history.
    too_early: str = ""

    @property
    def is_false(self) -> bool:
        """Whether it is called up to date and is not."""
        return self.state in (State.CURRENT, State.DELIVERED) and bool(self.stale or self.kept)


def broken_promise(result: HistoryResult) -> str:
    """Return which promise a history breaks, "" for none.

    Every change in it is seen by a controller, or leaves a difference to what was recorded. So the
    pods have to hold the present content once it is quiet, unless new ones could not start, or
    hotmap's rollouts were reverted, or a source came into use while no controller ran or was not
    followed for a while, or the state was lost, so that there was nothing to compare it with: then
    it is enough that they are named. Where a kubelet
    serves an immutable source that no controller has ever seen in use, nothing can be known.
    """
    if any(" served unseen " in line for line in result.log):
        return ""
    if result.too_early:
        return f"called up to date too early: {result.too_early}"
    if result.is_false and (result.is_proven or not _has_lost_state(result)):
        found = "; ".join((*result.stale, *result.kept))
        return f"called {result.state.value} ({result.reason}), but {found}"
    excused = any(reason in line for line in result.log for reason in _EXCUSES)
    if result.stale and not (result.blocked or excused):
        return f"left behind as {result.state.value} ({result.reason}): {'; '.join(result.stale)}"
    return ""


def _has_lost_state(result: HistoryResult) -> bool:
    """Return whether the controller saw sources first after an edit: they show no removal."""
    return any(line.endswith(_UNSEEN) for line in result.log)


def report(seed: int, result: HistoryResult) -> str:
    """Report a history that breaks a promise."""
    return "\n  ".join([f"history {seed}: {broken_promise(result)}", *result.log])


def _known_immutable(state: str) -> set[str]:
    """Return the uids of the immutable sources that a state has."""
    records = read_shard(state).values()
    uids = {use.uid for record in records for use in record.immutable_uses}
    found = (source for record in records for source in (*record.sources, *record.former))
    return uids | {source.uid for source in found if source.immutable}


class _Etcd(NamedTuple):
    """A backup of etcd: the workload's uid, the cluster, and the controller's state."""

    uid: str
    backup: Backup
    state: str


class _History:
    def __init__(self, seed: int, kind: str = "", circumstance: str = "") -> None:
        self._chance = random.Random(seed)
        self._circumstance = circumstance
        #: For what happens in addition, so that a seed is the same history without that.
        self._addition = random.Random(f"{circumstance} {seed}")
        self._rereads = self._chance.random() < 0.3
        self._cluster = Cluster(self._chance, kind or self._chance.choice(_KINDS))
        self._controller = Controller(self._cluster, self._chance, rereads=self._rereads)
        self._log: list[str] = []
        self._was_up = False
        self._steps = 0
        self._too_early = ""
        self._backup: str | None = None
        self._etcd: _Etcd | None = None

    def run(self) -> HistoryResult:
        chance = self._chance
        # Changes before the first sight are unknown: managedFields show no removal.
        while not (self._controller.is_up and read_shard(self._controller.state)):
            if not self._controller.is_up:
                self._controller.start()
            self._pass(2)
        self._pass(chance.choice((0.5, 3.0, 30.0)))
        for _ in range(chance.randint(4, 14)):
            if self._circumstance and self._addition.random() < _IN_ADDITION:
                self._add_circumstance()
            else:
                self._disturb()
            self._pass(pause_after(chance))
        return self._end()

    def _pass(self, seconds: float) -> None:
        for _ in range(round(seconds / STEP)):
            self._cluster.now += STEP * self._chance.uniform(0.8, 1.2)
            if self._chance.random() < 0.7:
                self._cluster.step()
            self._note_unseen()
            self._controller.step()
            self._steps += 1
            if self._steps % _LOOK_EVERY == 0 and not self._too_early:
                self._too_early = self._look()

    def _look(self) -> str:
        """Return what pods hold that are called up to date and are not, if nothing is to be done.

        What was not seen, or is not followed, is not judged.
        """
        cluster, controller = self._cluster, self._controller
        is_judged = controller.is_up and controller.is_idle and not controller.is_cut_off
        if (
            not is_judged
            or not cluster.is_followed
            or cluster.is_owned
            or not cluster.uid
            or any(cluster.is_ignored(name) for name in SOURCES)
        ):
            return ""
        stale = list(cluster.stale_pods(rereads=self._rereads))
        if not stale or controller.status().state not in (State.CURRENT, State.DELIVERED):
            return ""
        is_unseen = any(line.endswith(_UNSEEN) for line in (*self._log, *controller.said))
        if is_unseen and not controller.is_proven():
            return ""
        return f"at {cluster.now:.1f} {'; '.join(stale)}"

    def _note_unseen(self) -> None:
        """Note which immutable sources a kubelet keeps that the controller knows nothing of."""
        cluster, controller = self._cluster, self._controller
        while cluster.pinned_uids:
            uid = cluster.pinned_uids.pop(0)
            is_watching = controller.is_up and not controller.is_cut_off
            if not is_watching and uid not in _known_immutable(controller.state):
                self._log.append(f"{cluster.now:.1f} served unseen {uid}")
        if cluster.uid and not controller.is_watching and not controller.has_record(cluster.uid):
            line = f"{cluster.now:.1f} {cluster.uid} {_UNSEEN[1]}"
            if not any(each.endswith(f" {cluster.uid} {_UNSEEN[1]}") for each in self._log):
                self._log.append(line)
        if controller.is_up:
            self._was_up = True
        elif self._was_up:
            self._was_up = False
            lost = controller.is_outage or controller.lost_at > cluster.now - _REWRITTEN
            self._note_unwritten(_FOREVER if lost else _WRITTEN)

    def _note_unwritten(self, within: float) -> None:
        """Note the same of what the controller had no time to write, or what was lost since."""
        now, written = self._cluster.now, _known_immutable(self._controller.state)
        kept = self._cluster.kept_by_neighbours()  # no record has what only others use
        for uid, since in self._cluster.used_since().items():
            if uid not in written and (now - since <= within or uid in kept):
                self._log.append(f"{now:.1f} served unseen {uid}")

    def _disturb(self) -> None:
        cluster = self._cluster
        event = draw(self._chance, simulated=True)
        getattr(self, f"_{event.kind}")(event)
        up = "up" if self._controller.is_up else "down"
        name = event.source if event.kind in EDITS else ""
        self._log.append(
            f"{cluster.now:.1f} {event.kind} {name}: one {cluster.data('one')}, two"
            f" {cluster.data('two')}, {cluster.template}, {cluster.replicas} replicas, {up}"
        )

    def _add_circumstance(self) -> None:
        getattr(self, f"_{self._circumstance}")(self._addition)
        cluster = self._cluster
        self._log.append(f"{cluster.now:.1f} {self._circumstance}: {cluster.template}")

    def _lost_response(self, chance: random.Random) -> None:
        self._controller.lose_response()

    def _late_watch(self, chance: random.Random) -> None:
        kind = chance.choice(("ConfigMap", self._cluster.kind))
        self._controller.delay(kind, chance.choice((3.0, 10.0, 30.0)))

    def _replace(self, chance: random.Random) -> None:
        self._cluster.replace_template(chance.randrange(len(TEMPLATES)), chance.randrange(3))

    def _strategy(self, chance: random.Random) -> None:
        """Restrict what hotmap may do with the workload, or allow everything again."""
        strategy = {STRATEGY: chance.choice(("notify", "nudge", "rollout", "auto"))}
        suspended = {SUSPEND: "true"} if chance.random() < 0.3 else {}
        self._cluster.annotate(chance.choice(({}, strategy)) | suspended)

    def _old_list(self, chance: random.Random) -> None:
        self._cluster.list_lag = chance.choice((0.0, 0.5, 1.0, 3.0))

    def _old_state(self, chance: random.Random) -> None:
        """Restore the state from a backup that is older."""
        if self._backup is not None and chance.random() < 0.6:
            self._controller.restore_state(self._backup)
            if not self._controller.is_up:
                self._note_unwritten(_FOREVER)
        else:
            self._backup = self._controller.state

    def _hours(self, chance: random.Random) -> None:
        """Let hours pass after a deletion, in which other sources of the cluster are deleted."""
        name = chance.choice(SOURCES)
        if self._controller.is_watching and not self._cluster.is_kept(name):
            self._cluster.write(name, None)
            self._pass(3.0)
        for _ in range(chance.choice((100, 200))):
            self._cluster.now += 40.0
            self._cluster.step()
            for pod in self._cluster.pods:
                self._cluster.refresh_files(pod)
            self._note_unseen()
            self._controller.step()
        self._controller.delete_others()

    def _reread(self, chance: random.Random) -> None:
        """Say that the application re-reads its files, or that it does not."""
        self._rereads = not self._rereads
        self._controller.set_rereads(self._rereads)

    def _flags(self, chance: random.Random) -> None:
        """Start the controller with other flags."""
        is_up = self._controller.is_up
        self._controller.stop(crash=False)
        self._controller.change_flags()
        if is_up:
            self._controller.start()

    def _lagging_kind(self, chance: random.Random) -> None:
        """Let the watch of one kind lag minutes behind the others."""
        kind = chance.choice(("ConfigMap", self._cluster.kind))
        self._controller.delay(kind, chance.choice((60.0, 110.0)))

    def _toggle(self, chance: random.Random) -> None:
        """Stop to follow for the time of an outage, in which something is edited."""
        if self._controller.is_up and chance.random() < 0.5:
            self._controller.stop(crash=chance.random() < 0.5)
        else:
            self._controller.cut_off(outage=chance.random() < 0.7)
        name, gap = chance.choice(SOURCES), chance.choice((0.0, 1.0, 4.0))
        is_ignored = chance.random() < 0.5
        self._toggle_once(name, gap=gap, ignored=is_ignored)
        if data := self._cluster.data(name):
            self._cluster.write(name, {**data, chance.choice("abc"): chance.choice("012")})
        self._pass(gap)
        self._toggle_once(name, gap=gap, ignored=is_ignored)
        if self._controller.is_cut_off:
            self._controller.reconnect(listing=chance.random() < 0.5)
        elif not self._controller.is_up:
            self._controller.start()

    def _toggle_once(self, name: str, *, gap: float, ignored: bool) -> None:
        if ignored:
            self._cluster.ignore(name, ignored=not self._cluster.is_ignored(name))
        else:
            self._cluster.follow(followed=not self._cluster.is_followed)
        self._pass(gap)

    def _owner(self, chance: random.Random) -> None:
        """Let another object own the workload, or none."""
        self._cluster.own(owned=not self._cluster.is_owned)

    def _meanwhile(self, chance: random.Random) -> None:
        """Let something happen while a request of the controller is under way."""
        kind = chance.choice(("edit", "edit", "remove", "recreate", "template", "undo", "evict"))
        event = draw(chance, simulated=True)._replace(kind=kind, gap=0.0)
        seconds = chance.choice((0.0, 0.5, 3.0))

        def happen() -> None:
            getattr(self, f"_{kind}")(event)
            for _ in range(round(seconds / STEP)):
                self._cluster.now += STEP
                self._cluster.step()
            self._note_unseen()
            self._log.append(f"{self._cluster.now:.1f} {kind} {event.source} meanwhile")

        self._controller.let_happen(happen)

    def _permission(self, chance: random.Random) -> None:
        """Take a permission from the controller, or give it back."""
        if chance.random() < 0.5:
            self._controller.is_denied_pods = not self._controller.is_denied_pods
        else:
            self._controller.is_denied_writes = not self._controller.is_denied_writes

    def _limits(self, chance: random.Random) -> None:
        """Limit how often or how soon the workload is rolled out, or end that."""
        limits = {
            FLAP_LIMIT: chance.choice(("0", "1", "2")),
            SETTLE: chance.choice(("0s", "4s", "20s")),
            SUSPEND: "true",
            STRATEGY: chance.choice(("nudge", "rollout", "auto")),
        }
        self._cluster.annotate({k: v for k, v in limits.items() if chance.random() < 0.4})

    def _binary(self, chance: random.Random) -> None:
        """Move a data key between `data` and `binaryData`."""
        name = chance.choice(SOURCES)
        if data := self._cluster.data(name):
            key = chance.choice(sorted(data))
            is_binary, value = data[key].startswith(BINARY), data[key].removeprefix(BINARY)
            self._cluster.write(name, {**data, key: value if is_binary else BINARY + value})

    def _swap(self, chance: random.Random) -> None:
        """Swap the content of two data keys, or remove all of them."""
        name = chance.choice(SOURCES)
        if data := self._cluster.data(name):
            first, second = chance.choice(sorted(data)), chance.choice(sorted(data))
            swapped = {**data, first: data[second], second: data[first]}
            self._cluster.write(name, {} if chance.random() < 0.3 else swapped)

    def _nudged(self, chance: random.Random) -> None:
        """Let somebody annotate the pods, and the controller crash at that time, perhaps."""
        for pod in self._cluster.pods:
            self._cluster.annotate_pod(pod)
        if chance.random() < 0.5:
            self._controller.stop(crash=True)

    def _clock(self, chance: random.Random) -> None:
        """Let another API server respond, whose clock is not quite the same."""
        self._controller.clock_ahead = chance.choice((-0.9, 0.0, 0.9))

    def _restore(self, chance: random.Random) -> None:
        """Restore etcd from a backup, with the state in it."""
        if self._etcd is None or chance.random() < 0.3 or self._etcd.uid != self._cluster.uid:
            self._etcd = _Etcd(self._cluster.uid, self._cluster.back_up(), self._controller.state)
            return
        applied = {name: self._cluster.data(name) for name in SOURCES}
        restored, self._etcd = self._etcd, None
        self._cluster.restore(restored.backup)
        self._controller.restore_state(restored.state)
        if self._controller.is_up:
            self._controller.relist()
        else:
            self._note_unwritten(_FOREVER)
        if chance.random() < 0.5:  # a GitOps tool applies again what was there
            self._pass(chance.choice((0.5, 3.0)))
            self._cluster.crash_container()
            self._pass(chance.choice((0.5, 3.0)))
            for name, data in applied.items():
                if data:
                    self._cluster.write(name, data)

    def _older_list(self, chance: random.Random) -> None:
        """Let an API server list ConfigMaps from a cache that lags behind that of another one."""
        if self._controller.is_watching:
            age, lag = chance.choice((1.0, 5.0, 30.0)), chance.choice((0.0, 1.0, 5.0))
            self._controller.list_older(age, lag)

    def _mixed(self, chance: random.Random) -> None:
        """Let any of these happen."""
        name = chance.choice([name for name in CIRCUMSTANCES if name != "mixed"])
        self._log.append(f"{self._cluster.now:.1f} {name}")
        getattr(self, f"_{name}")(chance)

    def _replace_key(self, chance: random.Random) -> None:
        self._controller.replace_key()

    def _redeploy(self, chance: random.Random) -> None:
        """Delete the workload and create it again, for example for a field that is immutable."""
        cluster = self._cluster
        orphan = chance.random() < 0.5
        if orphan and not self._controller.is_watching:
            self._log.append(f"{cluster.now:.1f} pods are adopted with what was not applied")
        if orphan and (kept := sorted(cluster.replaced_uids())):
            # The record that had it is dropped with the workload.
            self._log.append(f"{cluster.now:.1f} served unseen {kept}")
        cluster.delete_workload(orphan=orphan)
        self._pass(chance.choice((0.0, 0.5, 3.0)))
        spec = cluster.template.spec if chance.random() < 0.5 else chance.randrange(len(TEMPLATES))
        cluster.create_workload(spec, cluster.template.image)

    def _namespace(self, chance: random.Random) -> None:
        """Delete the namespace, and create it again with other content."""
        cluster = self._cluster
        cluster.delete_workload(orphan=False)
        cluster.end_neighbours()
        while cluster.pods:  # its content is deleted once pods have ended
            self._pass(1.0)
        for name in SOURCES:
            cluster.write(name, None)
        self._pass(chance.choice((0.0, 0.5, 3.0)))
        create_workload = partial(cluster.create_workload, chance.randrange(len(TEMPLATES)), 0)
        creations: list[Callable[[], None]] = [create_workload]
        for name in SOURCES:
            data = {key: chance.choice("012") for key in "abc"}
            creations.append(partial(cluster.write, name, data))
        chance.shuffle(creations)
        if creations[-1] is not create_workload:
            # In any order within the settle time: a source that comes last is not a change.
            self._log.append(f"{cluster.now:.1f} is created before its sources")
        for create in creations:
            create()
            self._pass(chance.choice((0.0, 0.25, 1.0)))
        self._pass(1.0)  # an edit before the first sight is unknown

    def _edit(self, event: Disturbance) -> None:
        data = self._cluster.data(event.source)
        if self._cluster.is_immutable(event.source):  # the way to edit one
            self._cluster.write(event.source, None)
            self._pass(event.gap)
        self._cluster.write(event.source, event.edited(data), immutable=event.hard)

    def _remove(self, event: Disturbance) -> None:
        if data := self._cluster.data(event.source):
            self._cluster.write(event.source, event.without_key(data))

    def _label(self, event: Disturbance) -> None:
        if (data := self._cluster.data(event.source)) is not None:
            self._cluster.write(event.source, data, label=True)

    def _recreate(self, event: Disturbance) -> None:
        if (data := self._cluster.data(event.source)) is not None:
            self._cluster.write(event.source, None)
            self._pass(event.gap)
            self._cluster.write(event.source, event.recreated(data), immutable=event.pick < 0.3)

    def _delete(self, event: Disturbance) -> None:
        # What kubelets still serve of an immutable one that stays deleted is not known.
        if not self._cluster.is_kept(event.source):
            is_watching, name = self._controller.is_watching, f'"{event.source}"'
            if not is_watching and name not in self._controller.state:
                # Nothing shows that it has ever existed.
                self._log.append(f"{self._cluster.now:.1f} served unseen {event.source}")
            self._cluster.write(event.source, None)

    def _seal(self, event: Disturbance) -> None:
        self._cluster.seal(event.source)

    def _ignore(self, event: Disturbance) -> None:
        ignored = self._cluster.is_ignored(event.source)
        self._cluster.ignore(event.source, ignored=not ignored)

    def _follow(self, event: Disturbance) -> None:
        self._cluster.follow(followed=not self._cluster.is_followed)

    def _lose_state(self, event: Disturbance) -> None:
        self._controller.lose_state()
        if not self._controller.is_up:
            self._note_unwritten(_FOREVER)

    def _template(self, event: Disturbance) -> None:
        self._cluster.set_template(event.template, event.image)

    def _undo(self, event: Disturbance) -> None:
        self._cluster.undo()

    def _scale(self, event: Disturbance) -> None:
        self._cluster.scale(event.replicas)

    def _pause(self, event: Disturbance) -> None:
        self._cluster.pause(paused=not self._cluster.paused)

    def _evict(self, event: Disturbance) -> None:
        self._cluster.evict()

    def _neighbour(self, event: Disturbance) -> None:
        self._cluster.change_neighbours(event.pick)

    def _crash(self, event: Disturbance) -> None:
        self._cluster.crash_container()

    def _down(self, event: Disturbance) -> None:
        if self._controller.is_up:
            self._controller.stop(crash=event.hard)
        else:
            self._controller.start()

    def _cut_off(self, event: Disturbance) -> None:
        if self._controller.is_cut_off:
            self._controller.reconnect(listing=event.hard)
        else:
            self._controller.cut_off(outage=event.pick < 0.4)

    def _end(self) -> HistoryResult:
        cluster, controller = self._cluster, self._controller
        controller.reconnect(listing=self._chance.random() < 0.5)
        for name in SOURCES:  # what everybody needs
            if cluster.data(name) is None and self._chance.random() < 0.5:
                continue  # it stays deleted
            if (cluster.data(name) or {}).get("a", BINARY).startswith(BINARY):
                data = {**(cluster.data(name) or {}), "a": "0"}
                cluster.write(name, data)
                if cluster.data(name) != data:  # it is immutable
                    cluster.write(name, None)
                    cluster.write(name, data)
            cluster.ignore(name, ignored=False)
        cluster.follow(followed=True)
        cluster.own(owned=False)
        cluster.annotate({})
        controller.is_denied_pods = controller.is_denied_writes = False
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
            cluster.missing([cluster.template])
            or cluster.controller.holds_back
            or any(pod.started is None for pod in cluster.pods),
            sum("rolling out" in item for item in controller.said),
            tuple(sorted([*self._log, *controller.said], key=lambda line: float(line.split()[0]))),
            controller.is_proven(),
            tuple(cluster.stale_pods(rereads=self._rereads, gone=True)),
            self._too_early,
        )


def run_history(seed: int, kind: str = "", circumstance: str = "") -> HistoryResult:
    """Play one history, of a kind or of any; equal seeds give equal ones.

    `circumstance` is one of CIRCUMSTANCES, "" for none.
    """
    return _History(seed, kind, circumstance).run()
