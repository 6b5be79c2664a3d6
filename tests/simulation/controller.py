"""The controller on simulated time: the real index, records, observer and decisions, without I/O.

What it has asked to be written survives a restart as text, as in its Secrets; what it had only in
memory does not. Watch events reach it late (`watches`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from math import floor, inf
from typing import Any

import msgspec
from tests.simulation.cluster import Cluster
from tests.simulation.pods import NAMESPACE, SOURCES
from tests.simulation.watches import Watches
from tests.support.objects import KEY
from tests.support.shards import write_shard

from hotmap.controller.reconcile.executor import rollout_patch
from hotmap.controller.reconcile.immutable_uses import ImmutableUses
from hotmap.controller.report.decision_log import DecisionLog
from hotmap.controller.report.pod_check_results import REACHED
from hotmap.controller.storage.recent_changes import last_changed_at
from hotmap.controller.storage.records import Records
from hotmap.controller.watch.changes import ChangeListener, Enqueue
from hotmap.controller.watch.deleted_immutables import DeletedImmutables
from hotmap.controller.watch.first_decisions import FirstDecisions
from hotmap.controller.watch.index import Index
from hotmap.controller.watch.observation import Observer, ObserverSettings, TermKnowledge
from hotmap.controller.watch.stored_changes import StoredChanges
from hotmap.controller.watch.stores import CONSUMER_KINDS, SOURCE_KINDS
from hotmap.controller.watch.transforms import Transforms
from hotmap.core.decide.assessment import OtherUse, join_uses, oldest_use
from hotmap.core.decide.decide import decide
from hotmap.core.decide.decision import Decision
from hotmap.core.decide.evidence import PodStart
from hotmap.core.decide.immutable_uses import (
    add_immutable_uses,
    immutable_uses,
    keep_added_uses,
)
from hotmap.core.decide.plan import ActionType
from hotmap.core.decide.pod_starts import pod_starts
from hotmap.core.decide.record import (
    Outcome,
    first_record,
    is_worth_writing,
    next_record,
    with_windows,
)
from hotmap.core.decide.record_evidence import with_older_pods
from hotmap.core.decide.snapshot import SentNudge, Snapshot
from hotmap.core.fingerprint import fingerprint_key
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ConfigMap, ObjectKey, Pod, Workload
from hotmap.core.model.source import Source, source_from_config_map
from hotmap.core.model.state import (
    PodCheck,
    Record,
    SourceChanges,
    read_changes,
    read_shard,
    read_watched_until,
)
from hotmap.core.policy.policy import Defaults
from hotmap.core.reloader.annotations import DialectSettings, Writing
from hotmap.core.status.consumer import NO_PODS, ConsumerStatus, State, derive_status
from hotmap.core.status.desired import desired_content
from hotmap.core.status.observed_pods import observe_pods
from hotmap.core.status.pod_check import PodCheckResult, conclude_from_pods
from hotmap.core.status.stage import Confidence
from hotmap.kube.store import Store

__all__ = ["Controller", "State"]

#: Seconds between two pod checks of one consumer.
CHECK_EVERY = 10.0

#: Results of a check that are recorded.
_CHECKED = {
    State.CURRENT: PodCheck.CURRENT,
    State.DELIVERED: PodCheck.DELIVERED,
    State.LATENT: PodCheck.LATENT,
}


class Controller:
    """One process at a time, and what outlives it."""

    def __init__(self, cluster: Cluster, chance: random.Random, *, rereads: bool) -> None:
        self.cluster = cluster
        self._key = ObjectKey(cluster.kind, NAMESPACE, "web")
        self._chance = chance
        settle = chance.choice((0.5, 0.5, 0.0, 4.0))
        # hotmap's own way of writing a rollout, or one of Reloader's.
        writing = chance.choice((Writing.REVISION, Writing.REVISION, *Writing))
        self._dialect = DialectSettings(writing=writing)
        self._defaults = Defaults(
            follow="auto", settle=settle, settle_max=max(settle, 5.0), dialect=self._dialect
        )
        self._annotations = {"hotmap.dev/rereads": "true"} if rereads else {}
        #: The fingerprint keys, newest first.
        self.keys = [KEY]
        self._watches = Watches(cluster, chance)
        #: The text of the state.
        self.state = write_shard([])
        #: When that was last deleted.
        self.lost_at = -inf
        self.is_up = False
        #: The decisions as text, for the message of a failure.
        self.said: list[str] = []
        #: Whether the response to the next rollout is lost.
        self._loses_response = False
        #: Whether it may not list pods, and whether an admission webhook denies its rollouts.
        self.is_denied_pods = self.is_denied_writes = False
        #: Seconds by which the clock of the API server that responds is ahead of the others.
        self.clock_ahead = 0.0
        #: Happens once while a request of the next decision is under way.
        self._meanwhile: Callable[[], None] | None = None

    # -- up and down ---------------------------------------------------------------------------

    def start(self) -> None:
        """List everything, read the state, and look at every consumer."""
        self.is_up = True
        clock = self._clock
        self._index = Index(defaults=self._defaults, clock=clock)
        self._changes = ChangeListener(self._index, clock=clock, monotonic=clock)
        self._records = Records()
        self._stored_changes = StoredChanges(self._index, self._records)
        self._log = DecisionLog(wall_clock=clock)
        self._transforms = Transforms(self._defaults)
        self._sent: SentNudge | None = None
        self._pod_check: ConsumerStatus | None = None
        self._due: dict[str, float] = {}
        self._flush_at: float | None = None
        self._noted_at = self._checked_at = self._looked_at = self.cluster.now
        self._watches.start()
        for name in SOURCES:
            if self.cluster.data(name) is not None:
                self._keep("ConfigMap", name, self.cluster.config_map(name))
        if self.cluster.uid:
            self._keep(self.cluster.kind, "web", self.cluster.workload())
        for kind in (*SOURCE_KINDS, *CONSUMER_KINDS):
            store = self._store(kind)
            store.retain(store.keys(), resource_version="1")
            store.progress.record_caught_up(None, self.cluster.now)
        if self.lost_at > 0 and not read_shard(self.state):
            self.said.append(f"{self.cluster.now:.1f} starts without its state")
        self._read_state()
        self._observer = Observer(
            index=self._index,
            records=self._records,
            settings=ObserverSettings(self.keys),
            clock=clock,
            monotonic=clock,
            knowledge=TermKnowledge(self._first, self._sent_nudge, self._deleted.may_be_kept),
        )
        for consumer in self._index.all_consumers():
            for key in self._observer.unrecorded_deletions(consumer):
                self._stored_changes.note_deletion(key)
        self._changes.set_queues(
            Enqueue(refresh=self._refresh_soon, reconcile=self._reconcile_after)
        )
        self._due["reconcile"] = self.cluster.now

    def _clock(self) -> float:
        return self.cluster.now + self.clock_ahead

    def _sent_nudge(self, key: ObjectKey) -> SentNudge | None:
        return self._sent

    def _read_state(self) -> None:
        """Begin with what an earlier process has written, and follow the stores from now on."""
        self._records.restore(read_shard(self.state).values(), ())
        saved = {key: seen.changes for key, seen in read_changes(self.state).items()}
        stored = (SourceChanges(key, changes) for key, changes in saved.items())
        self._records.restore((), sorted(stored, key=last_changed_at))
        self._index.history.restore(saved, until=read_watched_until(self.state))
        #: The uids of records that were changed since the start, and the names of sources.
        self._changed: set[str] = set()
        self._records.subscribe(self._record_changed, lambda: None, self._flush_now)
        for record in self._records.values():
            self._stored_changes.note_deletions(record)
        self._deleted = DeletedImmutables(
            self._find_uses,
            self._records,
            is_replaced=self._index.is_replaced,
            clock=lambda: self.cluster.now,
        )
        self._first = FirstDecisions(self._index.sources.values())
        there = [consumer.key for consumer in self._index.all_consumers()]
        self._first.begin(there)
        self._first.wait_for(there, watched_until=read_watched_until(self.state))
        self._until = read_watched_until(self.state)
        #: Whether the consumer has been decided on since the start.
        self._is_decided = False
        for sources in self._index.sources.values():
            sources.subscribe(self._stored_changes.source_changed)
            sources.subscribe(self._deleted.source_changed)
        list(ImmutableUses(self._index, self._changes, self._records).subscribe())
        self._index.consumers[self.cluster.kind].subscribe(self._forget_deleted)
        self._records.retain({self.cluster.uid}, is_visible=lambda namespace: True)
        self._deleted.begin()

    def _record_changed(self, uid: str) -> None:
        self._changed.add(uid)
        self._flush_soon()

    def stop(self, *, crash: bool) -> None:
        """End; what an orderly end writes is lost in a crash."""
        if self.is_up and not crash:
            self._write(until=self._watched_until())
        self.is_up = False

    def lose_state(self) -> None:
        """Delete what is written; a running controller notices that and writes it again."""
        self.state = write_shard([])
        self.lost_at = self.cluster.now
        if self.is_up and self._flush_at is None:
            self._flush_at = self.cluster.now + 5.0

    def restore_state(self, state: str) -> None:
        """Write an older state; a running controller merges what it has not changed."""
        self.state = state
        if self.is_up:
            found = read_shard(state)
            taken_over = [found[uid] for uid in found.keys() - self._changed]
            self._records.restore(taken_over, ())
            self._flush_soon()

    @property
    def is_watching(self) -> bool:
        """Whether changes of sources reach it soon."""
        return self.is_up and self._watches.is_current

    @property
    def is_cut_off(self) -> bool:
        """Whether its watch of ConfigMaps is interrupted."""
        return self._watches.is_cut_off

    @property
    def is_outage(self) -> bool:
        """Whether the API server is away, or was when the controller ended."""
        return self._watches.is_outage

    def has_record(self, uid: str) -> bool:
        """Whether it knows what was applied to a workload, or the next one will."""
        if self.is_up and self._records.get(uid) is not None:
            return True
        return f'"{uid}"' in self.state

    # -- what reaches it -----------------------------------------------------------------------

    def step(self) -> None:
        """Take what has arrived, and do what is due."""
        if not self.is_up:
            return
        now = self.cluster.now
        self._take_arrived()
        for work in ("refresh", "reconcile"):
            if self._due.get(work, now + 1) <= now:
                del self._due[work]
                self._work(work)
        self._look_at_pods(now)
        if now - self._noted_at >= 60:
            self._noted_at = now
            self._write(until=self._watched_until())
        elif self._flush_at is not None and self._flush_at <= now:
            self._write()

    def _take_arrived(self) -> None:
        """Take what the watches have delivered."""
        now, kind = self.cluster.now, self.cluster.kind
        arrived = self._watches.take_arrived()
        if not (self.is_cut_off or self._watches.is_delayed("ConfigMap")):
            self._sources().progress.record_received(None, now)
        if not (self.is_outage or self._watches.is_delayed(kind)):
            self._store(kind).progress.record_received(None, now)
        for event in arrived:
            self._keep(event.kind, event.name, event.object)

    def _look_at_pods(self, now: float) -> None:
        if not self.is_outage and now - self._looked_at >= 1.0:
            self._looked_at = now
            _run(self._deleted.find_uses(self._sources_by_name(), ()))
        if now - self._checked_at >= CHECK_EVERY:
            self._checked_at = now
            self._check_pods()

    def _keep(self, kind: str, name: str, found: ConfigMap | Workload | None) -> None:
        key = ObjectKey(kind, NAMESPACE, name)
        store = self._store(kind)
        if found is None:
            store.remove(key)
        elif isinstance(found, ConfigMap):
            store.put(key, self._source(found))
        else:
            store.put(key, self._consumer(found))

    def delay(self, kind: str, seconds: float) -> None:
        """Let the watch of a kind deliver nothing for a while; then all that it has missed."""
        self._watches.delay(kind, seconds)

    def replace_key(self) -> None:
        """Add a new fingerprint key, and begin again with it; earlier ones are kept."""
        self.keys = [fingerprint_key(bytes([len(self.keys)]) * 32), *self.keys]
        if self.is_up:
            self.stop(crash=False)
            self.start()

    def set_rereads(self, rereads: bool) -> None:
        """Annotate the workload that its application re-reads files, or that it does not."""
        self._annotations = {"hotmap.dev/rereads": "true"} if rereads else {}
        if self.cluster.uid:
            self.cluster.publish_workload()

    def change_flags(self) -> None:
        """Settle longer or shorter, and write rollouts in another way, from the next start on."""
        settle = self._chance.choice((0.5, 0.0, 4.0))
        self._dialect = DialectSettings(writing=self._chance.choice(tuple(Writing)))
        self._defaults = self._defaults._replace(
            settle=settle, settle_max=max(settle, 5.0), dialect=self._dialect
        )

    def delete_others(self) -> None:
        """Let it see the deletion of a source that nothing uses."""
        found = next(iter(self._sources().values()), None) if self.is_up else None
        if found is not None:
            other = ObjectKey("ConfigMap", NAMESPACE, "other")
            self._index.history.record_change(other, found, None)

    def lose_response(self) -> None:
        """Lose the response to the next rollout, which the API server has carried out."""
        self._loses_response = True

    def let_happen(self, meanwhile: Callable[[], None]) -> None:
        """Let something happen while a request of the next decision is under way."""
        self._meanwhile = meanwhile

    def _wait_for_response(self) -> None:
        """Let that happen now, perhaps, and see it before the response arrives, perhaps."""
        if self._meanwhile is not None and self._chance.random() < 0.5:
            meanwhile, self._meanwhile = self._meanwhile, None
            meanwhile()
            self._take_arrived()

    def cut_off(self, *, outage: bool) -> None:
        """Interrupt the watch of ConfigMaps, or all that goes to and from the API server."""
        self._watches.is_cut_off, self._watches.is_outage = self.is_up, self.is_up and outage

    def reconnect(self, *, listing: bool) -> None:
        """Resume the watch of ConfigMaps where it was, or list them and watch from there."""
        if not (self.is_up and self.is_cut_off):
            return
        was_outage, kind = self.is_outage, self.cluster.kind
        kinds = ("ConfigMap", kind) if was_outage else ("ConfigMap",)
        missed = self._watches.reconnect(kinds)
        for each in kinds:
            self._store(each).progress.record_interruption(None, listed=listing)
        if listing:
            for name in SOURCES:
                self._reread(name)
            if was_outage:
                self._keep(kind, "web", self.cluster.workload() if self.cluster.uid else None)
        else:
            for event in missed:
                self._keep(event.kind, event.name, event.object)
        for each in kinds:
            self._store(each).progress.record_caught_up(None, self.cluster.now)

    def relist(self) -> None:
        """List everything again, since the versions from which to watch are gone."""
        self.cut_off(outage=True)
        self.reconnect(listing=True)

    def list_older(self, age: float, lag: float) -> None:
        """List ConfigMaps from a cache of the API server that lags behind, and watch from there."""
        store = self._sources()
        store.progress.record_interruption(None, listed=True)
        for event in self._watches.list_older("ConfigMap", age, lag):
            self._keep(event.kind, event.name, event.object)
        store.progress.record_caught_up(None, self.cluster.now)

    def _sources(self) -> Store[Source]:
        return self._index.sources["ConfigMap"]

    def _store(self, kind: str) -> Store[Any]:
        stores: dict[str, Store[Any]] = {**self._index.sources, **self._index.consumers}
        return stores[kind]

    def _source(self, item: ConfigMap) -> Source:
        return source_from_config_map(item, self.keys, self._dialect)

    def _consumer(self, item: Workload) -> Consumer:
        consumer = self._transforms.workload(self.cluster.kind)(item)
        assert consumer is not None, "it is not being deleted"
        annotations = {**consumer.annotations, **self._annotations}
        return msgspec.structs.replace(consumer, annotations=annotations)

    def _forget_deleted(self, key: ObjectKey, old: Consumer | None, new: Consumer | None) -> None:
        if old is not None and (new is None or new.uid != old.uid):
            if (record := self._records.get(old.uid)) is not None:
                self._observer.keep_record(key, record)
            if (kept := self._records.forget(old.uid)) is not None:
                self._deleted.consumer_deleted(kept)
            self._observer.forget(key)
            self._log.forget(key)
            self._sent = self._pod_check = None

    def _refresh_soon(self, key: ObjectKey) -> None:
        self._due["refresh"] = self.cluster.now

    def _reconcile_after(self, key: ObjectKey, settle: float, settle_max: float) -> None:
        if self._due.get("reconcile", self.cluster.now + 1) > self.cluster.now:
            self._due["reconcile"] = self.cluster.now + settle

    # -- what it does --------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Return whether nothing is due, on its way or unwritten."""
        return not self._due and self._watches.is_idle

    def _work(self, work: str) -> None:
        snapshot = self._observer.snapshot(self._key)
        if snapshot is None:
            return  # it was deleted
        snapshot = self._keep_immutable_uses(snapshot)
        decision = decide(snapshot)
        if stale := decision.stale_sources:
            if self.is_outage:
                self._due[work] = self.cluster.now + 1
                return
            snapshot = self._confirm(snapshot, stale)
            decision = decide(snapshot)
        if decision.needs_pod_starts:
            if self.is_outage or self.is_denied_pods:
                self._due[work] = self.cluster.now + 1
                return
            pods = self._list_pods(snapshot.consumer, cached=not snapshot.has_windows)
            self._wait_for_response()
            starts = pod_starts(snapshot.consumer, pods)
            decision = decide(snapshot, starts, self._other_uses())
        if work == "refresh":
            self._refresh(decision)
        else:
            self._reconcile(decision)
            if snapshot.record is None and decision.assessment.changed() and not self._has_record():
                self._first.note_pending(self._key)
            elif self._first.note_made(self._key):
                self._due["reconcile"] = self.cluster.now

    def _confirm(self, snapshot: Snapshot, stale: Collection[ObjectKey]) -> Snapshot:
        """Read consistently what has been older for a while than what was applied."""
        for key in stale:
            self._reread(key.name)
        fresh = self._observer.snapshot(self._key) or snapshot
        confirmed = frozenset(stale) & set(decide(fresh).stale_sources)
        return fresh._replace(confirmed=confirmed)

    def _reread(self, name: str) -> None:
        """Store a ConfigMap as it is now, or its absence."""
        is_there = self.cluster.data(name) is not None
        self._keep("ConfigMap", name, self.cluster.config_map(name) if is_there else None)

    def _list_pods(self, consumer: Consumer, *, cached: bool) -> list[Pod]:
        """List them as `controller/watch/pods` does: again if the cache has too few."""
        pods = self.cluster.list_pods(cached=cached)
        active = sum(not pod.metadata.deletion_timestamp for pod in pods)
        return self.cluster.list_pods(cached=False) if active < consumer.pods else pods

    def _has_record(self) -> bool:
        consumer = self._index.consumer(self._key)
        return consumer is not None and self._records.get(consumer.uid) is not None

    async def _find_uses(
        self, sources: Collection[ObjectKey], own: Collection[str]
    ) -> dict[ObjectKey, OtherUse | None]:
        """Find a pod that uses each source, whosever it is."""
        found = self._other_uses()
        for pod in self.cluster.pods:
            use = OtherUse(pod.name, floor(pod.created))
            found |= {each.source: use for each in pod.template.uses() if not found[each.source]}
        return {source: found[source] for source in sources}

    def _sources_by_name(self) -> list[ObjectKey]:
        return [ObjectKey("ConfigMap", NAMESPACE, name) for name in SOURCES]

    def _other_uses(self) -> dict[ObjectKey, OtherUse | None]:
        """Find pods of others, and own ones that are ending, by the sources that they use."""
        ending: dict[ObjectKey, OtherUse] = {}
        for pod in self.cluster.pods:
            if pod.ends is None:
                continue
            use = OtherUse(pod.name, floor(pod.created), ends=True)
            ending |= {
                each.source: oldest_use(use, ending.get(each.source))
                for each in pod.template.uses()
            }
        neighbour: OtherUse | None = None
        for node, created in self.cluster.neighbours.items():
            neighbour = oldest_use(OtherUse(f"other-{node}", floor(created)), neighbour)
        return {
            source: join_uses(neighbour, ending.get(source)) for source in self._sources_by_name()
        }

    def _refresh(self, decision: Decision) -> None:
        if not decision.snapshot.policy.opted_in:
            return
        if decision.snapshot.record is None:
            record = first_record(decision)
            self._record(decision, record)
            if record is not None:
                self._log.add(decision)
        elif (decision.only_nudges and not decision.follows_deletion) or decision.corrects_nudge:
            if self.is_outage:
                self._due["refresh"] = self.cluster.now + 1
            else:
                self._nudge(decision)

    def _reconcile(self, decision: Decision) -> None:
        if not decision.snapshot.policy.opted_in and not decision.plan.actions:
            return
        if decision.settle_in:
            self._keep_windows(decision)
            self._decided()
            self._due["reconcile"] = self.cluster.now + decision.settle_in
            return
        if (decision.plan.actions or decision.corrects_nudge) and self.is_outage:
            self._keep_windows(decision)
            self._due["reconcile"] = self.cluster.now + 1
            return
        if decision.plan.actions:
            self._wait_for_response()
        if self.is_denied_writes and decision.starts_new_pods:
            self._keep_windows(decision)
            self._due["reconcile"] = self.cluster.now + 1
            return
        outcome = self._execute(decision)
        if outcome is None:
            self._due["reconcile"] = self.cluster.now + 0.1
            return
        if self._chance.random() < 0.03:
            self.said.append(
                f"{self.cluster.now:.1f} crashed before it recorded: {decision.plan.reason}"
            )
            self.stop(crash=True)
            return
        if decision.plan.actions:
            self._wait_for_response()
        self._conclude(decision, outcome)
        if decision.plan.requeue_after is not None:
            self._due.setdefault("reconcile", self.cluster.now + decision.plan.requeue_after)

    def _conclude(self, decision: Decision, outcome: Outcome) -> None:
        """Record and report what was done."""
        self._record(decision, next_record(decision, outcome))
        self._decided()
        self.said.append(
            f"{self.cluster.now:.1f} {decision.plan.verdict.value}: {decision.plan.reason}"
        )
        self._log.add(decision)

    def _keep_immutable_uses(self, snapshot: Snapshot) -> Snapshot:
        if snapshot.record is None or not snapshot.policy.opted_in:
            return snapshot
        record = add_immutable_uses(snapshot.record, immutable_uses(snapshot))
        if record is snapshot.record:
            return snapshot
        self._records.put(record)
        return snapshot._replace(record=record)

    def _keep_windows(self, decision: Decision) -> None:
        record = decision.snapshot.record
        if record is not None and decision.assessment.windows:
            self._records.put(with_windows(record, decision))
            self._flush_soon()

    def _decided(self) -> None:
        if not self._is_decided:
            self._is_decided = True
            self._until = self._watched_until()
            self._flush_soon()

    def _execute(self, decision: Decision) -> Outcome | None:
        """Carry out a plan; None: the workload moved on."""
        consumer = decision.snapshot.consumer
        revision = consumer.revision
        for action in decision.plan.actions:
            if action.type is ActionType.NUDGE:
                self._nudge(decision)
            if action.type is ActionType.ROLLOUT:
                patch = rollout_patch(decision, action)
                if not self.cluster.patch_template(consumer.resource_version, patch):
                    return None
                if self._loses_response:
                    self._loses_response = False
                    self.said.append(f"{self.cluster.now:.1f} lost a response")
                    self._keep_windows(decision)
                    return None
                return Outcome(self.cluster.generation, patch.revision, self.cluster.now)
        if not decision.plan.actions and decision.corrects_nudge:
            self._nudge(decision)
        return Outcome(consumer.generation, revision, self.cluster.now)

    def _nudge(self, decision: Decision) -> None:
        """Have kubelets sync the pods; a sync a moment too early is repeated (see nudges)."""
        self._sent = SentNudge(decision.snapshot.target)
        consumer = decision.snapshot.consumer
        if (record := self._records.get(consumer.uid)) is not None:
            self._with_older_pods(
                record, pod_starts(consumer, self.cluster.list_pods(cached=False))
            )
            self._write()
        for pod in self.cluster.pods:
            self.cluster.annotate_pod(pod)

    def _record(self, decision: Decision, record: Any) -> None:
        if record is not None and not self._observer.exists(decision.snapshot.consumer):
            record = None
        elif record is not None:
            before, latest = decision.snapshot.record, self._records.get(record.uid)
            record = keep_added_uses(record, before, latest)
        if record is not None and is_worth_writing(decision, record):
            self._records.put(record)
            self._flush_soon()
        elif record is not None:
            self._records.put_in_memory(record)
        self._observer.remember(decision, record)

    def _flush_soon(self) -> None:
        if self._flush_at is None:
            self._flush_at = self.cluster.now + self._chance.choice((0.0, 1.0))

    async def _flush_now(self, uid: str) -> None:
        self._write()

    def _watched_until(self) -> float:
        return self._sources().progress.until() or self.cluster.now

    def _write(self, *, until: float | None = None) -> None:
        self._flush_at = None
        if until is not None and self._is_decided:
            self._until = until
        if self.is_outage:
            self._flush_at = self.cluster.now + 1
            return
        self.state = write_shard(
            self._records.values(), self._records.changes(), watched_until=self._until
        )

    # -- what it says --------------------------------------------------------------------------

    def _check_pods(self) -> None:
        """Check pods as `pod_checks` does, where there is nothing else to do first."""
        consumer, last = self._index.consumer(self._key), self._log.last_decision(self._key)
        record = self._records.get(consumer.uid) if consumer else None
        snapshot = self._observer.snapshot(self._key)
        if consumer is None or record is None or last is None or snapshot is None:
            return
        if self.is_outage or self.is_denied_pods:
            return
        if record.pods_checked in REACHED or self._due or not last.is_over:
            return
        if consumer.generation < record.generation or consumer.rolling:
            return
        if not snapshot.policy.opted_in:
            return
        if not consumer.wanted:
            result = NO_PODS if not consumer.pods else None
        else:
            found = self._check(snapshot)
            record = self._with_older_pods(record, [proof.pod.start for proof in found.pods])
            result = found.status
        if result is None:
            return
        self._pod_check = None if result.is_reached else result
        checked = _CHECKED.get(result.state)
        if checked is not None:
            self._records.put_in_memory(msgspec.structs.replace(record, pods_checked=checked))
        if checked is PodCheck.LATENT and record.pods_checked is not PodCheck.LATENT:
            self._due["reconcile"] = self.cluster.now

    def _check(self, snapshot: Snapshot) -> PodCheckResult:
        pods = observe_pods(snapshot.consumer, self._list_pods(snapshot.consumer, cached=True))
        return conclude_from_pods(snapshot, desired_content(snapshot), pods, now=self.cluster.now)

    def _with_older_pods(self, record: Record, starts: Sequence[PodStart]) -> Record:
        noted = with_older_pods(record, starts)
        if noted is not record:
            self._records.put(noted)
        return noted

    def is_proven(self) -> bool:
        """Return whether times or agents prove that all pods have the present content."""
        snapshot = self._observer.snapshot(self._key)
        assert snapshot is not None
        return all(
            stage is None or stage.confidence is Confidence.PROVEN
            for proof in self._check(snapshot).pods
            for stage in (proof.projected, proof.loaded)
        )

    def status(self) -> ConsumerStatus:
        """Return what `hotmap status` would."""
        consumer = self._index.consumer(self._key)
        assert consumer is not None, "ask only for the status of what is there"
        record = self._records.get(consumer.uid)
        last = self._log.last_decision(self._key)
        snapshot = self._observer.snapshot(self._key)
        if last is not None and snapshot is not None:
            last = last._replace(missing_sources=snapshot.missing_sources)
        checked = record.pods_checked if record else None
        return derive_status(consumer, last, checked, self._pod_check)


def _run(coroutine: Coroutine[Any, Any, object]) -> None:
    """Run a coroutine that never waits."""
    with suppress(StopIteration):
        coroutine.send(None)
