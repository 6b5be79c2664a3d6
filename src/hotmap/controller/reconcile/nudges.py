"""Nudges: which pods of a consumer were told what, and which are to be told once more.

A nudge is decided per pod by what it was last told, and sent twice: a pod sync that outruns the
kubelet's own watch would leave the old files until the next periodic sync.
"""

from __future__ import annotations

from collections.abc import Callable

from hotmap.controller.reconcile.deciding import Decision
from hotmap.controller.reconcile.executor import Executor
from hotmap.controller.reconcile.payload_digests import PayloadDigests
from hotmap.core.decide.freshness import Verdict
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.patch.nudge import Target, desired_target, recorded_target
from hotmap.core.policy.policy import Strategy
from hotmap.kube.loop_clock import loop_time

__all__ = ["SECOND_NUDGE", "Nudges"]

#: Seconds after which pods are nudged a second time.
SECOND_NUDGE = 2.0


class Nudges:
    """What the pods of each consumer were told in one term of leading."""

    def __init__(
        self, executor: Executor, payloads: PayloadDigests, refused: Callable[[Consumer, str], None]
    ) -> None:
        """`refused` is told why pods refused a nudge."""
        self._executor = executor
        self._payloads = payloads
        self._refused = refused
        #: What the pods of a consumer were last told, and by uid when to tell them once more.
        self._told: dict[ObjectKey, Target] = {}
        self._tell_again: dict[ObjectKey, dict[str, float]] = {}

    def forget(self, key: ObjectKey) -> None:
        """Drop what is kept of a consumer that is gone."""
        self._told.pop(key, None)
        self._tell_again.pop(key, None)

    async def send(self, decision: Decision) -> int:
        """Tell the pods once now and once more after SECOND_NUDGE; returns how many were told.

        Raises:
            ApiError, Unreachable: some could not be told; only these are tried again.
        """
        consumer = decision.consumer
        key = consumer.key
        target = _target(decision)
        now = loop_time()
        owed = self._tell_again.get(key, {}) if self._told.get(key) == target else {}
        due = {uid for uid, at in owed.items() if at <= now}
        asked = recorded_target(decision.record, decision.snapshots, decision.key, uid=consumer.uid)
        told = target._replace(payloads=await self._payloads.digests(consumer))
        result = await self._executor.nudge(consumer, told, asked=asked, again=due)
        self._told[key] = target
        left = {uid: at for uid, at in owed.items() if uid not in due or uid in result.missed}
        self._tell_again[key] = left | dict.fromkeys(result.told, now + SECOND_NUDGE)
        if result.refusal:
            self._refused(consumer, result.refusal)
        if result.failure:
            raise result.failure
        return len(result.told) + len(due)

    def owes(self, decision: Decision) -> bool:
        """Tell whether pods were told something that is not true any more, or are due again.

        An edit that is taken back before anything is recorded leaves no other trace.
        """
        if not decision.policy.opted_in or decision.policy.strategy is Strategy.NOTIFY:
            return False
        told = self._told.get(decision.consumer.key)
        if told is None or decision.assessment.verdict not in (Verdict.FRESH, Verdict.LIVE):
            return False
        owed = self._tell_again.get(decision.consumer.key, {})
        now = loop_time()
        return told != _target(decision) or any(at <= now for at in owed.values())

    def second_in(self, key: ObjectKey) -> float | None:
        """Seconds until pods are to be told again; what nobody owes them any more is dropped."""
        now = loop_time()
        owed = {uid: at for uid, at in self._tell_again.pop(key, {}).items() if at > now}
        if not owed:
            return None
        self._tell_again[key] = owed
        return min(owed.values()) - now


def _target(decision: Decision) -> Target:
    return desired_target(decision.snapshots, decision.key, uid=decision.consumer.uid)
