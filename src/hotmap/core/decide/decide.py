"""The decision on one consumer, made from a snapshot of it.

    decide(snapshot)            1. freshness: is it behind its sources?
                                2. plan: the least disruptive actions that are sufficient
                                3. flap breaker: limits repeated rollouts
                                4. conflicts: other writers of its pod template
                                5. suspension: whether a user has suspended its actions
    decide(snapshot, starts, others)
                                the same after its pods, and others, were listed, if a rule needs it
    next_record(decision, …)    its record after the actions

Equal snapshots give equal decisions, so the controller, the shadow mode, the status page and the
tests that replay snapshots from files all call this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from hotmap.core.decide.assessment import Assessment, OtherUse, Verdict
from hotmap.core.decide.conflicts import WriterConflict, defer_to, find_writer_conflict, is_reported
from hotmap.core.decide.decision import Decision, recent_rollouts
from hotmap.core.decide.evidence import MARGIN, PodStart
from hotmap.core.decide.flap_breaker import limit_flapping
from hotmap.core.decide.freshness import assess
from hotmap.core.decide.plan import Action, ActionType, Plan, make_plan
from hotmap.core.decide.revisions import name_content
from hotmap.core.decide.snapshot import Snapshot
from hotmap.core.decide.suspension import suspend
from hotmap.core.decide.windows import find_windows
from hotmap.core.duration import format_age
from hotmap.core.model.objects import ObjectKey
from hotmap.core.policy.policy import Policy, Strategy
from hotmap.core.reloader.annotations import Writing

__all__ = ["decide"]

#: Seconds until the next decision on a resumed Deployment: the store is mostly up to date then.
_RESUMED_PAUSE = 0.05

#: Seconds by which a time in an annotation may be cut.
_WHOLE_SECOND = 1.0

#: Seconds by which the clock of another writer may be ahead of the API server's.
_CLOCK_SKEW = 60.0


def decide(
    snapshot: Snapshot,
    starts: Sequence[PodStart] | None = None,
    others: Mapping[ObjectKey, OtherUse | None] = MappingProxyType({}),
) -> Decision:
    """Decide on one consumer; sends nothing and reads nothing but its arguments.

    `starts` are the starts of its pods if they were listed, `others` the other pods that use its
    sources, where they were looked for. Without them the decision may need them
    (`needs_pod_starts`, `shared_sources`); then list the pods and call again.
    """
    consumer, policy, record = snapshot.consumer, snapshot.policy, snapshot.record
    resume_in = _resume_in(policy, now=snapshot.now)
    if (first := _pause_decision(snapshot, resume_in)) is not None:
        return first
    applied = snapshot.recorded_target
    announces = applied is not None and applied.frozen != snapshot.target.frozen
    assessment = assess(snapshot, starts, others)._replace(announces=announces)
    if snapshot.has_unobserved_write:
        assessment = assessment._replace(windows=find_windows(snapshot))
    plan = make_plan(consumer, policy, assessment, changed=snapshot.changed_keys)
    if record is not None and not policy.is_paused:
        plan = limit_flapping(
            plan,
            recent_rollouts(snapshot),
            consumer=consumer.key,
            content=name_content(snapshot.sources, live_needs_rollout=snapshot.live_needs_rollout),
            now=snapshot.now,
            writers=[f.current.writer for f in assessment.changed() if f.current.exists],
            limit=snapshot.flap_limit,
        )
    conflict = _find_conflict(snapshot)
    plan = defer_to(plan, conflict, reported=is_reported(record, conflict), now=snapshot.now)
    plan = suspend(plan, policy.suspended_by)
    return Decision(snapshot, assessment, plan, conflict, starts is not None, resume_in)


def _find_conflict(snapshot: Snapshot) -> WriterConflict | None:
    """Find writes of others; with Reloader's strategies its marks are ours."""
    if not snapshot.detects_conflicts or snapshot.policy.writing is not Writing.REVISION:
        return None
    return find_writer_conflict(
        snapshot.consumer, snapshot.record, own_keys=snapshot.own_key_ids, now=snapshot.now
    )


def _resume_in(policy: Policy, *, now: float) -> float | None:
    """Seconds until a paused Deployment is resumed; None: it is not.

    A time in the future was not written by us or Reloader, so its pause counts as over. A pause of
    Reloader's is ended a moment later, since Reloader may still run and end it.
    """
    pause = policy.pause
    if pause is None or pause.paused_at is None or policy.suspended_by:
        return None
    if not pause.own and not policy.opted_in:
        return None
    if policy.strategy is Strategy.NOTIFY and (policy.muted or not pause.own):
        return None
    if pause.paused_at > now + _CLOCK_SKEW:
        return 0.0
    margin = _WHOLE_SECOND if pause.own else MARGIN
    return max(0.0, pause.paused_at + pause.period + margin - now)


def _pause_decision(snapshot: Snapshot, resume_in: float | None) -> Decision | None:
    """Resume a Deployment, or remove the rest of its pause; None: neither is due.

    Everything else is decided after that. One that is not followed any more is still resumed.
    """
    policy = snapshot.policy
    pause, actions = policy.pause, tuple[Action, ...]()
    if pause is not None and resume_in == 0.0:
        reason = f"resuming: its pause period of {format_age(pause.period)} is over"
        actions = (Action(ActionType.RESUME),)
    elif not policy.opted_in:
        reason = "not followed"
    elif pause is not None and pause.ended_early and not (policy.muted or policy.suspended_by):
        reason = f"resumed by another writer: removing {pause.annotation}"
        actions = (Action(ActionType.END_PAUSE),)
    else:
        return None
    plan = Plan(Verdict.WAIT, actions, reason, requeue_after=_RESUMED_PAUSE if actions else None)
    return Decision(snapshot, Assessment(Verdict.WAIT, reason, ()), plan, resume_in=resume_in)
