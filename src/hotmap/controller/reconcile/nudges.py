"""Nudges pods, and tracks which pods got which nudge and need another one.

Whether a pod needs a nudge depends on its last one; each is sent twice: a pod sync that outruns the
kubelet's own watch would leave the old files until the next periodic sync. A pod whose agent has
proven the content meanwhile needs no second one. What a leader before has sent counts: its second
nudge may be missing, or other content may have been there since. Pods are not listed again for the
decision that records a change, when all of them were nudged just before: later pods start with the
content.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from math import inf
from typing import NamedTuple, Protocol

from hotmap.controller.reconcile.payload_digests import PayloadDigests
from hotmap.controller.reconcile.restart_waves import RestartWaves
from hotmap.controller.watch.pods import list_pods
from hotmap.core.decide.decision import Decision
from hotmap.core.decide.evidence import MARGIN, earliest_mount
from hotmap.core.decide.nudge_sequence import NudgeNumbers
from hotmap.core.decide.snapshot import SentNudge, Snapshot
from hotmap.core.errors import (
    ApiError,
    Conflict,
    HotmapError,
    NotFound,
    ResponseTooLarge,
    Throttled,
    Unauthorized,
    Unavailable,
)
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey, Pod
from hotmap.core.patch.nudge import (
    SECOND_NUDGE,
    can_be_nudged,
    is_before,
    is_starting,
    nudge_time,
    read_target,
)
from hotmap.core.status.desired import latest_time
from hotmap.core.target import TARGET, Target, parse_target
from hotmap.kube.client import Client
from hotmap.kube.fair_slots import FairSlots
from hotmap.kube.loop_clock import loop_time
from hotmap.kube.resources import PODS
from hotmap.kube.written import Written

__all__ = ["SECOND_NUDGE", "NudgeReporter", "Nudges"]

#: Seconds for which the second nudge of a leader before may be missing.
_RECENT = 10.0

#: Seconds until the next decision on a consumer whose pods have become due meanwhile.
_AT_ONCE = 0.001

#: Seconds until the next decision on a consumer while some of its pods wait to restart.
_WAVE_INTERVAL = 1.0

#: The same if none of them can restart before something else changes.
_STALLED_INTERVAL = 10.0

#: Nudges in flight at once, over all consumers: files are refreshed by kubelets, each of which
#: then reads the API server, so a burst is spread.
_NUDGES_AT_ONCE = 32

#: Lists of pods at once, over all consumers: each may take megabytes.
_LISTS_AT_ONCE = 2

#: The same of short lists, which most are, and their largest size in bytes: the consumers of one
#: source must not wait for each other. A list counts as short by the number of pods, and a longer
#: one is read again in its turn.
_SHORT_LISTS_AT_ONCE = 16
_SHORT_LIST, _FEW_PODS = 1 << 20, 20


class _Nudge(NamedTuple):
    """The nudge of one pod."""

    name: str
    uid: str
    #: The annotation's value, and the one before.
    value: str
    replaces: str


class _Result(NamedTuple):
    """The result of nudging one pod."""

    nudge: _Nudge
    #: why it will never accept it, or ""
    refusal: str = ""
    #: why it could not be nudged now
    failure: HotmapError | None = None


class _Round(NamedTuple):
    """The nudges of a consumer's pods after one LIST; pods by uid."""

    #: Pods whose last nudge was another one, pods that wait until others have restarted, and pods
    #: that a leader before has just nudged.
    new: set[str]
    held: set[str]
    recent: set[str]
    results: Sequence[_Result]
    #: Whether some pods are about to start, perhaps with the content before.
    some_start: bool

    @property
    def failures(self) -> dict[str, HotmapError]:
        return {item.nudge.uid: item.failure for item in self.results if item.failure}

    @property
    def refusals(self) -> dict[str, str]:
        return {item.nudge.uid: item.refusal for item in self.results if item.refusal}

    @property
    def told(self) -> dict[str, _Nudge]:
        """The pods that have got a new nudge."""
        return {
            item.nudge.uid: item.nudge
            for item in self.results
            if item.nudge.uid in self.new and not item.failure and not item.refusal
        }


class _SentNudges:
    """The nudges of a consumer's pods with one target; pods by uid."""

    def __init__(self, target: Target) -> None:
        self.target = target
        #: Whether pods were nudged in this term; a pod check may have requested nudges before.
        self.is_begun = False
        #: When the last pod was nudged, on the event loop's clock; None: not all could be.
        self.completed_at: float | None = None
        #: When pods are to be nudged a second time.
        self.second: dict[str, float] = {}
        #: Pods that refused a nudge, which is not repeated for each pod check.
        self.refused: frozenset[str] = frozenset()
        #: The first nudges, while second ones are missing.
        self.first: dict[str, _Nudge] = {}

    def due(self, now: float) -> set[str]:
        return {uid for uid, at in self.second.items() if at <= now}

    def is_complete(self, now: float) -> bool:
        """Return whether all pods were nudged so recently that none needs it again."""
        return self.completed_at is not None and now - self.completed_at < SECOND_NUDGE

    def overwritten(self, done: _Round) -> list[_Nudge]:
        """Return the nudges of pods whose first one another client has overwritten.

        A cache that lags behind may show what was there before; anything else is overwritten,
        unless it names the same content: pods are also told again where that has come back.
        """
        return [
            nudge
            for uid, nudge in sorted(done.told.items())
            if uid in self.first
            and nudge.replaces != self.first[uid].replaces
            and not self._is_named(nudge.replaces)
        ]

    def _is_named(self, value: str) -> bool:
        found = parse_target(value)
        return found is not None and found.names_same_content(self.target)

    def after(self, done: _Round, due: Collection[str], held_until: float) -> _SentNudges:
        """Return the nudges after one more round, which repeated those in `due`."""
        now, told, failed, refused = loop_time(), done.told, set(done.failures), set(done.refusals)
        result = _SentNudges(self.target)
        result.is_begun = True
        if not (failed or refused or done.held or done.some_start):
            result.completed_at = now
        result.second = {
            uid: at for uid, at in self.second.items() if uid not in due or uid in failed
        }
        overwritten = {nudge.uid for nudge in self.overwritten(done)}
        # A failed request may have reached the pod: then it is the first nudge, and needs a second.
        once = (told.keys() - overwritten) | done.recent | (done.new & failed)
        result.second |= dict.fromkeys(once, now + SECOND_NUDGE)
        result.second |= dict.fromkeys(done.held, held_until)
        result.refused = self.refused | refused
        result.first = {**told, **self.first} if result.second else {}
        return result


class NudgeReporter(Protocol):
    """Tells users what prevents nudges."""

    def nudge_refused(self, consumer: Consumer, why: str) -> None:
        """Report why pods refused a nudge."""
        ...

    def nudge_overwritten(self, consumer: Consumer, pod: str) -> None:
        """Report that another client has overwritten the nudge of a pod."""
        ...


class Nudges:
    """The nudges of each consumer's pods in one term of leadership."""

    def __init__(
        self,
        client: Client,
        payloads: PayloadDigests,
        *,
        check_leading: Callable[[], None],
        reporter: NudgeReporter,
        waves: RestartWaves,
        on_agents_notified: Callable[[ObjectKey], None] = lambda _: None,
    ) -> None:
        """`on_agents_notified` gets consumers whose agents were nudged with other content."""
        self._client = client
        self._payloads = payloads
        self._check_leading = check_leading
        self._reporter = reporter
        self._on_agents_notified = on_agents_notified
        self._waves = waves
        # Namespaces take turns: 10,000 pods of one delay no other's.
        self._slots = FairSlots(_NUDGES_AT_ONCE)
        self._lists = FairSlots(_LISTS_AT_ONCE)
        self._short_lists = FairSlots(_SHORT_LISTS_AT_ONCE)
        self._sent: dict[ObjectKey, _SentNudges] = {}

    def sent(self, key: ObjectKey) -> SentNudge | None:
        """Return the last nudge of a consumer's pods; None: none in this term."""
        sent = self._sent.get(key)
        if sent is None:
            return None
        now = loop_time()
        return SentNudge(sent.target, due=bool(sent.due(now)), as_of=now)

    def second_in(self, snapshot: Snapshot) -> float | None:
        """Seconds until the next second nudge, after a decision on a snapshot was carried out.

        Those that were due in the snapshot are dropped, since the decision covered them. Those that
        have become due since remain.
        """
        sent = self._sent.get(snapshot.consumer.key)
        if sent is None:
            return None
        decided = snapshot.sent.as_of if snapshot.sent else -inf
        sent.second = {uid: at for uid, at in sent.second.items() if at > decided}
        if not sent.second:
            return None
        return max(min(sent.second.values()) - loop_time(), _AT_ONCE)

    def confirm(self, key: ObjectKey, target: Target, uids: Iterable[str]) -> None:
        """Cancel the second nudge of pods whose agents have proven the content of the first."""
        sent = self._sent.get(key)
        if sent is not None and sent.target.names_same_content(target):
            for uid in uids:
                sent.second.pop(uid, None)

    def request(self, key: ObjectKey, target: Target, uids: Iterable[str]) -> bool:
        """Have pods nudged with the content of the last nudge; return whether any is due now.

        They were created after it, so close to the change that they may have the files before; or
        a leader before has nudged them only once.
        """
        # Decisions compare targets without the payload digests of the pods' volumes.
        sent = self._sent.setdefault(key, _SentNudges(target._replace(payloads=())))
        if not sent.target.names_same_content(target):
            return False
        sent.refused &= set(uids)
        known = sent.second.keys() | sent.refused
        missing = [uid for uid in uids if uid not in known]
        sent.second.update(dict.fromkeys(missing, loop_time()))
        return bool(missing)

    def waiting_restarts(self, key: ObjectKey) -> str:
        """Return why pods of a consumer wait to restart in place; "" when none does."""
        return self._waves.reason(key)

    def end_restarts(self, key: ObjectKey) -> None:
        """Let no pod of a consumer wait to restart in place: a decision does not want it."""
        if self._waves.reason(key) and (sent := self._sent.get(key)) is not None:
            sent.second.clear()  # the next round of nudges would tell the pods that wait
        self._waves.end_wait(key)

    def forget(self, key: ObjectKey) -> None:
        """Drop the state of a deleted consumer."""
        self._sent.pop(key, None)
        self._waves.forget(key)

    async def send(self, decision: Decision) -> int:
        """Nudge the pods now and again after SECOND_NUDGE; returns how many were nudged.

        Raises:
            ApiError, Unreachable: some could not be nudged; only these are retried.
        """
        snapshot = decision.snapshot
        consumer, target, now = snapshot.consumer, snapshot.target, loop_time()
        key = consumer.key
        sent = self._sent.get(key)
        earlier = sent if sent is not None and sent.target == target else _SentNudges(target)
        due = earlier.due(now)
        if not due and earlier.is_complete(now):
            return 0
        digests = await self._payloads.digests(consumer)
        annotated = target._replace(payloads=tuple(each.digest for each in digests))
        is_first = sent is None or not sent.is_begun
        done = await self._nudge_pods(snapshot, annotated, again=due, is_first=is_first)
        self._waves.record_requests(key, target, sorted(done.told))
        wait = _STALLED_INTERVAL if self._waves.is_stalled(key) else _WAVE_INTERVAL
        self._sent[key] = earlier.after(done, due, held_until=now + wait)
        # Another hotmap would overwrite the next nudge too, and so on without end.
        for nudge in earlier.overwritten(done)[:1]:
            self._reporter.nudge_overwritten(consumer, nudge.name)
        for refusal in list(done.refusals.values())[:1]:
            self._reporter.nudge_refused(consumer, refusal)
        if done.new and snapshot.policy.agent is not None:
            self._on_agents_notified(key)
        for failure in done.failures.values():
            raise failure
        return len(done.told) + len(due - done.held)

    async def _nudge_pods(
        self, snapshot: Snapshot, target: Target, *, again: Collection[str], is_first: bool
    ) -> _Round:
        """Nudge those pods of a consumer whose last nudge was different, and the pods in `again`.

        `recorded` counts as the last nudge of a pod without one. A failure does not stop the
        others. `is_first`: in this term, so that other nudges are of a leader before.
        """
        consumer, recorded = snapshot.consumer, snapshot.recorded_target
        listed = await self._list(consumer)
        pods = [pod for pod in listed if can_be_nudged(pod)]
        some_start = any(map(is_starting, listed))
        new = _choose_new(pods, snapshot, target, is_first=is_first)
        recent: set[str] = set()
        if is_first:
            recent = {pod.metadata.uid for pod in pods if _is_recent(pod, snapshot.now)}
            recent -= new | set(again)
        held = await self._waves.held_back(snapshot, target, pods, new)
        new -= held
        chosen = new | (set(again) - held)
        needing = [pod for pod in pods if pod.metadata.uid in chosen]
        before = recorded if snapshot.policy.agent is not None else None
        numbers = NudgeNumbers(snapshot)
        nudges = [_nudge(pod, numbers, target, before) for pod in _interleave_nodes(needing)]
        del listed, pods, needing  # they are large, and patching takes a while
        results = await self._send_all(consumer.key.namespace, nudges)
        return _Round(new, held, recent, results, some_start)

    async def _list(self, consumer: Consumer) -> list[Pod]:
        """List a consumer's pods; short lists do not wait for long ones."""
        namespace = consumer.key.namespace
        if consumer.pods <= _FEW_PODS:
            with suppress(ResponseTooLarge):
                async with self._short_lists.use(namespace):
                    return await list_pods(self._client, consumer, at_most=_SHORT_LIST)
        async with self._lists.use(namespace):
            return await list_pods(self._client, consumer)

    async def _send_all(self, namespace: str, nudges: Sequence[_Nudge]) -> list[_Result]:
        """Send nudges by a few tasks, since there may be thousands of pods."""
        results: list[_Result] = []
        queue = iter(nudges)

        async def send() -> None:
            for nudge in queue:
                results.append(await self._send_one(namespace, nudge))  # noqa: PERF401

        await asyncio.gather(*(send() for _ in range(min(len(nudges), _NUDGES_AT_ONCE))))
        return results

    async def _send_one(self, namespace: str, nudge: _Nudge) -> _Result:
        body = {"metadata": {"uid": nudge.uid, "annotations": {TARGET: nudge.value}}}
        refuses = f"Pod {namespace}/{nudge.name} refuses the nudge"
        async with self._slots.use(namespace):
            try:
                self._check_leading()
                answer = await self._client.patch(
                    PODS,
                    namespace,
                    nudge.name,
                    body,
                    type=Written,
                    attempts=1,  # the consumer is retried; others need not wait for it
                )
            except (NotFound, Conflict):
                return _Result(nudge)  # the pod was deleted, or its name is another pod's
            except (Throttled, Unavailable, Unauthorized) as error:
                return _Result(nudge, failure=error)
            except ApiError as error:
                return _Result(nudge, refusal=f"{refuses}: {error}")
            except HotmapError as error:
                return _Result(nudge, failure=error)
        if (answer.metadata.annotations or {}).get(TARGET) != nudge.value:
            why = "an admission policy or webhook removed the annotation"
            return _Result(nudge, refusal=f"{refuses}: {why}")
        return _Result(nudge)


def _choose_new(
    pods: Sequence[Pod], snapshot: Snapshot, target: Target, *, is_first: bool
) -> set[str]:
    """Choose the pods, by uid, that need a nudge they have not had.

    In the first round of a term, also those that a leader before has told of the same content
    before its last change: kubelets may have had other content since.
    """
    chosen = {
        pod.metadata.uid
        for pod in pods
        if _holds_other(pod, target, snapshot.recorded_target)
        or _may_lag(pod, snapshot.returned_at)
    }
    if is_first:
        changed = latest_time(each.changed_at for each in snapshot.sources if each.live)
        chosen |= {pod.metadata.uid for pod in pods if is_before(nudge_time(pod), changed)}
    return chosen


def _holds_other(pod: Pod, target: Target, recorded: Target | None) -> bool:
    told = read_target(pod) or recorded
    return told is None or not told.names_same_content(target)


def _may_lag(pod: Pod, returned_at: float) -> bool:
    """Return whether a kubelet may have other content in a pod that was there until a time.

    It keeps that until it syncs the pod, whatever the pod was told before.
    """
    at = nudge_time(pod)
    if at is not None:
        return is_before(at, returned_at)
    mounted = earliest_mount(pod)
    return mounted is None or mounted < returned_at + MARGIN


def _is_recent(pod: Pod, now: float) -> bool:
    """Return whether a pod was nudged so recently that its second nudge may be missing."""
    at = nudge_time(pod)
    return at is not None and now - at < _RECENT


def _nudge(pod: Pod, numbers: NudgeNumbers, target: Target, before: Target | None) -> _Nudge:
    told = read_target(pod)
    value = _with_content_before(target, told, before)
    value = value._replace(sequence=numbers.after(told))
    replaces = "" if told is None else str(told)
    return _Nudge(pod.metadata.name, pod.metadata.uid, str(value), replaces)


def _with_content_before(target: Target, told: Target | None, before: Target | None) -> Target:
    """Add to the first nudge of a pod, and to all after it, what the pod started with.

    Its agent may be away during the first, or its kubelet may show it only a later one.
    """
    if told is None and before is not None:
        return target._replace(live_before=before.live, frozen_before=before.frozen)
    if told is not None:
        return target._replace(live_before=told.live_before, frozen_before=told.frozen_before)
    return target


def _interleave_nodes(pods: Sequence[Pod]) -> list[Pod]:
    """Order pods so that neighbours in the list run on different nodes."""
    by_node: dict[str, list[Pod]] = {}
    for pod in pods:
        by_node.setdefault(pod.spec.node_name, []).append(pod)
    spread: list[Pod] = []
    rows = list(by_node.values())
    while rows:
        spread += [row.pop() for row in rows]
        rows = [row for row in rows if row]
    return spread
