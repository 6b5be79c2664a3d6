"""Whatever happens, a consumer ends with the present content, and nothing happens needlessly.

A small model of a cluster (one Deployment of two pods, two ConfigMaps) meets the pure core under
random operations: edits, reverts, deletions, recreations, pods that restart on nodes whose clocks
are wrong, rollouts under way, a controller that crashes between its patch and its record or is down
for a while, others who remove or overwrite the template's revision, and a state that is lost.
The model remembers what each pod read when it started, which the core never learns.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tests.core.freshness import assess_sources
from tests.support.objects import KEY, config_map, deployment, pod
from tests.support.shards import write_shard

from hotmap.core.decide.assessment import Assessment, Verdict
from hotmap.core.decide.conflicts import (
    WriterConflict,
    defer_to,
    find_writer_conflict,
    is_reported,
    record_reported,
)
from hotmap.core.decide.plan import ActionType, Plan, make_plan
from hotmap.core.decide.pod_starts import pod_starts
from hotmap.core.decide.record import record_applied
from hotmap.core.decide.revisions import revision_of
from hotmap.core.decide.rollout_records import Replacement, distinct_revision, record_rollout
from hotmap.core.decide.source_snapshot import SourceSnapshot, take_snapshots
from hotmap.core.model.consumer import FIELD_MANAGER, REVISION, Consumer
from hotmap.core.model.objects import ObjectKey, Pod
from hotmap.core.model.references import Use, UseKind
from hotmap.core.model.source import Source, changed_keys, source_from_config_map
from hotmap.core.model.state import UNVOUCHED, Record, Window, read_shard
from hotmap.core.policy.policy import Policy, live_change_needs_rollout

SETTLE = 0.5

#: Seconds after which what was seen of a source outlives a crash.
KEPT_AFTER = 1.0

#: Seconds by which the clock of a node is wrong.
SKEW = 600.0

SPECS = [
    """
    containers:
    - name: web
      env: [{name: A, valueFrom: {configMapKeyRef: {name: one, key: a}}}]
      envFrom: [{configMapRef: {name: two, optional: true}}]
    """,
    """
    containers:
    - name: web
      env: [{name: A, valueFrom: {configMapKeyRef: {name: one, key: a, optional: true}}}]
      volumeMounts: [{name: v, mountPath: /v}]
    volumes: [{name: v, configMap: {name: two, items: [{key: b, path: b}]}}]
    """,
    """
    containers:
    - name: web
      envFrom: [{configMapRef: {name: one}}]
      volumeMounts: [{name: v, mountPath: /v}, {name: w, mountPath: /w, subPath: a}]
    volumes:
    - {name: v, configMap: {name: two, optional: true}}
    - {name: w, configMap: {name: two, optional: true}}
    """,
    """
    initContainers:
    - {name: setup, volumeMounts: [{name: v, mountPath: /v}]}
    containers:
    - {name: web, volumeMounts: [{name: w, mountPath: /w}]}
    volumes:
    - {name: v, configMap: {name: one}}
    - {name: w, configMap: {name: two}}
    """,
]
CONSUMERS = [deployment(spec) for spec in SPECS]

ONE, TWO = (ObjectKey("ConfigMap", "shop", name) for name in ("one", "two"))

#: What a use selects of a source; None where there is no source.
Content = dict[str, str] | None


class ModelPod(NamedTuple):
    """A pod as the cluster has it, and what it read at its start, use by use."""

    name: str
    #: The ReplicaSet it belongs to: the owner's own restarts and our revision.
    replica_set: tuple[int, str]
    created: float
    #: Seconds by which the clock of its node is ahead.
    skew: float
    started: float | None = None
    read: tuple[Content, ...] = ()

    def observed(self, spec: Consumer) -> Pod:
        """Show the pod as the controller sees it: what its node says is on the node's clock."""
        said = None if self.started is None else self.started + self.skew
        init = any(use.init for use in spec.uses) and said is not None
        return pod(
            self.name,
            created=self.created,
            started=self.created + self.skew,
            containers={"web": said},
            ended={"setup": said} if init and said is not None else None,
            reported=self.started,
            revision=self.replica_set[1],
        )


class ObservedChange(NamedTuple):
    """A change of a source, as the controller's watch saw it."""

    at: float
    version: int
    keys: frozenset[str]


class Cluster:
    """The Deployment's controller, the kubelet and the API server, as far as they matter here."""

    def __init__(self, consumer: Consumer, skews: Sequence[float]) -> None:
        self.now = 1000.0
        self.skews = skews
        self.consumer = consumer
        self.version = 0
        self.uids = 0
        self.data: dict[ObjectKey, dict[str, str]] = {}
        self.sources: dict[ObjectKey, Source] = {}
        self.generation = 1
        self.restarts = 0
        self.revision = ""
        self.revision_owner = ""
        self.written_at: float | None = None
        self.pods: list[ModelPod] = []
        self.made = 0
        for key in (ONE, TWO):
            self.write(key, {"a": "0", "b": "0"}, new=True)
        self.now += 10
        for _ in range(2):
            self.pods.append(self.start(self.new_pod()))

    def write(self, key: ObjectKey, data: dict[str, str] | None, *, new: bool = False) -> None:
        """Create, edit or delete a ConfigMap."""
        self.version += 1
        if data is None:
            self.data.pop(key, None)
            self.sources.pop(key, None)
            return
        if new or key not in self.sources:
            self.uids += 1
            uid = f"uid-{self.uids}"
        else:
            uid = self.sources[key].uid
        item = config_map(key.name, data, uid=uid, version=self.version, changed_at=self.now)
        self.data[key], self.sources[key] = data, source_from_config_map(item, [KEY])

    @property
    def target(self) -> tuple[int, str]:
        return self.restarts, self.revision

    @property
    def startable(self) -> bool:
        """Return whether new pods could start: all that is not optional is there."""
        return all(
            use.optional or (use.source in self.data and (use.keys.names or set()) <= {*held})
            for use in self.consumer.uses
            for held in [self.data.get(use.source, {})]
        )

    def content(self, use: Use) -> Content:
        """Read what a use selects now."""
        if use.source not in self.data:
            return None
        held = self.data[use.source].items()
        return {key: value for key, value in held if use.keys.select(key, binary=False)}

    def new_pod(self) -> ModelPod:
        self.made += 1
        skew = self.skews[self.made % len(self.skews)]
        return ModelPod(f"web-{self.made}", self.target, self.now, skew)

    def start(self, member: ModelPod) -> ModelPod:
        """Start a pod, or leave it waiting for what it needs."""
        if not self.startable:
            return member._replace(started=None, read=())
        read = tuple(self.content(use) for use in self.consumer.uses)
        return member._replace(started=self.now, read=read)

    def write_revision(self, revision: str) -> None:
        if revision != self.revision:
            self.generation += 1
            self.revision, self.written_at = revision, self.now
            self.revision_owner = FIELD_MANAGER

    def take_revision(self, revision: str) -> None:
        """Write the revision as another client, or remove it."""
        if revision != self.revision:
            self.generation += 1
            self.revision, self.written_at = revision, None
            self.revision_owner = "gitops" if revision else ""

    @property
    def rolling(self) -> bool:
        return any(p.replica_set != self.target or p.started is None for p in self.pods)

    def advance(self) -> None:
        """Start what waits; once all new pods run, replace one old one."""
        self.pods = [self.start(p) if p.started is None else p for p in self.pods]
        if any(p.started is None for p in self.pods):
            return
        for number, member in enumerate(self.pods):
            if member.replica_set != self.target:
                self.pods[number] = self.start(self.new_pod())
                return

    def observed(self) -> Consumer:
        """Show the Deployment as the controller's store has it."""
        said = {REVISION: self.revision} if self.revision else {}
        return msgspec.structs.replace(
            self.consumer,
            generation=self.generation,
            template_annotations=said,
            rolling=self.rolling,
            revision_owner=self.revision_owner,
            written_at=None if self.written_at is None else float(int(self.written_at)),
        )


class Controller:
    """The controller's loop around the pure core, with its memory."""

    def __init__(self, cluster: Cluster, policy: Policy) -> None:
        self.cluster = cluster
        self.policy = policy
        self.state = write_shard([])
        self.changes: dict[ObjectKey, list[ObservedChange]] = {ONE: [], TWO: []}
        self.waiting_since: float | None = None

    @property
    def record(self) -> Record | None:
        return read_shard(self.state).get(self.cluster.consumer.uid)

    def since(self, record: Record | None, current: SourceSnapshot) -> list[ObservedChange]:
        """List the observed changes of used data keys since a source was applied."""
        for source in record.sources if record else ():
            if source.name == current.source.name:
                version = int(source.resource_version or 0)
                return [
                    change
                    for change in self.changes[current.source]
                    if change.version > version
                    and (not change.keys or _uses_any(current.uses, change.keys))
                ]
        return []

    def decide(self) -> tuple[Assessment, Plan, str]:
        """Assess and plan from the current state."""
        cluster, record = self.cluster, self.record
        consumer = cluster.observed()
        snapshots = take_snapshots(consumer.uses, cluster.sources, KEY)
        if record is not None:
            seen = [self.since(record, current) for current in snapshots]
            windows = tuple(Window(s[0].at, s[-1].at) for s in seen if len(s) > 1)
            record = msgspec.structs.replace(record, windows=(*record.windows, *windows))
        live_needs_rollout = live_change_needs_rollout(consumer, self.policy)
        waited = 0.0 if self.waiting_since is None else cluster.now - self.waiting_since
        revision = revision_of(
            snapshots, KEY, uid=consumer.uid, live_needs_rollout=live_needs_rollout
        )
        assess_now = partial(
            assess_sources,
            consumer,
            record,
            snapshots,
            now=cluster.now,
            revision=revision,
            policy=self.policy,
            live_needs_rollout=live_needs_rollout,
            waited=waited,
        )
        assessment = assess_now()
        if assessment.verdict is Verdict.CHECK_PODS:
            starts = pod_starts(consumer, [p.observed(consumer) for p in cluster.pods])
            assessment = assess_now(starts=starts)
        plan = make_plan(consumer, self.policy, assessment, changed={})
        again = make_plan(consumer, self.policy, assessment, changed={})
        assert plan == again
        found = self.writer_conflict()
        plan = defer_to(plan, found, reported=is_reported(record, found), now=cluster.now)
        return assessment, plan, revision

    def writer_conflict(self) -> WriterConflict | None:
        """Find what another writer put into the template."""
        cluster = self.cluster
        return find_writer_conflict(
            cluster.observed(), self.record, own_keys={KEY.id}, now=cluster.now
        )

    def go_down(self) -> None:
        """Lose what is in memory; what was seen is kept, but for the last second's."""
        self.waiting_since = None
        for key, seen in self.changes.items():
            self.changes[key] = [item for item in seen if item.at <= self.cluster.now - KEPT_AFTER]

    def come_up(self) -> None:
        """Take over what was seen before, and count one more change of what was written since."""
        for key, seen in self.changes.items():
            source = self.cluster.sources.get(key)
            if seen and source is not None and int(source.resource_version) > seen[-1].version:
                at = max(seen[-1].at, (source.changed_at or 0.0) + 1)
                seen.append(ObservedChange(at, int(source.resource_version), frozenset()))

    def reconcile(self, *, crash: bool = False) -> Plan:
        """Act on a decision and record it, unless a crash comes in between."""
        cluster, record = self.cluster, self.record
        consumer = cluster.observed()
        assessment, plan, revision = self.decide()
        if plan.requeue_after is not None:
            if self.waiting_since is None:
                self.waiting_since = cluster.now
            return plan
        self.waiting_since = None
        rollout = next((a for a in plan.actions if a.type is ActionType.ROLLOUT), None)
        if rollout is not None:
            name = distinct_revision(revision, record, previous=consumer.revision)
            cluster.write_revision(name if rollout.distinct else revision)
            if crash:
                self.go_down()
                self.come_up()
                return plan
        if plan.settles:
            self._note(consumer, record, assessment, revision, rollout is not None)
        return plan

    def _note(
        self,
        consumer: Consumer,
        record: Record | None,
        assessment: Assessment,
        revision: str,
        rolled: bool,
    ) -> None:
        generation = self.cluster.generation
        if not rolled and consumer.rolling:
            generation = record.generation if record else UNVOUCHED
        seen = [s.at for f in assessment.findings for s in self.since(record, f.current)]
        recorded = record_applied(
            consumer, record, assessment.findings, key_id=KEY.id, generation=generation
        )
        if rolled:
            recorded = record_rollout(
                recorded,
                previous=consumer.revision,
                revision=revision,
                distinct=assessment.distinct,
                replaced=Replacement(min(seen, default=self.cluster.now), bool(seen)),
                now=self.cluster.now,
            )
        found = self.writer_conflict()
        if found is not None:
            recorded = record_reported(recorded, found)
        self.state = write_shard([recorded])


def _uses_any(uses: tuple[Use, ...], keys: frozenset[str]) -> bool:
    return any(use.keys.select(key, binary=False) for use in uses for key in keys)


class Convergence(RuleBasedStateMachine):
    """Random operations, and what has to hold after each and once it is quiet."""

    @initialize(
        number=st.integers(0, len(CONSUMERS) - 1),
        rereads=st.booleans(),
        catch_up=st.booleans(),
        skews=st.sampled_from(((0.0,), (-SKEW,), (SKEW,), (0.0, SKEW, -SKEW))),
    )
    def begin(self, number: int, rereads: bool, catch_up: bool, skews: tuple[float, ...]) -> None:
        consumer = CONSUMERS[number]
        self.cluster = Cluster(consumer, skews)
        self.policy = Policy(
            opted_in=True,
            auto=frozenset(("ConfigMap", "Secret")),
            rereads=rereads,
            catch_up=catch_up,
        )
        self.controller = Controller(self.cluster, self.policy)
        self.live_needs_rollout = live_change_needs_rollout(consumer, self.policy)
        self.changed_at = 0.0
        self.past: dict[ObjectKey, list[dict[str, str]]] = {ONE: [], TWO: []}
        #: What may each have caused one rollout, and the rollouts that had no window to thank.
        self.causes = self.rollouts = 0
        self.recorded: tuple[Content, ...] | None = None
        #: Whether others have taken the revision since the last rollout.
        self.rewritten_revision = False
        self.cluster.now += 10
        self.reconcile()
        self.recorded = self.used()
        # From here on the template has a revision, so that there is one to return to.
        self.edit(ONE, "a", 1)
        self.check_convergence()

    def used(self) -> tuple[Content, ...]:
        return tuple(self.cluster.content(use) for use in self.cluster.consumer.uses)

    # -- what people do -----------------------------------------------------------------------

    def write(
        self, key: ObjectKey, data: dict[str, str] | None, *, seen: bool = True, **options: Any
    ) -> None:
        before, used = self.cluster.sources.get(key), self.used()
        if key in self.cluster.data:
            self.past[key].append(self.cluster.data[key])
        self.cluster.write(key, data, **options)
        after = self.cluster.sources.get(key)
        self.causes += used != self.used()
        keys = changed_keys(before, after)
        if keys or (before is None) != (after is None):
            if seen:
                change = ObservedChange(self.cluster.now, self.cluster.version, keys)
                self.controller.changes[key].append(change)
            self.changed_at = self.cluster.now

    @rule(key=st.sampled_from((ONE, TWO)), data_key=st.sampled_from("abc"), value=st.integers(0, 2))
    def edit(self, key: ObjectKey, data_key: str, value: int) -> None:
        self.write(key, self.cluster.data.get(key, {}) | {data_key: str(value)})

    @rule(key=st.sampled_from((ONE, TWO)), data_key=st.sampled_from("abc"))
    def remove(self, key: ObjectKey, data_key: str) -> None:
        if key in self.cluster.data:
            held = self.cluster.data[key].items()
            self.write(key, {name: value for name, value in held if name != data_key})

    @rule(key=st.sampled_from((ONE, TWO)), back=st.integers(1, 3))
    def revert(self, key: ObjectKey, back: int) -> None:
        if len(self.past[key]) >= back:
            self.write(key, self.past[key][-back])

    @rule(
        key=st.sampled_from((ONE, TWO)),
        pause=st.sampled_from((0.1, 0.6, 3.0)),
        number=st.integers(0, 1),
        is_calm=st.booleans(),
    )
    def go_and_come_back(self, key: ObjectKey, pause: float, number: int, is_calm: bool) -> None:
        """Edit and revert, with a pod that starts in between and perhaps a rollout."""
        self.edit(key, "a", 2)
        self.wait(pause)
        if pause > SETTLE:
            self.reconcile()
        self.restart_pod(number)
        self.wait(pause)
        self.revert(key, 1)
        if is_calm:
            self.check_convergence()

    @rule(key=st.sampled_from((ONE, TWO)))
    def delete(self, key: ObjectKey) -> None:
        if key in self.cluster.data:
            self.write(key, None)

    @rule(key=st.sampled_from((ONE, TWO)))
    def recreate(self, key: ObjectKey) -> None:
        if key in self.cluster.data:
            data = self.cluster.data[key]
            self.write(key, None)
            self.write(key, data, new=True)

    @rule(key=st.sampled_from((ONE, TWO)))
    def label(self, key: ObjectKey) -> None:
        if key in self.cluster.data:
            self.write(key, self.cluster.data[key])

    @rule(revision=st.sampled_from(("", "zzzz.forged", "own", "left")))
    def rewrite_revision(self, revision: str) -> None:
        """Remove the revision, or write another one into the template."""
        record = self.controller.record
        if revision == "own":
            revision = f"{KEY.id}.forged"
        elif revision == "left":
            revision = record.retired[-1].revision if record and record.retired else ""
        self.rewritten_revision |= revision != self.cluster.revision
        self.cluster.take_revision(revision)

    @precondition(lambda self: self.cluster.now >= self.changed_at + KEPT_AFTER)
    @rule(key=st.sampled_from((ONE, TWO)), back=st.integers(1, 3), pause=st.sampled_from((0.1, 70)))
    def revert_while_down(self, key: ObjectKey, back: int, pause: float) -> None:
        """Write a source while no controller watches; the next one reads everything at once."""
        if key in self.cluster.data and len(self.past[key]) >= back:
            self.controller.go_down()
            self.write(key, self.past[key][-back], seen=False)
            self.wait(pause)
            self.controller.come_up()
            self.reconcile()

    @rule()
    def restart_workload(self) -> None:
        self.cluster.restarts += 1
        self.cluster.generation += 1

    # -- what happens -------------------------------------------------------------------------

    @rule(number=st.integers(0, 1))
    def restart_pod(self, number: int) -> None:
        self.cluster.pods[number] = self.cluster.start(self.cluster.pods[number])

    @rule(seconds=st.sampled_from((0.1, 0.6, 1.0, 3.0, 70.0)))
    def wait(self, seconds: float) -> None:
        self.cluster.now += seconds

    @rule()
    def roll_on(self) -> None:
        self.cluster.advance()

    @precondition(lambda self: self.cluster.startable and len(self.cluster.data) == 2)
    @rule()
    def lose_state(self) -> None:
        """Lose the record; without catch-up, stale pods then stay stale until they restart."""
        if self.policy.catch_up or self.stale() == []:
            self.controller.state = "gone"
            self.causes += self.policy.catch_up
            self.recorded = None
            self.changed_at = 0.0
            self.reconcile()

    # -- what the controller does -------------------------------------------------------------

    @precondition(lambda self: self.cluster.now >= self.changed_at + SETTLE)
    @rule(crash=st.sampled_from((False, False, False, True)))
    def reconcile(self, crash: bool = False) -> None:
        assessment, plan, revision = self.controller.decide()
        # A crash loses what was seen, so that a pod of a ReplicaSet returned to goes unsuspected.
        crash = crash and not any(p.replica_set[1] == revision for p in self.cluster.pods)
        used = self.used()
        if plan.actions and self.recorded is not None and not assessment.distinct:
            assert used != self.recorded, plan.reason
        assert self.controller.reconcile(crash=crash) == plan
        acts = [action.type for action in plan.actions]
        self.rollouts += ActionType.ROLLOUT in acts and not assessment.distinct
        self.rewritten_revision &= ActionType.ROLLOUT not in acts
        if not self.rewritten_revision:
            assert self.controller.writer_conflict() is None, "no other writer changed the template"
        self.causes += crash
        assert self.rollouts <= self.causes, plan.reason
        if plan.settles and plan.verdict is not Verdict.HOLD:
            self.recorded = None if crash else used

    def stale(self) -> list[str]:
        """Name the pods that hold something else than what is present."""
        return [
            member.name
            for member in self.cluster.pods
            if member.started is not None
            for use, read in zip(self.cluster.consumer.uses, member.read, strict=True)
            if (use.kind is UseKind.FROZEN or self.live_needs_rollout)
            and use.source in self.cluster.data
            and (read or {}) != self.cluster.content(use)  # absent either way
        ]

    @rule()
    def check_convergence(self) -> None:
        """Once it is quiet and nothing is missing, every pod holds what is present, for good."""
        plan = None
        for _ in range(30 if self.cluster.startable else 3):
            self.cluster.now += 5
            self.cluster.advance()
            self.reconcile()
            _, plan, _ = self.controller.decide()
            if not (plan.actions or plan.requeue_after or self.cluster.rolling):
                break
        if not self.cluster.startable:
            return
        assert plan is not None
        assert plan.verdict is Verdict.UP_TO_DATE, plan.reason
        if (
            not self.rewritten_revision
        ):  # a rollout that was taken back leaves pods that it did not reach
            assert self.stale() == []


TestConvergence = Convergence.TestCase
TestConvergence.settings = settings(max_examples=50, stateful_step_count=25, deadline=None)
