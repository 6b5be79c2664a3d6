"""Tells of decisions: at most one Event for a settled change, and one for each problem.

Log lines and the status come from `journal`; alerts and change webhooks are called from here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Literal

from hotmap.controller.report.decision_log import DecisionLog
from hotmap.controller.report.reasons import Reason
from hotmap.core.decide.conflicts import Kind
from hotmap.core.decide.decide import Decision
from hotmap.core.decide.plan import ActionType
from hotmap.core.decide.snapshot import Snapshot, SourceSnapshot
from hotmap.core.errors import HotmapError
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
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
    ActionType.RESUME: Reason.RESUMED,
}

_log = logging.getLogger(__name__)


class EventReporter:
    """What was reported of each consumer in one term of leading."""

    def __init__(
        self,
        recorder: Recorder,
        *,
        decision_log: DecisionLog,
        alert: Callable[[Consumer, Sequence[ObjectKey], str], None],
        found_changed: Callable[[SourceSnapshot], None],
        observe_delay: Callable[[float], None],
    ) -> None:
        """`alert` gets new pods, with the sources that called for them and the reason.

        `observe_delay` gets the seconds from a change to the write that starts new pods.
        """
        self._recorder = recorder
        self._decision_log = decision_log
        self._alert = alert
        self._found_changed = found_changed
        self._observe_delay = observe_delay
        #: The reason that the last Event gave, and the versions that it was about.
        self._announced: dict[ObjectKey, tuple[str, tuple[str, ...]]] = {}
        #: Problems that an Event was written for.
        self._reported: dict[ObjectKey, tuple[str, ...]] = {}

    def forget(self, key: ObjectKey) -> None:
        """Drop what is kept of a consumer that is gone."""
        self._announced.pop(key, None)
        self._reported.pop(key, None)
        self._decision_log.forget(key)

    # -- decisions -----------------------------------------------------------------------------

    def log(self, decision: Decision) -> None:
        """Log a decision, without an Event."""
        self._decision_log.note(decision)

    def report(self, decision: Decision) -> None:
        """Report a decision that was carried out: log, Event, alert, what others wrote."""
        consumer = decision.snapshot.consumer
        if decision.starts_new_pods and (first := decision.snapshot.first_seen) is not None:
            self._observe_delay(decision.snapshot.now - first)
        self._decision_log.note(decision)
        self._write_event(decision)
        found = decision.conflict
        if found is not None and decision.reports_conflict and decision.snapshot.record:
            self._decision_log.note_conflict(consumer, found)
            other = found.kind in (Kind.HOTMAP, Kind.RELOADER)
            reason = Reason.OTHER_CONTROLLER if other else Reason.REVISION_CHANGED
            self.event(consumer, reason, found.reason, type_="Warning")

    def report_stale(self, decision: Decision, error: HotmapError) -> None:
        """Log that a write met another state of the consumer than the decision saw."""
        kind = decision.snapshot.consumer.key.kind
        self._decision_log.note(decision, outcome=f"the {kind} changed since the decision: {error}")

    def report_failure(self, decision: Decision, error: HotmapError) -> None:
        """Say once what keeps a consumer from its change; it is tried again, with pauses."""
        outcome = f"failed; retrying: {error}"
        if self._decision_log.note(decision, outcome=outcome):
            message = f"{decision.plan.reason}; {outcome}"
            self.event(decision.snapshot.consumer, Reason.FAILED, message, type_="Warning")

    def _write_event(self, decision: Decision) -> None:
        """Write at most one Event for a settled change."""
        for finding in decision.assessment.changed():
            self._found_changed(finding.present)
        plan, consumer = decision.plan, decision.snapshot.consumer
        told = (plan.reason, decision.snapshot.versions)
        if self._announced.get(consumer.key) == told:
            return
        if not plan.warning and not plan.actions:
            self._announced.pop(consumer.key, None)
            return
        self._announced[consumer.key] = told
        if plan.warning:
            self.event(consumer, Reason.HELD, plan.reason, type_="Warning")
            return
        if decision.starts_new_pods:
            self._alert(consumer, decision.changed_sources(), plan.reason)
        types = [action.type for action in plan.actions]
        reasons = (reason for type_, reason in _REASONS.items() if type_ in types)
        if (reason := next(reasons, None)) is not None:
            self.event(consumer, reason, plan.reason)

    # -- problems ------------------------------------------------------------------------------

    def annotation_problems(self, snapshot: Snapshot) -> None:
        """Write a Warning Event for each annotation that cannot be read, until it is another."""
        consumer, policy = snapshot.consumer, snapshot.policy
        if not policy.opted_in:
            self._decision_log.forget(consumer.key)
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
