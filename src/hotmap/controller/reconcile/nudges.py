"""Tracks which pods got which nudge and need another one.

Whether a pod needs a nudge depends on its last one (`core/decide/nudge_choice`). Each is sent twice
(`nudge_round`): a pod sync that outruns the kubelet's own watch would leave the old files until the
next periodic sync. A pod whose agent has proven the content meanwhile needs no second one. What a
leader before has sent counts: its second nudge may be missing, or other content may have been there
since. Pods are not listed again for the decision that records a change, when all of them were
nudged just before: later pods start with the content.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from math import inf
from typing import Protocol

from hotmap.controller.reconcile.nudge_round import Nudge, NudgeRound, NudgeSender
from hotmap.controller.reconcile.payload_digests import PayloadDigests
from hotmap.controller.reconcile.restart_waves import RestartWaves
from hotmap.controller.storage.records import Records
from hotmap.core.decide.decision import Decision
from hotmap.core.decide.snapshot import SentNudge, Snapshot
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.patch.nudge import SECOND_NUDGE
from hotmap.core.target import Target, parse_target
from hotmap.kube.client import Client
from hotmap.kube.loop_clock import loop_time

__all__ = ["NudgeReporter", "Nudges"]

#: Seconds until the next decision on a consumer whose pods have become due meanwhile.
_AT_ONCE = 0.001

#: Seconds until the next decision on a consumer while some of its pods wait to restart.
_WAVE_INTERVAL = 1.0

#: The same if none of them can restart before something else changes.
_STALLED_INTERVAL = 10.0


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
        self.first: dict[str, Nudge] = {}

    def due(self, now: float) -> set[str]:
        return {uid for uid, at in self.second.items() if at <= now}

    def is_complete(self, now: float) -> bool:
        """Return whether all pods were nudged so recently that none needs it again."""
        return self.completed_at is not None and now - self.completed_at < SECOND_NUDGE

    def overwritten(self, done: NudgeRound) -> list[Nudge]:
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

    def after(self, done: NudgeRound, due: Collection[str], held_until: float) -> _SentNudges:
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
    """Reports what prevents nudges."""

    def report_refused_nudge(self, consumer: Consumer, why: str) -> None:
        """Report why pods refused a nudge."""
        ...

    def report_overwritten_nudge(self, consumer: Consumer, pod: str) -> None:
        """Report that another client has overwritten the nudge of a pod."""
        ...


class Nudges:
    """The nudges of each consumer's pods in one term of leadership."""

    def __init__(
        self,
        client: Client,
        payloads: PayloadDigests,
        records: Records,
        *,
        check_leading: Callable[[], None],
        reporter: NudgeReporter,
        waves: RestartWaves,
        on_agents_notified: Callable[[ObjectKey], None] = lambda _: None,
    ) -> None:
        """`on_agents_notified` gets consumers whose agents were nudged with other content."""
        self._payloads = payloads
        self._reporter = reporter
        self._on_agents_notified = on_agents_notified
        self._waves = waves
        self._sender = NudgeSender(client, records, check_leading=check_leading, waves=waves)
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
        done = await self._sender.send_round(snapshot, annotated, again=due, is_first=is_first)
        self._waves.record_requests(key, target, sorted(done.told))
        wait = _STALLED_INTERVAL if self._waves.is_stalled(key) else _WAVE_INTERVAL
        self._sent[key] = earlier.after(done, due, held_until=now + wait)
        # Another hotmap would overwrite the next nudge too, and so on without end.
        for nudge in earlier.overwritten(done)[:1]:
            self._reporter.report_overwritten_nudge(consumer, nudge.name)
        for refusal in list(done.refusals.values())[:1]:
            self._reporter.report_refused_nudge(consumer, refusal)
        if done.new and snapshot.policy.agent is not None:
            self._on_agents_notified(key)
        for failure in done.failures.values():
            raise failure
        return len(done.told) + len(due - done.held)
