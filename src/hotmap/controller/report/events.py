"""Tells of decisions: at most one Event for a settled change, and one for each problem.

Log lines and the status come from `journal`; alerts and change webhooks are called from here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Literal

from hotmap.controller.reconcile.deciding import Decision
from hotmap.controller.report.decision_log import DecisionLog
from hotmap.controller.report.reasons import Reason
from hotmap.controller.storage.records import Records
from hotmap.core.decide.conflicts import (
    Kind,
    is_reported,
    record_reported,
)
from hotmap.core.decide.plan import NEW_PODS, ActionType
from hotmap.core.decide.snapshot import SourceSnapshot
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.policy.policy import Policy
from hotmap.kube.recorder import Recorder
from hotmap.kube.resources import BY_KIND

__all__ = ["EventReporter"]

#: How actions are told, the most weighty first. A Job's Event is written once there is a new one
#: to write it on.
_REASONS = {
    ActionType.ROLLOUT: Reason.ROLLED_OUT,
    ActionType.RESTART_PODS: Reason.ROLLED_OUT,
    ActionType.RUN_NOW: Reason.RUN,
    ActionType.EVICT: Reason.EVICTED,
    ActionType.NOTIFY: Reason.NOTIFIED,
    ActionType.NUDGE: Reason.REFRESHED,
}

_log = logging.getLogger(__name__)


class EventReporter:
    """What was told of each consumer in one term of leading."""

    def __init__(
        self,
        recorder: Recorder,
        *,
        records: Records,
        decision_log: DecisionLog,
        alert: Callable[[Consumer, Sequence[ObjectKey], str], None],
        found_changed: Callable[[SourceSnapshot], None],
    ) -> None:
        """`alert` hears of new pods, with the sources that called for them and the reason."""
        self._recorder = recorder
        self._records = records
        self._journal = decision_log
        self._alert = alert
        self._found_changed = found_changed
        #: The reason that the last Event gave, and the versions that it was about.
        self._announced: dict[ObjectKey, tuple[str, tuple[str, ...]]] = {}
        #: Problems that an Event was written for.
        self._reported: dict[ObjectKey, tuple[str, ...]] = {}

    def forget(self, key: ObjectKey) -> None:
        """Drop what is kept of a consumer that is gone."""
        self._announced.pop(key, None)
        self._reported.pop(key, None)

    def settled(self, decision: Decision) -> None:
        """Write at most one Event for a settled change."""
        for finding in decision.assessment.changed():
            self._found_changed(finding.present)
        plan, consumer = decision.plan, decision.consumer
        told = (plan.reason, decision.versions)
        if self._announced.get(consumer.key) == told:
            return
        if not plan.warning and not plan.actions:
            self._announced.pop(consumer.key, None)
            return
        self._announced[consumer.key] = told
        if plan.warning:
            self.event(consumer, Reason.HELD, plan.reason, type_="Warning")
            return
        acts = [action.act for action in plan.actions]
        if not NEW_PODS.isdisjoint(acts):
            changed = [finding.present.source for finding in decision.assessment.changed()]
            self._alert(consumer, changed, plan.reason)
        told_as = (reason for act, reason in _REASONS.items() if act in acts)
        if (reason := next(told_as, None)) is not None:
            self.event(consumer, reason, plan.reason)

    def writer_conflict(self, decision: Decision) -> None:
        """Tell once of each write of somebody else, also across restarts and leaders."""
        found, consumer = decision.writer_conflict, decision.consumer
        record = self._records.get(consumer.uid)
        if found is None or record is None or is_reported(record, found):
            return
        self._records.put(record_reported(record, found))
        self._journal.note_conflict(consumer, found)
        other = found.kind in (Kind.HOTMAP, Kind.RELOADER)
        reason = Reason.OTHER_CONTROLLER if other else Reason.REVISION_CHANGED
        self.event(consumer, reason, found.reason, type_="Warning")

    def problems(self, consumer: Consumer, policy: Policy) -> None:
        """Write a Warning Event for each annotation that cannot be read, until it is another."""
        messages = tuple(problem.message for problem in policy.problems)
        if self._reported.get(consumer.key, ()) == messages:
            return
        self._reported[consumer.key] = messages
        for message in messages:
            _log.warning(message, extra={"consumer": str(consumer.key), "change": ""})
            self.event(consumer, Reason.INVALID_ANNOTATION, message, type_="Warning")

    def nudge_refused(self, consumer: Consumer, why: str) -> None:
        """Say that pods cannot be told of their files, which then follow in their own time."""
        self.event(consumer, Reason.NUDGE_REFUSED, why, type_="Warning")

    def event(
        self,
        consumer: Consumer,
        reason: Reason,
        message: str,
        *,
        type_: Literal["Normal", "Warning"] = "Normal",
    ) -> None:
        """Write an Event on a consumer, in the background."""
        self._recorder.event(
            consumer.key,
            api_version=BY_KIND[consumer.key.kind].api_version,
            uid=consumer.uid,
            type=type_,
            reason=reason,
            message=message,
        )
