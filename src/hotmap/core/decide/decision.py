"""The decision on one consumer, as a value: what `decide` returns.

Its properties say what the reconciler and the reports ask: whether pods have to be listed first,
whether a nudge is sufficient, and until when a rollout waits for its settle time.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from hotmap.core.decide.assessment import Assessment, Verdict
from hotmap.core.decide.conflicts import WriterConflict, is_reported
from hotmap.core.decide.flap_breaker import count_recent_rollouts, release, remaining_spacing
from hotmap.core.decide.plan import ActionType, Plan, wait_for_runs
from hotmap.core.decide.snapshot import Snapshot
from hotmap.core.duration import format_time_of_day
from hotmap.core.model.annotations import RELEASE
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.state import RolloutTimes
from hotmap.core.patch.jobs import run_name
from hotmap.core.policy.policy import Strategy
from hotmap.core.reloader.annotations import Writing

__all__ = ["Decision", "recent_rollouts"]

#: Actions that start new pods without a rollout, as a reason names them.
_OTHER_NEW_PODS = {
    ActionType.RUN_NOW: "starting a Job",
    ActionType.RECREATE: "recreating the Job",
    ActionType.EVICT: "evicting the Pod",
}

#: Seconds that a settle time may end early: the queue's clock and the API server's differ a bit.
_SETTLED = 0.05

#: Seconds for which a watch may lag behind the server before that is checked.
_LAG = 10.0


class Decision(NamedTuple):
    """The decision on one consumer, as a value."""

    snapshot: Snapshot
    assessment: Assessment
    plan: Plan
    #: A write of another writer into the pod template.
    conflict: WriterConflict | None = None
    #: Whether the pods' starts were known.
    used_starts: bool = False
    #: Seconds until a paused Deployment is to be resumed; None: it is not.
    resume_in: float | None = None

    @property
    def needs_pod_starts(self) -> bool:
        """Whether the decision depends on the pods' starts, so that they have to be listed."""
        return self.assessment.verdict in (Verdict.CHECK_PODS, Verdict.CHECK_OTHERS)

    @property
    def shared_sources(self) -> tuple[ObjectKey, ...]:
        """The sources that other pods may use, on which it depends: look for such pods."""
        if self.assessment.verdict is not Verdict.CHECK_OTHERS:
            return ()
        return tuple(
            finding.current.source
            for finding in self.assessment.findings
            if finding.verdict is Verdict.CHECK_OTHERS
        )

    @property
    def stale_sources(self) -> tuple[ObjectKey, ...]:
        """The sources that have been older than the applied version for longer than a watch lags.

        An etcd that was restored from a backup looks the same; one consistent read decides.
        """
        if self.assessment.verdict is not Verdict.WAIT or self.snapshot.waited < _LAG:
            return ()
        return tuple(
            finding.current.source
            for finding in self.assessment.findings
            if finding.verdict is Verdict.WAIT and finding.older
        )

    @property
    def starts_new_pods(self) -> bool:
        """Whether the plan replaces or adds pods."""
        return self.plan.starts_new_pods

    @property
    def run_name(self) -> str:
        """The name of the Job that it starts from a CronJob.

        Content is told apart from its earlier use by the last run before, or by when it was
        adopted. Both are in the record, so that a controller which decides again what a crash has
        left unrecorded gives the same name; times of changes differ between controllers.
        """
        snapshot, findings = self.snapshot, self.assessment.findings
        content = [f"{f.current.source}|{f.current.frozen}|{f.current.live}" for f in findings]
        if snapshot.record is None:
            since = [f"{f.current.source}|{f.current.changed_at}" for f in findings]
        else:
            adopted = (f"{s.kind}/{s.name}|{s.adopted}" for s in snapshot.record.sources)
            runs = self.rollouts
            since = [*sorted(adopted), runs.release, *map(str, runs.times[-1:])]
        return run_name(snapshot.consumer, [*content, *since])

    def beside_runs(self, consumer: Consumer) -> Decision:
        """Wait for runs in progress of a CronJob where they exclude what is to be started.

        `consumer` is the CronJob with all of these. If one of them is the Job of this decision,
        that was created before, and nothing was recorded.
        """
        if self.run_name in consumer.runs:
            return self
        return self._replace(plan=wait_for_runs(self.plan, consumer))

    @property
    def only_nudges(self) -> bool:
        """Whether refreshed files are sufficient for the change."""
        actions = self.plan.actions
        return bool(actions) and all(action.type is ActionType.NUDGE for action in actions)

    @property
    def follows_deletion(self) -> bool:
        """Whether a source was deleted: maybe for a moment, so that is not acted on at once."""
        return any(not finding.current.exists for finding in self.assessment.changed())

    @property
    def rollouts(self) -> RolloutTimes:
        """Recent rollouts of the consumer; none when a hold was released."""
        return recent_rollouts(self.snapshot)

    @property
    def settle_in(self) -> float | None:
        """Seconds until the changes that need new pods have settled; None: they have.

        The time counts from the changes, independent of other triggers of this decision. It does
        not end before the next rollout is far enough from the last ones.
        """
        if not self.starts_new_pods:
            return None
        snapshot = self.snapshot
        if snapshot.policy.is_paused:
            return self._settle_left()  # it replaces no pods yet
        spacing = remaining_spacing(self.rollouts, snapshot.now, limit=snapshot.flap_limit)
        return max(spacing, self._settle_left() or 0.0) or None

    @property
    def settling_reason(self) -> str:
        """What changed, until when the rollout waits, and why; "" if it does not wait."""
        left = self.settle_in
        if left is None:
            return ""
        now = self.snapshot.now
        if (self._settle_left() or 0.0) >= left:
            why = "after the settle time"
        else:
            count = count_recent_rollouts(self.rollouts, now)
            why = f"{count} {'rollout' if count == 1 else 'rollouts'} in the last minute"
        cause = self.plan.cause or self.plan.reason
        what = next(filter(None, (_OTHER_NEW_PODS.get(a.type) for a in self.plan.actions)), "")
        at = format_time_of_day(now + left)
        return f"{cause}: {what or 'rolling out'} at {at} UTC; {why}"

    def _settle_left(self) -> float | None:
        snapshot = self.snapshot
        if not snapshot.policy.settle:
            return None
        changed = self.changed_sources()
        first, last = inf, -inf
        for source in snapshot.sources:
            changes = source.changes
            if source.source in changed and changes.first is not None and changes.last is not None:
                first, last = min(first, changes.first), max(last, changes.last)
        policy = snapshot.policy
        left = min(first + policy.settle_max, last + policy.settle) - snapshot.now
        # A clock that was set back makes a change lie in the future; that delays nothing.
        return left if _SETTLED < left <= policy.settle_max else None

    @property
    def corrects_nudge(self) -> bool:
        """Whether the last nudge of pods is out of date, or is due a second time.

        An edit that is reverted before it is recorded leaves no other trace.
        """
        snapshot = self.snapshot
        policy = snapshot.policy
        if snapshot.sent is None or policy.strategy is Strategy.NOTIFY or policy.suspended_by:
            return False
        if self.assessment.verdict not in (Verdict.UP_TO_DATE, Verdict.LIVE):
            return False
        return snapshot.sent.target != snapshot.target or snapshot.sent.due

    @property
    def reports_conflict(self) -> bool:
        """Whether a conflict was found that was not reported yet."""
        return self.conflict is not None and not is_reported(self.snapshot.record, self.conflict)

    @property
    def previous_revision(self) -> str:
        """The revision that the pod template had before; unknown with Reloader's strategies."""
        snapshot = self.snapshot
        if snapshot.policy.writing is Writing.REVISION or snapshot.record is None:
            return snapshot.consumer.revision
        return snapshot.recorded_revision

    def changed_sources(self) -> list[ObjectKey]:
        """List the sources whose change needs an action."""
        return [finding.current.source for finding in self.assessment.changed()]


def recent_rollouts(snapshot: Snapshot) -> RolloutTimes:
    """Return the recent rollouts of a consumer; none when a hold was released."""
    record = snapshot.record
    known = RolloutTimes() if record is None else record.rollouts
    return release(known, snapshot.consumer.annotations.get(RELEASE))
