"""Plans the least disruptive sufficient actions, with a reason.

    what changed is in …                        action (strategy auto)
    ------------------------------------------  -----------------------------------------------
    frozen use                                  rollout; an agent that may restart: nudge instead,
                                                unless another container has read it at start
    live use, an agent in the pod               nudge; the agent reloads
    live use, `hotmap.dev/rereads: "true"`      nudge
    live use, neither                           rollout: new pods have the new files
    a mounted SecretProviderClass               rollout; with `rereads` nothing: its driver acts
    no data key that is used                    nothing
    only imagePullSecrets                       nothing
    a source named but not referenced           rollout

    kind                                        what a rollout is for it
    ------------------------------------------  -----------------------------------------------
    Deployment, StatefulSet, DaemonSet          its template
    Rollout                                     its template, or `restartAt`
    CronJob                                     nothing: the next run reads the new content
    bare Job, ReplicaSet or Pod                 a report
    … with `hotmap.dev/on-change`               CronJob: a run now. Job: recreated. Pod: evicted

The verdict of `freshness` selects the row; this module distinguishes kinds and strategies.
The same Plan is executed, printed by the command line and replayed in tests.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hotmap.core.decide.assessment import Assessment, Finding, Verdict, join_reasons
from hotmap.core.duration import format_age
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.provider_class import PROVIDER_CLASS
from hotmap.core.model.references import Use, UseKind
from hotmap.core.policy.policy import ROLLABLE, OnChange, Policy, Strategy
from hotmap.core.reloader.annotations import Writing
from hotmap.core.reloader.patch import Stamp
from hotmap.core.text import join_names

__all__ = ["Action", "ActionType", "Plan", "make_plan", "wait_for_runs"]

#: Seconds until a consumer that waits is reconciled again, where no change announces the end.
_WAIT = 1.0

#: Seconds until a CronJob with a running Job is reconciled again; the end of one that its
#: schedule has started is watched, too.
_WAIT_FOR_RUN = 30.0


class ActionType(enum.Enum):
    """The types of actions."""

    #: Annotate its pods, so that their kubelets sync now.
    NUDGE = "nudge"
    #: Write the revision into its pod template, so that its controller replaces the pods.
    ROLLOUT = "rollout"
    #: Report the change in an Event only.
    NOTIFY = "notify"
    #: Have an Argo Rollout replace its pods without another template (`spec.restartAt`).
    RESTART_PODS = "restart pods"
    #: Start a Job from a CronJob.
    RUN_NOW = "run now"
    #: Delete and recreate a Job.
    RECREATE = "recreate"
    #: Evict a bare Pod.
    EVICT = "evict"
    #: Resume a Deployment whose pause period is over.
    RESUME = "resume"
    #: Remove the annotation of a pause that another writer has ended.
    END_PAUSE = "end pause"


#: Actions that start new pods, which the flap breaker limits.
_NEW_PODS = frozenset(
    (
        ActionType.ROLLOUT,
        ActionType.RESTART_PODS,
        ActionType.RUN_NOW,
        ActionType.RECREATE,
        ActionType.EVICT,
    )
)


class Action(NamedTuple):
    """One step of a plan."""

    type: ActionType
    #: For a rollout: use a distinct name, although this content had one before.
    distinct: bool = False
    #: For a rollout: pause the Deployment with it, so that its pods are replaced later.
    pauses: bool = False
    #: For a rollout: the sources that need it, if it is written with a strategy of Reloader's.
    stamps: tuple[Stamp, ...] = ()


class Plan(NamedTuple):
    """The actions for one consumer, and the reason; a plan may have no actions."""

    verdict: Verdict
    actions: tuple[Action, ...]
    #: One sentence, shared by Events, log and `hotmap why`.
    reason: str
    #: The part of the reason that describes the change.
    cause: str = ""
    #: Whether the current content counts as applied after the actions.
    settles: bool = False
    #: Whether a user has to act.
    warning: bool = False
    #: Seconds until the next reconcile, or None.
    requeue_after: float | None = None
    #: Whether the reason is only that nothing changed.
    confirms: bool = False

    @property
    def starts_new_pods(self) -> bool:
        """Whether an action replaces or adds pods."""
        return any(action.type in _NEW_PODS for action in self.actions)

    @property
    def starts_run(self) -> bool:
        """Whether a Job is started from a CronJob."""
        return any(action.type is ActionType.RUN_NOW for action in self.actions)

    def without_new_pods(self, reason: str, *, recheck_in: float) -> Plan:
        """Suppress the actions that start new pods; others stay, since they disrupt no pods.

        The reason is what changed, followed by `reason`. Seconds until the next decision are
        `recheck_in`.
        """
        return self._replace(
            actions=tuple(action for action in self.actions if action.type not in _NEW_PODS),
            reason=f"{self.cause or self.reason}: {reason}",
            settles=False,
            warning=True,
            requeue_after=recheck_in,
        )


def make_plan(
    consumer: Consumer,
    policy: Policy,
    assessment: Assessment,
    *,
    changed: Mapping[ObjectKey, frozenset[str]],
) -> Plan:
    """Choose the least disruptive actions that make a consumer load a change.

    Decides only, sends nothing; equal arguments give an equal plan. `changed` has the data keys
    that were observed to change per source, as far as known; it is used for the reason only. A plan
    without actions is normal; the reason explains it.
    """
    plan = _plan(consumer, policy, assessment, changed)
    if not assessment.early:
        return plan
    reason = plan.reason if plan.actions else assessment.reason
    again = assessment.recheck_in or _WAIT
    return plan._replace(reason=reason, settles=False, confirms=False, requeue_after=again)


def _plan(
    consumer: Consumer,
    policy: Policy,
    assessment: Assessment,
    changed: Mapping[ObjectKey, frozenset[str]],
) -> Plan:
    verdict = assessment.verdict
    recheck_in = min(filter(None, (f.recheck_in for f in assessment.findings)), default=None)
    if verdict in (Verdict.WAIT, Verdict.CHECK_PODS, Verdict.CHECK_OTHERS):
        times = (f.recheck_in or _WAIT for f in assessment.findings if f.verdict is verdict)
        return Plan(verdict, (), assessment.reason, requeue_after=min(times, default=_WAIT))
    if verdict is Verdict.HOLD:
        reason = assessment.reason
        return Plan(verdict, (), reason, settles=True, warning=True, requeue_after=recheck_in)
    if verdict in (Verdict.ADOPT, Verdict.UP_TO_DATE):
        unused = _unused(assessment, changed)
        deleted = any(finding.deleted for finding in assessment.findings)
        confirms = verdict is Verdict.UP_TO_DATE and not unused and not deleted
        reason = unused or assessment.reason
        return Plan(verdict, (), reason, settles=True, confirms=confirms, requeue_after=recheck_in)
    cause = assessment.reason if assessment.distinct else _cause(assessment, changed)
    actions, outcome = _choose(consumer, policy, assessment, changed)
    held = any(finding.verdict is Verdict.HOLD for finding in assessment.findings)
    again = _WAIT if held else None  # the next decision reports what another source is held for
    plan = Plan(verdict, actions, f"{cause}: {outcome}", cause, settles=True, requeue_after=again)
    return wait_for_runs(plan, consumer)


def wait_for_runs(plan: Plan, consumer: Consumer) -> Plan:
    """Start no run of a CronJob beside another one that its `concurrencyPolicy` excludes."""
    if not consumer.busy or not plan.starts_run:
        return plan
    runs = join_names(consumer.runs)
    ends = "ends" if len(consumer.runs) == 1 else "end"
    reason = f"{plan.reason} when {runs} {ends} (concurrencyPolicy)"
    return Plan(plan.verdict, (), reason, requeue_after=_WAIT_FOR_RUN)


def _choose(
    consumer: Consumer,
    policy: Policy,
    assessment: Assessment,
    changed: Mapping[ObjectKey, frozenset[str]],
) -> tuple[tuple[Action, ...], str]:
    """Choose actions and describe their effect; the first condition that holds decides."""
    frozen = assessment.verdict is Verdict.FROZEN
    if policy.strategy is Strategy.NOTIFY:
        why = policy.muted or "the strategy is notify"
        return (Action(ActionType.NOTIFY),), f"reported only, since {why}"
    if consumer.key.kind not in ROLLABLE:
        return _choose_without_rollout(consumer, policy, assessment, frozen=frozen)
    if consumer.has_no_pods and not (frozen and _marks_without_pods(policy)):
        return (), "no pods are running; new pods read the new content"
    if not frozen:
        return _choose_refresh(policy, assessment)
    if policy.strategy is Strategy.NUDGE:
        if not any(finding.current.live for finding in assessment.changed()):
            return (Action(ActionType.NOTIFY),), f"takes effect at the next restart {_ONLY_NUDGED}"
        outcome = f"refreshing mounted files; {_describe_rest(consumer, policy, assessment)}"
        return (Action(ActionType.NUDGE), Action(ActionType.NOTIFY)), f"{outcome} {_ONLY_NUDGED}"
    if _restarts_in_place(consumer, policy, assessment):
        return (Action(ActionType.NUDGE),), "the agent restarts the application in place"
    why = _why_new_pods(policy, assessment, changed)
    if policy.restarts and consumer.argo:
        return (Action(ActionType.RESTART_PODS),), f"replacing pods (restartAt){why}"
    rollout = Action(
        ActionType.ROLLOUT,
        distinct=assessment.distinct,
        pauses=policy.pauses and not consumer.paused and not consumer.has_no_pods,
        stamps=() if policy.writing is Writing.REVISION else _stamps(assessment),
    )
    return (rollout,), _rollout_outcome(consumer, policy) + ("" if consumer.has_no_pods else why)


def _choose_refresh(policy: Policy, assessment: Assessment) -> tuple[tuple[Action, ...], str]:
    """Choose how mounted files are refreshed; a CSI driver writes its files without the kubelet."""
    if all(finding.current.source.kind == PROVIDER_CLASS for finding in assessment.changed()):
        return (), f"the CSI driver updates mounted files{_describe_reload(policy)}"
    return (Action(ActionType.NUDGE),), f"refreshing mounted files{_describe_reload(policy)}"


def _restarts_in_place(consumer: Consumer, policy: Policy, assessment: Assessment) -> bool:
    """Return whether agents take a frozen change, in each container that has read it at start."""
    return policy.agent_restarts and _reaches_all(consumer, policy, assessment)


def _reaches_all(consumer: Consumer, policy: Policy, assessment: Assessment) -> bool:
    """Return whether agents that restart in place would start all that has read a change.

    The driver of a class updates one pod after the other, so a restart in place may find the older
    files.
    """
    if policy.agent is None or not assessment.announces:
        return False
    changed = [f for f in assessment.changed() if f.verdict is Verdict.FROZEN]
    if any(f.current.source.kind == PROVIDER_CLASS for f in changed):
        return False
    return policy.agent.restarts_all(
        (use for f in changed for use in f.current.uses),
        (use for f in assessment.findings for use in f.current.uses),
        consumer.applications,
    )


def _marks_without_pods(policy: Policy) -> bool:
    """Return whether the template of a workload without pods is written too.

    Reloader does, and tools wait for its mark; hotmap's own revision would say nothing there.
    """
    in_place = policy.strategy is Strategy.NUDGE or policy.agent_restarts or policy.restarts
    return policy.writing is not Writing.REVISION and not in_place


def _stamps(assessment: Assessment) -> tuple[Stamp, ...]:
    return tuple(
        Stamp(finding.current.source, finding.current.stamp) for finding in assessment.changed()
    )


_ONLY_NUDGED = "(strategy nudge)"


def _describe_rest(consumer: Consumer, policy: Policy, assessment: Assessment) -> str:
    """Describe when what was read at start takes effect where pods are only nudged.

    An agent that may restart does so for a nudge, whatever the strategy is.
    """
    rest = "the rest takes effect at the next restart"
    if policy.agent is None or policy.agent.restart == "none" or not assessment.announces:
        return rest
    restarts = "the agent restarts the application in place"
    return restarts if _reaches_all(consumer, policy, assessment) else f"{restarts}, and {rest}"


def _describe_reload(policy: Policy) -> str:
    """Describe what reloads refreshed files."""
    if policy.agent:
        return "; the agent reloads the application"
    return "; the application re-reads them" if policy.rereads else f" {_ONLY_NUDGED}"


def _rollout_outcome(consumer: Consumer, policy: Policy) -> str:
    if consumer.has_no_pods:
        return "marking the pod template; no pods are running"
    if policy.pause is not None and policy.is_paused:
        return f"rolling out when the pause period of {format_age(policy.pause.period)} is over"
    if policy.pause is not None and policy.pauses and not consumer.paused:
        return f"pausing the Deployment for {format_age(policy.pause.period)}, then rolling out"
    if consumer.paused:
        kind = "Rollout" if consumer.argo else "Deployment"
        return f"rolling out when the {kind} is resumed"
    if consumer.update_strategy == "OnDelete":
        return "rolling out as pods are deleted (OnDelete)"
    if consumer.partition:
        return f"rolling out pods from ordinal {consumer.partition} (partition)"
    return "rolling out"


def _why_new_pods(
    policy: Policy, assessment: Assessment, changed: Mapping[ObjectKey, frozenset[str]]
) -> str:
    """Return why changed files need new pods, or "" if something was read at start."""
    if any(_uses_hit(f, changed)[0].kind is not UseKind.LIVE for f in assessment.changed()):
        return ""
    if policy.strategy is Strategy.ROLLOUT:
        return " (strategy rollout)"
    return ", since the application is not known to reload files"


def _choose_without_rollout(
    consumer: Consumer, policy: Policy, assessment: Assessment, *, frozen: bool
) -> tuple[tuple[Action, ...], str]:
    on_change = OnChange.REPORT if policy.strategy is Strategy.NUDGE else policy.on_change
    if consumer.key.kind == "CronJob":
        if consumer.suspended:
            return (), "the next run reads the new content (suspended)"
        if on_change is OnChange.RUN_NOW:
            return (Action(ActionType.RUN_NOW),), "starting a Job"
        return (), "the next run reads the new content"
    if on_change is OnChange.RECREATE and consumer.finished:
        return (Action(ActionType.RECREATE),), "recreating the finished Job"
    if consumer.finished:
        return (), "the Job has finished; nothing reads the new content"
    if consumer.suspended or consumer.has_no_pods:
        return (), "no pods are running; new pods read the new content"
    if not frozen and policy.takes_live_changes():
        return _choose_refresh(policy, assessment)
    if _restarts_in_place(consumer, policy, assessment):
        return (Action(ActionType.NUDGE),), "the agent restarts the application in place"
    if on_change is OnChange.RECREATE:
        return (Action(ActionType.RECREATE),), "recreating the Job"
    if on_change is OnChange.EVICT:
        return (Action(ActionType.EVICT),), "evicting the Pod"
    return (
        Action(ActionType.NOTIFY),
    ), f"reported only, since a {consumer.key.kind} has no rollout"


# -- texts -------------------------------------------------------------------------------------


def _cause(assessment: Assessment, changed: Mapping[ObjectKey, frozenset[str]]) -> str:
    return join_reasons([_words(finding, changed) for finding in assessment.changed()])


def _words(finding: Finding, changed: Mapping[ObjectKey, frozenset[str]]) -> str:
    """Describe what changed in one source and where it is used."""
    current = finding.current
    seen = changed.get(current.source, frozenset())
    uses = _uses_hit(finding, changed)
    used = sorted(key for key in seen if any(use.keys.reads(key) for use in uses))
    place = f"{uses[0].path}{_more(len(uses) - 1)}"
    if current.exists and not used:
        return f"{finding.reason} ({place})"
    what = f"{join_names(used)} changed" if current.exists else "was deleted"
    return f"{current.source} {what} ({place})"


def _more(count: int) -> str:
    if count < 1:
        return ""
    return " and 1 more place" if count == 1 else f" and {count} more places"


def _uses_hit(finding: Finding, changed: Mapping[ObjectKey, frozenset[str]]) -> Sequence[Use]:
    """Select the uses that read a changed data key (all if unknown), decisive ones first.

    Among them the application's come before those of sidecars, such as an agent beside it.
    """
    uses = finding.current.uses
    seen = changed.get(finding.current.source, frozenset())
    hit = [use for use in uses if any(use.keys.reads(key) for key in seen)]
    kind = UseKind.LIVE if finding.verdict is Verdict.LIVE else UseKind.FROZEN
    return sorted(hit or uses, key=lambda use: (use.kind is not kind, use.by_sidecar))


def _unused(assessment: Assessment, changed: Mapping[ObjectKey, frozenset[str]]) -> str:
    """Return which changed data keys an up-to-date consumer does not use, or ""."""
    if assessment.verdict is not Verdict.UP_TO_DATE:
        return ""
    parts = [
        f"{finding.current.source} {join_names(sorted(seen))} changed, but is not used"
        for finding in assessment.findings
        if (seen := changed.get(finding.current.source))
        and not any(use.keys.reads(key) for use in finding.current.uses for key in seen)
    ]
    return join_reasons(parts)
