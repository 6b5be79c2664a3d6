"""Reports decisions: at most one Event for a settled change, and one for each problem.

Log lines and the status come from `decision_log`; alerts and change webhooks are called from here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

from hotmap.controller.report.decision_log import DecisionLog
from hotmap.controller.report.object_events import write_consumer_event
from hotmap.controller.report.reasons import Reason
from hotmap.core.decide.conflicts import ConflictKind
from hotmap.core.decide.decision import Decision
from hotmap.core.decide.plan import ActionType
from hotmap.core.decide.snapshot import Snapshot
from hotmap.core.decide.source_snapshot import SourceSnapshot
from hotmap.core.errors import HotmapError
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.limits import too_large_message
from hotmap.core.model.objects import ObjectKey
from hotmap.kube.recorder import Recorder

__all__ = ["DecisionReporter"]

#: The reason of an Event by action, the most important action first. A Job's Event is written by
#: `job_recreation`, once there is a new Job to write it on.
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


class DecisionReporter:
    """Reports in one term of leadership; the recorder and the log detect repetitions."""

    def __init__(
        self,
        recorder: Recorder,
        *,
        decision_log: DecisionLog,
        alert: Callable[[Decision], None],
        found_changed: Callable[[SourceSnapshot], None],
        record_rollout: Callable[[ObjectKey, bool, float | None], None],
        is_terminating: Callable[[str], bool],
    ) -> None:
        """`alert` gets each decision that has started new pods.

        `is_terminating` returns whether a namespace is being deleted, with all that is in it.
        `record_rollout` gets each attempt to start new pods: the workload, whether it succeeded,
        and the seconds since the change, None where that was not observed.
        """
        self._event = partial(write_consumer_event, recorder)
        self._decision_log = decision_log
        self._alert = alert
        self._found_changed = found_changed
        self._record_rollout = record_rollout
        self._is_terminating = is_terminating

    def forget(self, key: ObjectKey) -> None:
        """Drop the state of a deleted consumer."""
        self._decision_log.forget(key)

    # -- decisions -----------------------------------------------------------------------------

    def log(self, decision: Decision) -> None:
        """Log a decision, without an Event."""
        self._decision_log.add(decision)

    def report(self, decision: Decision) -> None:
        """Report a decision that was carried out: log, Event, alert, conflicts."""
        consumer = decision.snapshot.consumer
        snapshot = decision.snapshot
        if decision.starts_new_pods:
            first = snapshot.first_observed
            delay = None if first is None else snapshot.now - first
            self._record_rollout(consumer.key, True, delay)
        found = decision.conflict if decision.reports_conflict and snapshot.record else None
        self._decision_log.add(decision, level=logging.WARNING if found else None)
        self._write_event(decision)
        self._report_missing_sources(decision)
        if found is not None:
            self._decision_log.count_conflict(found)
            other = found.kind in (ConflictKind.HOTMAP, ConflictKind.RELOADER)
            reason = Reason.OTHER_CONTROLLER if other else Reason.REVISION_CHANGED
            self._event(consumer, reason, found.reason, type_="Warning")

    def report_settling(self, decision: Decision) -> None:
        """Show a change in the status whose rollout waits for its settle time."""
        self._decision_log.set_settling(decision)

    def report_waiting(self, decision: Decision, waiting: str) -> None:
        """Log how far a decision is that is carried out pod by pod; an Event follows at the end."""
        self._decision_log.add(decision, outcome=waiting, continues=True, level=logging.INFO)

    def report_stale(self, decision: Decision, error: HotmapError) -> None:
        """Log that the consumer had changed since the decision."""
        kind = decision.snapshot.consumer.key.kind
        outcome = f"the {kind} changed since the decision: {error}; deciding again"
        self._decision_log.add(decision, outcome=outcome, continues=True, level=logging.INFO)

    def report_restored(self, snapshot: Snapshot, sources: Sequence[ObjectKey]) -> None:
        """Report that the API server has older versions of sources than hotmap has seen."""
        names = ", ".join(map(str, sources))
        message = (
            f"{names}: the API server has an older version than hotmap applied, as after etcd was "
            "restored from a backup; continuing with that version"
        )
        _log.warning(message, extra={"workload": str(snapshot.consumer.key)})
        self._event(snapshot.consumer, Reason.SOURCE_RESTORED, message, type_="Warning")

    def report_failure(self, decision: Decision, error: HotmapError) -> None:
        """Report a failed action once; it is retried with back-off."""
        if decision.starts_new_pods:
            self._record_rollout(decision.snapshot.consumer.key, False, None)
        outcome = f"failed; retrying: {error}"
        if self._decision_log.add(decision, outcome=outcome):
            message = f"{decision.plan.reason}; {outcome}"
            self._event(decision.snapshot.consumer, Reason.FAILED, message, type_="Warning")

    def _write_event(self, decision: Decision) -> None:
        """Write at most one Event for a settled change."""
        for finding in decision.assessment.changed():
            self._found_changed(finding.current)
        plan, consumer = decision.plan, decision.snapshot.consumer
        if not plan.warning and not plan.actions:
            return
        if not self._decision_log.record_event(consumer.key):
            return
        if plan.warning:
            self._event(consumer, Reason.HELD, plan.reason, type_="Warning")
            return
        if decision.starts_new_pods:
            self._alert(decision)
        types = [action.type for action in plan.actions]
        reasons = (reason for type_, reason in _REASONS.items() if type_ in types)
        if (reason := next(reasons, None)) is not None:
            self._event(consumer, reason, plan.reason)

    def _report_missing_sources(self, decision: Decision) -> None:
        """Write a Warning Event for each required source that does not exist, once.

        Running pods keep their content, so nothing is done; but the next pod, or the next restart
        of a container, fails. A hold reports the same already. Sources that may not be listed, or
        that a selector hides, are not missing; nor are those of a namespace that is being deleted.
        """
        snapshot = decision.snapshot
        consumer = snapshot.consumer
        missing = snapshot.missing_sources
        is_new = self._decision_log.set_missing_sources(consumer.key, missing)
        if not is_new or decision.plan.warning or self._is_terminating(consumer.key.namespace):
            return
        for source in missing:
            message = (
                f"{source} does not exist; running pods keep their content, but containers that "
                "use it cannot start again until it exists"
            )
            _log.warning(message, extra={"workload": str(consumer.key), "source": str(source)})
            self._event(consumer, Reason.SOURCE_MISSING, message, type_="Warning")

    # -- problems ------------------------------------------------------------------------------

    def report_annotation_problems(self, snapshot: Snapshot) -> None:
        """Write a Warning Event for each problem of a pod template and of annotations."""
        consumer, policy = snapshot.consumer, snapshot.policy
        if not policy.opted_in:
            self._decision_log.forget(consumer.key)
        if policy.over_budget:
            message = too_large_message(policy.over_budget)
            self._report_problem(consumer, Reason.OBJECT_TOO_LARGE, message)
        for problem in policy.problems:
            self._report_problem(consumer, Reason.INVALID_ANNOTATION, problem.message)

    def _report_problem(self, consumer: Consumer, reason: Reason, message: str) -> None:
        """Write a Warning Event and a log line for a problem, once while it stands."""
        if self._event(consumer, reason, message, type_="Warning", once=True):
            _log.warning(message, extra={"workload": str(consumer.key)})

    def report_refused_nudge(self, consumer: Consumer, why: str) -> None:
        """Report that pods refuse the nudge; their kubelets update the files later."""
        self._event(consumer, Reason.NUDGE_REFUSED, why, type_="Warning")

    def report_overwritten_nudge(self, consumer: Consumer, pod: str) -> None:
        """Report that another client overwrites nudges; they are not repeated for that."""
        why = (
            f"another hotmap also nudges its pods, such as {pod}, so their files may be updated by "
            "the kubelet's periodic sync only; let each serve other namespaces (--namespaces), or "
            "let both share one --namespace with --leader-elect"
        )
        self._event(consumer, Reason.OTHER_CONTROLLER, why, type_="Warning")

    def report_stopped_restart(self, consumer: Consumer, why: str) -> None:
        """Report that restarts in place have stopped at a pod that did not come back."""
        _log.warning("restarts stopped: %s", why, extra={"workload": str(consumer.key)})
        self._event(consumer, Reason.RESTART_STOPPED, why, type_="Warning")
