"""Brings one consumer to what its sources say, once.

Two entries, one decision:

* `refresh` runs at once after a change and only ever nudges, since that disturbs nobody
* `reconcile` runs after the settle time and does everything else

Both take a key and look at what is true when they run; neither knows what event asked for it.
They never work on one consumer at the same time: each would nudge pods that the other just told.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Literal, NamedTuple
from weakref import WeakValueDictionary

import msgspec

from hotmap.controller.evidence import list_pods
from hotmap.controller.executor import Executor
from hotmap.controller.index import Index
from hotmap.controller.journal import Journal
from hotmap.controller.observing import Observation, Observer
from hotmap.controller.payloads import Payloads
from hotmap.controller.reasons import Reason
from hotmap.controller.records import Records
from hotmap.core.asked import (
    distinct_name,
    record_asked,
    record_reloaders_mark,
    record_rollout,
)
from hotmap.core.budget import brake, note_roll
from hotmap.core.consumer import Consumer
from hotmap.core.errors import (
    ApiError,
    Conflict,
    HotmapError,
    Invalid,
    NotFound,
    Unreachable,
)
from hotmap.core.evidence import MARGIN, pod_starts
from hotmap.core.fingerprint import FingerprintKey
from hotmap.core.freshness import Facts, Finding, Judgement, Verdict, judge
from hotmap.core.interference import (
    Interference,
    Kind,
    find_interference,
    heed,
    record_told,
    was_told,
)
from hotmap.core.jobs import run_name
from hotmap.core.objects import ObjectKey
from hotmap.core.plan import NEW_PODS, Act, Action, Plan, live_change_rolls, make_plan
from hotmap.core.policy import Policy, Strategy
from hotmap.core.present import Present, asked_revision, look_at, revision_of
from hotmap.core.reloader_dialect import Writing
from hotmap.core.state import UNVOUCHED, Looked, Record, Window
from hotmap.core.target import Target, present_target, recorded_target
from hotmap.core.template_patch import restart_time, template_patch
from hotmap.kube.client import Client
from hotmap.kube.recorder import Recorder
from hotmap.kube.resources import BY_KIND

__all__ = ["SECOND_NUDGE", "Decision", "Reconciler"]

#: Seconds after which pods are nudged a second time: a pod sync that outruns the kubelet's own
#: watch would leave the old files until the next periodic sync.
SECOND_NUDGE = 2.0

#: Seconds after which a decision that met a stale version is made again; the store has mostly
#: caught up by then.
_STALE_PAUSE = 0.05

#: How actions are told, the most weighty first. A Job's Event is written once there is a new one
#: to write it on.
_REASONS = {
    Act.ROLLOUT: Reason.ROLLED_OUT,
    Act.RESTART_PODS: Reason.ROLLED_OUT,
    Act.RUN_NOW: Reason.RUN,
    Act.EVICT: Reason.EVICTED,
    Act.NOTIFY: Reason.NOTIFIED,
    Act.NUDGE: Reason.REFRESHED,
}

_log = logging.getLogger(__name__)


class Decision(NamedTuple):
    """What is true of one consumer now, and what follows from it."""

    consumer: Consumer
    policy: Policy
    record: Record | None
    #: The key that the comparison was made with.
    key: FingerprintKey
    presents: tuple[Present, ...]
    judgement: Judgement
    plan: Plan
    revision: str
    #: Whether the pods were looked at, so that what their starts decide is decided.
    looked: bool
    #: What somebody else wrote into the pod template.
    interference: Interference | None


class _Asked(NamedTuple):
    """What a consumer shows once a plan is carried out."""

    generation: int
    #: What its pod template carries.
    revision: str


class Reconciler:
    """Decides and acts for one consumer at a time; workers of both queues call it."""

    def __init__(
        self,
        client: Client,
        *,
        index: Index,
        records: Records,
        observer: Observer,
        executor: Executor,
        payloads: Payloads,
        recorder: Recorder,
        journal: Journal,
        observe_delay: Callable[[float], None],
        alert: Callable[[Consumer, Sequence[ObjectKey], str], None],
        found_changed: Callable[[Present], None],
        flap_limit: int,
    ) -> None:
        self._client = client
        self._index = index
        self._records = records
        self._observer = observer
        self._executor = executor
        self._payloads = payloads
        self._recorder = recorder
        self._journal = journal
        self._observe_delay = observe_delay
        self._alert = alert
        self._found_changed = found_changed
        self._flap_limit = flap_limit
        #: When a consumer that is waited for was first found so, on the monotonic clock.
        self._waiting_since: dict[ObjectKey, float] = {}
        #: What the pods of a consumer were last told, and by uid when to tell them once more.
        self._told: dict[ObjectKey, Target] = {}
        self._tell_again: dict[ObjectKey, dict[str, float]] = {}
        #: The reason that the last Event gave, and the versions that it was about.
        self._announced: dict[ObjectKey, tuple[str, tuple[str, ...]]] = {}
        #: Problems that an Event was written for.
        self._reported: dict[ObjectKey, tuple[str, ...]] = {}
        #: Held by whoever works on a consumer; gone when nobody does.
        self._locks: WeakValueDictionary[ObjectKey, asyncio.Lock] = WeakValueDictionary()

    # -- entries -------------------------------------------------------------------------------

    async def refresh(self, key: ObjectKey) -> float | None:
        """Nudge a consumer's pods if that settles the change; returns seconds to look again.

        Raises:
            ApiError, Unreachable: try again later.
        """
        async with self._locks.setdefault(key, asyncio.Lock()):
            return await self._refresh(key)

    async def _refresh(self, key: ObjectKey) -> float | None:
        consumer = self._index.consumer(key)
        if consumer is None:
            self.forget(key)
            return None
        decision = await self._decide(consumer)
        if _nudge_settles(decision) and await self._nudge(decision):
            self._note(decision)
        elif self._owes_nudge(decision):
            await self._nudge(decision)
        return self._second_nudge_in(key)

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Bring one consumer to what its sources say; returns seconds to look again.

        1. observe: the consumer, its policy, its sources, what was asked of it
        2. judge, with the pods' starts where a rule asks for them
        3. plan
        4. act
        5. record what was asked, and why

        Raises:
            ApiError, Unreachable: nothing is recorded; try again later.
        """
        async with self._locks.setdefault(key, asyncio.Lock()):
            return await self._reconcile(key)

    async def _reconcile(self, key: ObjectKey) -> float | None:
        consumer = self._index.consumer(key)
        if consumer is None:
            self.forget(key)
            return None
        self._report_problems(consumer)
        if not self._index.policy(consumer).opted_in:
            self._journal.forget(key)
            return None
        left = _pause_left(self._index.policy(consumer), now=self._client.server_time())
        if left == 0.0:
            return await self._resume(consumer)
        decision = await self._decide(consumer)
        again = decision.plan.requeue_after
        if again is None:
            self._waiting_since.pop(key, None)
        else:
            self._waiting_since.setdefault(key, time.monotonic())
        try:
            asked = await self._act(decision)
        except (Conflict, NotFound) as error:
            return self._meet_fact(decision, error)
        except (ApiError, Unreachable) as error:
            if isinstance(error, Invalid) and "metadata.uid" in str(error):
                return self._meet_fact(decision, error)
            self._meet_failure(decision, error)
            raise
        self._record(decision, asked)
        self._note(decision)
        self._announce(decision)
        self._tell_interference(decision)
        return min(filter(None, (again, left, self._second_nudge_in(key))), default=None)

    # -- observe, judge, plan ------------------------------------------------------------------

    async def _decide(self, consumer: Consumer) -> Decision:
        index = self._index
        seen = self._observer.observe(consumer)
        policy, record, key, presents = seen.policy, seen.record, seen.key, seen.presents
        facts = Facts(
            now=self._client.server_time(),
            revision=revision_of(presents, key, uid=consumer.uid, live_rolls=seen.live_rolls),
            catch_up=policy.catch_up,
            live_rolls=seen.live_rolls,
            writing=policy.writing,
            wants_created=policy.wants_created,
            wants_deleted=policy.wants_deleted,
            partial=index.is_partial or not all(index.knows(p.source.kind) for p in presents),
            windows=self._windows(record, presents),
            waited=self._waited(consumer.key),
            before_template=self._before_template(consumer, record, presents),
        )
        judgement = judge(consumer, record, presents, facts)
        if judgement.verdict is Verdict.LOOK:
            pods = await list_pods(self._client, consumer)
            facts = facts._replace(starts=pod_starts(consumer, pods))
            judgement = judge(consumer, record, presents, facts)
        plan = make_plan(consumer, policy, judgement, changed=self._seen(record, presents))
        if record is not None:
            changed = [finding.present.source for finding in judgement.changed()]
            writers = [seen.sources[one].writer for one in changed if one in seen.sources]
            plan = brake(plan, record.rolls, now=facts.now, writers=writers, limit=self._flap_limit)
        interference = self._interference(seen, now=facts.now)
        plan = heed(plan, interference, told=was_told(record, interference), now=facts.now)
        return Decision(
            consumer,
            policy,
            record,
            key,
            presents,
            judgement,
            plan,
            facts.revision,
            looked=facts.starts is not None,
            interference=interference,
        )

    def _interference(self, seen: Observation, *, now: float) -> Interference | None:
        """Find what somebody else wrote; in Reloader's ways of writing its marks are ours."""
        if not self._executor.writes or seen.policy.writing is not Writing.REVISION:
            return None
        own = self._observer.key_ids
        return find_interference(seen.consumer, seen.record, own_keys=own, now=now)

    def _windows(self, record: Record | None, presents: Sequence[Present]) -> tuple[Window, ...]:
        """Find edits that were taken back since something was asked (rule 3)."""
        held = _remade_immutable(record, presents)
        windows = []
        for present, version in _versions_asked(record, presents):
            if present.source in held:
                continue  # new pods would read what the old ones did, again and again
            if window := self._index.history.window_since(present, version):
                windows.append(window)
        return tuple(windows)

    def _before_template(
        self, consumer: Consumer, record: Record | None, presents: Sequence[Present]
    ) -> frozenset[ObjectKey]:
        """Name the sources that were seen to change, and the pod template after them (rule 6).

        A template of the generation that the record vouches for is our own doing.
        """
        template = self._index.template_seen(consumer.key)
        if template is None or record is None or template.generation <= record.generation:
            return frozenset()
        history = self._index.history
        return frozenset(
            present.source
            for present, version in _versions_asked(record, presents)
            if (last := history.last_since(present, version)) is not None and last < template.at
        )

    def _seen(
        self, record: Record | None, presents: Sequence[Present]
    ) -> Mapping[ObjectKey, frozenset[str]]:
        return {
            present.source: self._index.history.keys_since(present.source, version)
            for present, version in _versions_asked(record, presents)
        }

    def _waited(self, key: ObjectKey) -> float:
        since = self._waiting_since.get(key)
        return 0.0 if since is None else time.monotonic() - since

    # -- act -----------------------------------------------------------------------------------

    async def _act(self, decision: Decision) -> _Asked:
        """Carry out the plan."""
        asked = _Asked(decision.consumer.generation, decision.consumer.revision)
        for action in decision.plan.actions:
            if action.act is Act.NUDGE:
                await self._nudge(decision)
            elif action.act in NEW_PODS:
                asked = await self._start_new_pods(decision, action)
                if (first := self._first_seen(decision)) is not None:
                    self._observe_delay(self._client.server_time() - first)
        if not decision.plan.actions and self._owes_nudge(decision):
            await self._nudge(decision)
        return asked

    async def _start_new_pods(self, decision: Decision, action: Action) -> _Asked:
        """Have new pods started in the way of the kind."""
        consumer, executor = decision.consumer, self._executor
        match action.act:
            case Act.ROLLOUT:
                return await self._roll_out(decision, action)
            case Act.RESTART_PODS:
                changes = [found.present.changed_at for found in decision.judgement.changed()]
                at = restart_time(changes, now=self._client.server_time())
                return _Asked(await executor.restart_pods(consumer, at), consumer.revision)
            case Act.RUN_NOW:
                await executor.run_now(consumer, run_name(consumer, decision.judgement))
            case Act.RECREATE:
                await executor.recreate(consumer, decision.plan.reason)
            case _:
                await executor.evict(consumer)
        return _Asked(consumer.generation, consumer.revision)

    async def _roll_out(self, decision: Decision, action: Action) -> _Asked:
        revision = decision.revision
        if action.distinct:
            previous = self._previous_revision(decision)
            revision = distinct_name(revision, decision.record, previous=previous)
        patch = template_patch(
            decision.consumer,
            revision,
            writing=decision.policy.writing,
            stamps=action.stamps,
            distinct=action.distinct,
            now=self._client.server_time(),
        )
        generation = await self._executor.rollout(decision.consumer, patch)
        return _Asked(generation, patch.revision)

    async def _resume(self, consumer: Consumer) -> float:
        """Resume what was left paused; everything else is looked at after that."""
        left_paused = self._index.policy(consumer).left_paused
        assert left_paused is not None
        with suppress(Conflict, NotFound):
            await self._executor.resume(consumer, left_paused.annotation)
            reason = "Reloader had paused it, and its pause period is over"
            self._event(consumer, Reason.RESUMED, reason)
        return _STALE_PAUSE

    async def _nudge(self, decision: Decision) -> int:
        """Tell the pods once now and once more after SECOND_NUDGE; returns how many were told.

        Raises:
            ApiError, Unreachable: some could not be told; only these are tried again.
        """
        consumer = decision.consumer
        key = consumer.key
        target = self._target(decision)
        now = time.monotonic()
        owed = self._tell_again.get(key, {}) if self._told.get(key) == target else {}
        due = {uid for uid, at in owed.items() if at <= now}
        asked = recorded_target(decision.record, decision.presents, decision.key, uid=consumer.uid)
        told = target._replace(payloads=await self._payloads.digests(consumer))
        result = await self._executor.nudge(consumer, told, asked=asked, again=due)
        self._told[key] = target
        left = {uid: at for uid, at in owed.items() if uid not in due or uid in result.missed}
        self._tell_again[key] = left | dict.fromkeys(result.told, now + SECOND_NUDGE)
        if result.refusal:
            self._event(consumer, Reason.NUDGE_REFUSED, result.refusal, type_="Warning")
        if result.failure:
            raise result.failure
        return len(result.told) + len(due)

    def _owes_nudge(self, decision: Decision) -> bool:
        """Tell whether pods were told something that is not true any more, or are due again.

        An edit that is taken back before anything is recorded leaves no other trace.
        """
        if not decision.policy.opted_in or decision.policy.strategy is Strategy.NOTIFY:
            return False
        told = self._told.get(decision.consumer.key)
        if told is None or decision.judgement.verdict not in (Verdict.FRESH, Verdict.LIVE):
            return False
        owed = self._tell_again.get(decision.consumer.key, {})
        now = time.monotonic()
        return told != self._target(decision) or any(at <= now for at in owed.values())

    def _target(self, decision: Decision) -> Target:
        return present_target(decision.presents, decision.key, uid=decision.consumer.uid)

    def _second_nudge_in(self, key: ObjectKey) -> float | None:
        """Seconds until pods are to be told again; what nobody owes them any more is dropped."""
        now = time.monotonic()
        owed = {uid: at for uid, at in self._tell_again.pop(key, {}).items() if at > now}
        if not owed:
            return None
        self._tell_again[key] = owed
        return min(owed.values()) - now

    def _meet_fact(self, decision: Decision, error: ApiError) -> float | None:
        """A write met another truth than the decision saw; that is no failure."""
        outcome = f"the {decision.consumer.key.kind} is another one by now: {error}"
        self._note(decision, outcome=outcome)
        return _STALE_PAUSE if isinstance(error, Conflict) else None

    def _meet_failure(self, decision: Decision, error: HotmapError) -> None:
        """Say once what keeps a consumer from its change; it is tried again, with pauses."""
        outcome = f"failed, and is tried again: {error}"
        if self._note(decision, outcome=outcome):
            message = f"{decision.plan.reason}; {outcome}"
            self._event(decision.consumer, Reason.FAILED, message, type_="Warning")

    # -- record --------------------------------------------------------------------------------

    def _record(self, decision: Decision, done: _Asked) -> None:
        """Keep what was asked, unless the plan asked for nothing and nothing is new."""
        if not decision.plan.settles:
            return
        consumer, record = decision.consumer, decision.record
        rollout = next((a for a in decision.plan.actions if a.act is Act.ROLLOUT), None)
        starts_pods = any(action.act in NEW_PODS for action in decision.plan.actions)
        generation = done.generation
        if not starts_pods and consumer.rolling:
            # What its own controller is rolling out may have read older content: not vouched for.
            generation = record.generation if record else UNVOUCHED
        findings, key = self._for_record(decision)
        asked = record_asked(consumer, record, findings, key_id=key.id, generation=generation)
        now = self._client.server_time()
        if rollout is not None:
            asked = record_rollout(
                asked,
                previous=self._previous_revision(decision),
                revision=decision.revision,
                distinct=rollout.distinct,
                left_at=self._first_seen(decision) or now,
                now=now,
            )
            asked = msgspec.structs.replace(asked, revision=done.revision)
            if decision.policy.writing is not Writing.REVISION:
                asked = record_reloaders_mark(asked, now=now)
        if starts_pods:
            rolls = note_roll(asked.rolls, now, limit=self._flap_limit)
            asked = msgspec.structs.replace(asked, rolls=rolls)
        elif _leaves_older_pods(decision):
            asked = msgspec.structs.replace(asked, looked=Looked.LATENT)
        elif record is not None and not decision.looked and _only_versions_moved(record, asked):
            self._records.note(asked)
            return
        self._records.put(asked)

    def _previous_revision(self, decision: Decision) -> str:
        """Name what the template was asked for before; Reloader's ways of writing do not say."""
        consumer, policy, record = decision.consumer, decision.policy, decision.record
        if policy.writing is Writing.REVISION or record is None:
            return consumer.revision
        return asked_revision(
            record,
            decision.key,
            namespace=consumer.key.namespace,
            uid=consumer.uid,
            live_rolls=live_change_rolls(consumer, policy),
        )

    def _for_record(self, decision: Decision) -> tuple[tuple[Finding, ...], FingerprintKey]:
        """Give the findings with fingerprints of the newest key, and that key.

        What is kept of a source that is held or gone was made with the older key and cannot be
        made again, so such a record stays with it.
        """
        findings = decision.judgement.findings
        kept = any(f.verdict is Verdict.HOLD or not f.present.exists for f in findings)
        newest = self._observer.newest
        if kept or decision.key is newest:
            return findings, decision.key
        uses = [use for present in decision.presents for use in present.uses]
        presents = look_at(uses, self._index.sources_of(uses), newest)
        pairs = zip(findings, presents, strict=True)
        return tuple(f._replace(present=present) for f, present in pairs), newest

    def _first_seen(self, decision: Decision) -> float | None:
        times = [
            at
            for present, version in _versions_asked(decision.record, decision.presents)
            if (at := self._index.history.first_since(present, version)) is not None
        ]
        return min(times) if times else None

    def forget(self, key: ObjectKey) -> None:
        """Drop what is kept in memory of a consumer that is gone."""
        self._journal.forget(key)
        for kept in (
            self._waiting_since,
            self._told,
            self._tell_again,
            self._announced,
            self._reported,
        ):
            kept.pop(key, None)

    def _note(self, decision: Decision, *, outcome: str = "done") -> bool:
        """Keep a decision; False when it was told before."""
        return self._journal.note(
            decision.consumer,
            decision.plan,
            revision=decision.revision,
            versions=_versions(decision),
            outcome=outcome,
        )

    # -- tell ----------------------------------------------------------------------------------

    def _announce(self, decision: Decision) -> None:
        """Write at most one Event for a settled change."""
        for finding in decision.judgement.changed():
            self._found_changed(finding.present)
        plan, consumer = decision.plan, decision.consumer
        told = (plan.reason, _versions(decision))
        if self._announced.get(consumer.key) == told:
            return
        if not plan.warning and not plan.actions:
            self._announced.pop(consumer.key, None)
            return
        self._announced[consumer.key] = told
        if plan.warning:
            self._event(consumer, Reason.HELD, plan.reason, type_="Warning")
            return
        acts = [action.act for action in plan.actions]
        if not NEW_PODS.isdisjoint(acts):
            changed = [finding.present.source for finding in decision.judgement.changed()]
            self._alert(consumer, changed, plan.reason)
        told_as = (reason for act, reason in _REASONS.items() if act in acts)
        if (reason := next(told_as, None)) is not None:
            self._event(consumer, reason, plan.reason)

    def _tell_interference(self, decision: Decision) -> None:
        """Tell once of each write of somebody else, also across restarts and leaders."""
        found, consumer = decision.interference, decision.consumer
        record = self._records.get(consumer.uid)
        if found is None or record is None or was_told(record, found):
            return
        self._records.put(record_told(record, found))
        self._journal.note_interference(consumer, found)
        other = found.kind in (Kind.HOTMAP, Kind.RELOADER)
        reason = Reason.OTHER_CONTROLLER if other else Reason.REVISION_CHANGED
        self._event(consumer, reason, found.reason, type_="Warning")

    def _report_problems(self, consumer: Consumer) -> None:
        messages = tuple(p.message for p in self._index.policy(consumer).problems)
        if self._reported.get(consumer.key, ()) == messages:
            return
        self._reported[consumer.key] = messages
        for message in messages:
            _log.warning(message, extra={"consumer": str(consumer.key), "change": ""})
            self._event(consumer, Reason.INVALID_ANNOTATION, message, type_="Warning")

    def _event(
        self,
        consumer: Consumer,
        reason: Reason,
        message: str,
        *,
        type_: Literal["Normal", "Warning"] = "Normal",
    ) -> None:
        self._recorder.event(
            consumer.key,
            api_version=BY_KIND[consumer.key.kind].api_version,
            uid=consumer.uid,
            type=type_,
            reason=reason,
            message=message,
        )


def _pause_left(policy: Policy, *, now: float) -> float | None:
    """Seconds until what Reloader left paused is to be resumed; None: it is not ours to do."""
    if policy.left_paused is None or policy.strategy is Strategy.NOTIFY:
        return None
    return max(0.0, policy.left_paused.until + MARGIN - now)


def _nudge_settles(decision: Decision) -> bool:
    """Tell whether the plan only nudges."""
    actions = decision.plan.actions
    return bool(actions) and all(action.act is Act.NUDGE for action in actions)


def _leaves_older_pods(decision: Decision) -> bool:
    """Tell whether what changed takes effect at the next restart only, and that was reported."""
    reported = any(action.act is Act.NOTIFY for action in decision.plan.actions)
    return reported and decision.judgement.verdict is Verdict.FROZEN


def _versions(decision: Decision) -> tuple[str, ...]:
    return tuple(present.resource_version for present in decision.presents)


def _versions_asked(
    record: Record | None, presents: Sequence[Present]
) -> list[tuple[Present, str]]:
    """Pair what is present with the resourceVersion that was last asked for, where known."""
    known = {(s.kind, s.name): s for s in record.sources} if record else {}
    return [
        (present, asked.resource_version)
        for present in presents
        if (asked := known.get((present.source.kind, present.source.name)))
    ]


def _remade_immutable(record: Record | None, presents: Sequence[Present]) -> set[ObjectKey]:
    """Name the sources that were immutable and are other objects now (rule 7)."""
    immutable = {(s.kind, s.name): s.uid for s in record.sources if s.immutable} if record else {}
    return {
        present.source
        for present in presents
        if immutable.get((present.source.kind, present.source.name), present.uid) != present.uid
    }


def _only_versions_moved(before: Record, after: Record) -> bool:
    """Tell whether two records say the same, apart from resourceVersions; not worth a write."""

    def content(record: Record) -> tuple[object, ...]:
        sources = [(s.kind, s.name, s.uses, s.uid, s.frozen, s.live) for s in record.sources]
        return record.key_id, record.generation, record.windows, sources

    return content(before) == content(after)
