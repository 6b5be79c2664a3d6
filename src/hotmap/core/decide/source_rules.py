"""The freshness rules for one source of a consumer; `freshness` numbers them."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor

from hotmap.core.decide.assessment import Facts, Finding, Verdict
from hotmap.core.decide.evidence import (
    MARGIN,
    PodStart,
    all_created_since,
    all_started_after,
    any_started_before,
)
from hotmap.core.decide.immutable_uses import has_unrecorded_predecessor
from hotmap.core.decide.snapshot import SourceSnapshot, content_of
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.provider_class import MountedPod
from hotmap.core.model.references import Use, UseKind
from hotmap.core.model.state import Record, SourceRecord, records_by_source
from hotmap.core.reloader.annotations import Writing
from hotmap.core.reloader.patch import Stamp, carries
from hotmap.core.text import join_names, parse_number

__all__ = [
    "ROLLOUT_PATIENCE",
    "assess_recreated_immutable",
    "assess_source",
    "has_current_revision",
    "has_mounts",
    "is_already_applied",
    "join_findings",
    "join_reasons",
    "may_be_pinned",
    "reads_at_start",
    "serves_another",
    "started_with",
    "was_made_for",
    "was_rolled_out_after",
]

#: Seconds to wait for a consumer's own rollout before its pods are checked (rule 6).
ROLLOUT_PATIENCE = 60.0

#: Seconds by which the answer to a write may be later than the pods that it creates.
_ANSWER = 1.0

#: Seconds until a hold is checked again that ends with new pods, or with those of others; and with
#: its own last pods: nothing announces either. A user who has scaled to zero may scale up as soon
#: as these have ended.
_WAIT_FOR_OTHERS, _WAIT_FOR_LAST_PODS = 10.0, 1.0


def assess_source(
    consumer: Consumer,
    record: Record | None,
    recorded: SourceRecord | None,
    current: SourceSnapshot,
    facts: Facts,
) -> Finding:
    """Assess one source; `recorded` is what the record says of it."""

    def found(verdict: Verdict, reason: str) -> Finding:
        return Finding(current, verdict, f"{current.source} {reason}")

    if not current.visible:
        why = "cannot be read" if current.unreadable else "is not visible to hotmap"
        return found(Verdict.UP_TO_DATE, f"{why}: nothing is known of it")
    if current.is_unknown:
        known = recorded is not None and recorded.uses == current.digest
        verdict = Verdict.UP_TO_DATE if known else Verdict.ADOPT
        return found(verdict, "is mounted in different versions, or by no pod: waiting for updates")
    if (pinned := _assess_unrecorded_pin(consumer, record, recorded, current, facts)) is not None:
        return pinned
    if record is not None and recorded is None:
        return found(*_assess_new_use(consumer, record, current, facts))
    if record is None or recorded is None:
        return found(*_assess_unknown(consumer, current, facts))
    if recorded.uses != current.digest:
        return _assess_other_uses(consumer, record, recorded, current, facts)
    if not recorded.uid and current.exists and not recorded.pinned:
        if not facts.reload_on_create:
            return found(Verdict.ADOPT, "was created; creations are ignored (flags)")
        if (created := _assess_creation(current, facts)) is not None:
            return found(*created)
    return _assess_known(consumer, record, recorded, current, facts)


def _assess_unrecorded_pin(
    consumer: Consumer,
    record: Record | None,
    recorded: SourceRecord | None,
    current: SourceSnapshot,
    facts: Facts,
) -> Finding | None:
    """Rule 7, where the record of the source does not show that it was immutable before."""
    if not current.exists:
        return None
    if recorded is None or not recorded.uid:
        if current.replaces_immutable:
            return assess_recreated_immutable(consumer, record, current, facts)
        if (pinned := _assess_pinned_by_others(current, facts)) is not None:
            return pinned
    if record is None or recorded is None:
        return None
    if has_unrecorded_predecessor(record, current):
        return assess_recreated_immutable(consumer, record, current, facts)
    return None


def _assess_known(
    consumer: Consumer,
    record: Record,
    recorded: SourceRecord,
    current: SourceSnapshot,
    facts: Facts,
) -> Finding:
    """Compare a source with what was last applied (rules 2 to 7)."""

    def found(verdict: Verdict, reason: str) -> Finding:
        return Finding(current, verdict, f"{current.source} {reason}")

    is_older = current.mounts is None and _is_older(current, recorded)
    if is_older and current.source not in facts.confirmed:
        reason = "is older in the watch cache than the version applied: waiting"
        return found(Verdict.WAIT, reason)._replace(older=True)
    same_at_start = current.frozen == recorded.frozen or current.uncovered
    same_files = current.live == recorded.live or (current.uncovered and facts.live_needs_rollout)
    if same_at_start and same_files:
        return _assess_same_content(consumer, record, recorded, current, facts)
    if not current.exists:
        if facts.reload_on_delete and not current.required:
            return found(*_assess_frozen_change(consumer, record, current, facts, "is deleted"))
        assessed = found(*_assess_deleted(current, recorded, facts))
        return assessed._replace(deleted=not current.required)
    if may_be_pinned(recorded, current):
        return assess_recreated_immutable(consumer, record, current, facts)
    if current.missing:
        return found(
            Verdict.HOLD,
            f"lacks {join_names(current.missing)}, which is not optional: new pods could not start",
        )
    if not same_at_start:
        return found(*_assess_frozen_change(consumer, record, current, facts, _READ_AT_START))
    if facts.live_needs_rollout:
        return found(*_assess_frozen_change(consumer, record, current, facts, _NOT_REREAD))
    return found(Verdict.LIVE, "changed in mounted files")


def _assess_same_content(
    consumer: Consumer,
    record: Record,
    recorded: SourceRecord,
    current: SourceSnapshot,
    facts: Facts,
) -> Finding:
    """Rule 3, and what else may be behind equal content."""
    if consumer.has_no_pods and current.exists and may_be_pinned(recorded, current):
        unused = assess_recreated_immutable(consumer, record, current, facts)
        if unused.verdict is not Verdict.HOLD:  # what others keep has no effect until an edit
            return unused
    if _has_unrecorded_rollout(consumer, record, current, facts):
        verdict, why = _assess_frozen_change(consumer, record, current, facts, _READ_AT_START)
    elif current.live and not facts.live_needs_rollout and current.source in facts.returned:
        verdict, why = Verdict.LIVE, "may have been changed in mounted files and changed back"
    else:
        verdict, why = Verdict.UP_TO_DATE, "is unchanged"
    return Finding(current, verdict, f"{current.source} {why}")


def _assess_new_use(
    consumer: Consumer, record: Record, current: SourceSnapshot, facts: Facts
) -> tuple[Verdict, str]:
    """Rule 8: the record has the consumer, but not this source or not this use of it.

    If the generation is unchanged, the source was not visible or not followed before: adopt, as in
    rule 1. A class may have been rotated long before it was followed.
    """
    if has_mounts(current):
        return _assess_unknown(consumer, current, facts)
    if consumer.generation == record.generation or not reads_at_start(current, facts):
        return _assess_unknown(consumer, current, facts)
    if not current.exists or not facts.reload_on_create:
        return _assess_unknown(consumer, current, facts)
    if consumer.rolling and facts.waited < ROLLOUT_PATIENCE:
        return Verdict.WAIT, "is used now, while a rollout is in progress"
    if facts.starts is None:
        return Verdict.CHECK_PODS, "is used now: checking when its pods started"
    after_template = current.source in facts.before_template
    if after_template and all_created_since(facts.starts, facts.template_at):
        return Verdict.ADOPT, "is used now: now tracking"
    if any_started_before(facts.starts, current.changed_since):
        return Verdict.FROZEN, "is used now, and changed after some pods had started"
    files = current.is_mounted
    if current.edited and not all_started_after(facts.starts, current.changed_at, files=files):
        return Verdict.FROZEN, "is used now, and changed when some pods may have started already"
    return Verdict.ADOPT, "is used now: now tracking"


def _assess_other_uses(
    consumer: Consumer,
    record: Record,
    recorded: SourceRecord,
    current: SourceSnapshot,
    facts: Facts,
) -> Finding:
    """Rule 8: other data keys, or another kind of use; compares what is comparable."""

    def found(verdict: Verdict, reason: str) -> Finding:
        return Finding(current, verdict, f"{current.source} {reason}")

    what = "is used differently than before"
    if recorded.content:
        is_same = recorded.content == current.content
    else:
        version = current.uid, current.resource_version
        is_same = version == (recorded.uid, recorded.resource_version)
    if is_same:
        return found(Verdict.ADOPT, f"{what}: now tracking")
    if not current.exists or not (recorded.uid or recorded.pinned):
        return found(*_assess_unknown(consumer, current, facts))
    if may_be_pinned(recorded, current):
        return assess_recreated_immutable(consumer, record, current, facts)
    if not reads_at_start(current, facts):
        return found(Verdict.LIVE, f"changed, and {what}")
    return found(*_assess_frozen_change(consumer, record, current, facts, f"changed, and {what}"))


def _assess_creation(current: SourceSnapshot, facts: Facts) -> tuple[Verdict, str] | None:
    """Assess a source that did not exist in the record; None: as any other change.

    Containers that require it started after its creation, but it may have been deleted and
    recreated while they ran; so their starts decide.
    """
    required_at_start = _is_required_at_start(current.uses)
    if not required_at_start and not reads_at_start(current, facts):
        return None
    if facts.starts is None:
        return Verdict.CHECK_PODS, "was created: checking when its pods started"
    if has_mounts(current):
        return _assess_mounts(current, facts, "was created")
    if any_started_before(facts.starts, current.changed_since):
        return (
            None
            if not required_at_start
            else (Verdict.FROZEN, "was created after some pods started")
        )
    if required_at_start or all_started_after(
        facts.starts, current.changed_at, files=current.is_mounted
    ):
        return Verdict.ADOPT, "was created; the containers that use it started with it"
    return None


def may_be_pinned(recorded: SourceRecord, current: SourceSnapshot) -> bool:
    """Return whether a kubelet may serve the content of an immutable source that was replaced.

    Also when the content of both was the same at first.
    """
    was_immutable = recorded.immutable or current.replaces_immutable
    return recorded.pinned or (was_immutable and recorded.uid != current.uid)


def serves_another(recorded: SourceRecord, current: SourceSnapshot) -> bool:
    """Return whether kubelets may serve an immutable source with other content than is current."""
    return may_be_pinned(recorded, current) and recorded.content != current.content


def _pods_never_overlap(consumer: Consumer, record: Record | None) -> bool:
    """Return whether no node has had two pods of a consumer at once, as far as its spec says.

    Those of a StatefulSet may share a node; with a single one, the recorded generation says that
    there were not more in between.
    """
    if consumer.key.kind == "DaemonSet":
        return not consumer.surges
    is_same_spec = record is not None and record.generation == consumer.generation
    return consumer.key.kind == "StatefulSet" and consumer.wanted == 1 and is_same_spec


def assess_recreated_immutable(
    consumer: Consumer, record: Record | None, current: SourceSnapshot, facts: Facts
) -> Finding:
    """Rule 7: a kubelet serves the old content while any pod on its node uses the source.

    Also to pods of other workloads. So it ends when no pod of the namespace uses the source; or
    when a consumer has new pods that never overlap with its old ones, and has been the only user.
    """
    what = f"{current.source} was immutable and has been recreated"
    # A CronJob has pods now and then; they are found as those of others are.
    without_pods = consumer.has_no_pods or consumer.key.kind == "CronJob"
    if not without_pods:
        if not _pods_never_overlap(consumer, record):
            return _held(current, what)
        if facts.starts is None:
            return Finding(current, Verdict.CHECK_OTHERS, f"{what}: checking when its pods started")
        if not _have_pods_read_it(facts.starts, record, current):
            return _held(current, what, remedy="delete its pods", recheck_in=_WAIT_FOR_OTHERS)
    if current.source not in facts.others:
        return Finding(current, Verdict.CHECK_OTHERS, f"{what}: checking which pods use it")
    if (other := facts.others[current.source]) is not None:
        again = _WAIT_FOR_LAST_PODS if other.own else _WAIT_FOR_OTHERS
        # Only what later pods are compared with is kept: it would be written at each check.
        shared_at = 0.0 if other.own or without_pods else facts.now
        return _held(current, what, other.pod, shared_at=shared_at, recheck_in=again)
    why = "no pods use it" if without_pods else "all pods started after that"
    return Finding(current, Verdict.ADOPT, f"{what}; {why}")


def _have_pods_read_it(
    starts: Sequence[PodStart], record: Record | None, current: SourceSnapshot
) -> bool:
    """Return whether all pods are younger than a source, and than its last use by other pods."""
    recorded = records_by_source(record).get(current.source.kind_and_name)
    shared_at = 0.0 if recorded is None else recorded.shared_at
    return _are_pods_younger(starts, current) and all_created_since(starts, shared_at + MARGIN)


def _assess_pinned_by_others(current: SourceSnapshot, facts: Facts) -> Finding | None:
    """Rule 7 for pods that are the first of their consumer: others may keep what was there."""
    if current.pinned_before is None:
        return None
    what = f"{current.source} was immutable and has been recreated"
    if current.source not in facts.others:
        return Finding(current, Verdict.CHECK_OTHERS, f"{what}: checking which pods use it")
    other = facts.others[current.source]
    if other is None or other.created >= current.pinned_before:
        return None
    held = current._replace(replaces_immutable=True)
    return _held(held, what, other.pod, shared_at=facts.now)


def _held(
    current: SourceSnapshot,
    what: str,
    pod: str = "",
    *,
    remedy: str = "scale to zero first",
    shared_at: float = 0.0,
    recheck_in: float = 0.0,
) -> Finding:
    """Hold a source that kubelets may serve another one for; `pod` is another's that uses it."""
    why = f"{what}; kubelets serve the old content to new pods while any pod on the node uses it"
    if pod:
        why += f", as {pod} does"
        remedy = "scale all workloads that use it to zero first"
    why += f". Use a new name, or {remedy}"
    return Finding(current, Verdict.HOLD, why, shared_at=shared_at, recheck_in=recheck_in)


def _are_pods_younger(starts: Sequence[PodStart], current: SourceSnapshot) -> bool:
    """Return whether all pods began to use a source after its last change.

    A container that is restarted gets what its kubelet serves to the pod since it was created.
    """
    at = current.changed_at
    if not all_started_after(starts, at, files=current.is_mounted):
        return False
    restarted = [start for start in starts if start.restarted]
    return not restarted or (at is not None and all_created_since(restarted, at + MARGIN))


def reads_at_start(current: SourceSnapshot, facts: Facts) -> bool:
    """Return whether a change of a source needs containers to restart."""
    return bool(current.frozen) or facts.live_needs_rollout


def _assess_unknown(
    consumer: Consumer, current: SourceSnapshot, facts: Facts
) -> tuple[Verdict, str]:
    """Rule 1; re-read files are updated without an action."""
    what = "is new to hotmap"
    if not facts.catch_up or not current.exists or not reads_at_start(current, facts):
        return Verdict.ADOPT, f"{what}: now tracking"
    if facts.writing is not Writing.REVISION and has_current_revision(consumer, current, facts):
        return Verdict.ADOPT, f"{what}, and the pod template carries its current revision"
    if consumer.rolling and facts.waited < ROLLOUT_PATIENCE:
        return Verdict.WAIT, f"{what}, while a rollout is in progress"
    if facts.starts is None:
        return Verdict.CHECK_PODS, f"{what}: checking when its pods started"
    if has_mounts(current):
        return _assess_mounts(current, facts, what)
    if all_started_after(facts.starts, current.changed_at, files=current.is_mounted):
        return Verdict.ADOPT, f"{what}, and all pods started after the last change"
    return (
        Verdict.FROZEN,
        f"{what}, and some pods may have started before the last change",
    )


def _is_older(current: SourceSnapshot, recorded: SourceRecord) -> bool:
    """Rule 2; versions of one object may be compared as numbers (KEP-5504), others never."""
    if not current.exists or current.uid != recorded.uid:
        return False
    now, before = parse_number(current.resource_version), parse_number(recorded.resource_version)
    return now is not None and before is not None and now < before


def _is_required_at_start(uses: Sequence[Use]) -> bool:
    """Return whether every container that uses a source had to wait until it existed.

    A container waits for its own environment, the whole pod for volumes and init containers.
    """
    required = [use for use in uses if not use.optional]
    if any(use.init or use.kind is UseKind.LIVE for use in required):
        return True
    return {use.container for use in required} == {use.container for use in uses}


def _assess_deleted(
    current: SourceSnapshot, recorded: SourceRecord, facts: Facts
) -> tuple[Verdict, str]:
    if current.required:
        return (
            Verdict.UP_TO_DATE,
            "was deleted; running pods keep their content, new pods cannot start",
        )
    if current.live != recorded.live and not facts.live_needs_rollout:
        return Verdict.LIVE, "was deleted; it is optional, so its files are removed"
    return (
        Verdict.UP_TO_DATE,
        "was deleted; it is optional, and running containers keep what they read",
    )


_READ_AT_START = "changed"
_NOT_REREAD = "changed in mounted files"


def _assess_frozen_change(
    consumer: Consumer, record: Record, current: SourceSnapshot, facts: Facts, what: str
) -> tuple[Verdict, str]:
    """Rules 0, 5 and 6: a change that needs containers to restart."""
    if is_already_applied(consumer, current, facts):
        return Verdict.ADOPT, "is already in the pod template"
    if has_mounts(current) and consumer.key.kind != "CronJob":
        return _assess_mounted_change(consumer, record, current, facts, what)
    if consumer.generation == record.generation or consumer.key.kind == "CronJob":
        return Verdict.FROZEN, what  # an edit of a CronJob starts no pods
    if consumer.generation < record.generation and facts.waited < ROLLOUT_PATIENCE:
        return Verdict.WAIT, f"{what}, while the watch lags behind hotmap's own rollout"
    if consumer.rolling and facts.waited < ROLLOUT_PATIENCE:
        return Verdict.WAIT, f"{what}, {_during_rollout(consumer)}"
    if facts.starts is None:
        return (
            Verdict.CHECK_PODS,
            f"{what}, and so did the workload: checking when its pods started",
        )
    after_template = current.source in facts.before_template and not consumer.rolling
    if after_template and all_created_since(facts.starts, facts.template_at):
        return Verdict.ADOPT, f"{what}, and all pods were created after that"
    if all_started_after(facts.starts, current.changed_at, files=current.is_mounted):
        return Verdict.ADOPT, f"{what}, and all pods started after that"
    return Verdict.FROZEN, f"{what}, and some pods may have started before that"


def _during_rollout(consumer: Consumer) -> str:
    return (
        "while its rollout is paused" if consumer.paused else "while another rollout is in progress"
    )


# -- SecretProviderClasses -----------------------------------------------------------------------


def has_mounts(current: SourceSnapshot) -> bool:
    """Return whether a source is a class that the consumer's own pods mount."""
    return current.mounts is not None and any(use.container for use in current.uses)


def _assess_mounted_change(
    consumer: Consumer, record: Record, current: SourceSnapshot, facts: Facts, what: str
) -> tuple[Verdict, str]:
    """Rule 11: what its pods have mounted decides, whatever the generation is."""
    assert current.mounts is not None, "of a class"
    if consumer.has_no_pods and current.mounts.by_update:
        return Verdict.FROZEN, what
    is_waiting = facts.waited < ROLLOUT_PATIENCE
    if consumer.generation < record.generation and is_waiting:
        return Verdict.WAIT, f"{what}, while the watch lags behind hotmap's own rollout"
    if consumer.generation > record.generation and consumer.rolling and is_waiting:
        return Verdict.WAIT, f"{what}, {_during_rollout(consumer)}"
    if facts.starts is None:
        return Verdict.CHECK_PODS, f"{what}: checking what its pods have mounted"
    return _assess_mounts(current, facts, what)


def _assess_mounts(current: SourceSnapshot, facts: Facts, what: str) -> tuple[Verdict, str]:
    """Compare what each pod mounted at its start with the versions of a class."""
    assert current.mounts is not None, "of a class"
    mounted = {pod.pod: pod for pod in current.mounts.pods}
    starts = facts.starts or ()
    unreported = [start for start in starts if start.at is not None and start.name not in mounted]
    older = [
        start.name
        for start in starts
        if start.name in mounted and not started_with(start, mounted[start.name])
    ]
    if older:
        return Verdict.FROZEN, f"{what}; {join_names(older)} started with other versions"
    if all_started_after(unreported, current.changed_at):
        return Verdict.ADOPT, f"{what}; all pods started with these versions"
    if facts.waited < ROLLOUT_PATIENCE:
        return Verdict.WAIT, f"{what}; waiting for the CSI driver to report what pods have mounted"
    if not current.mounts.by_update:
        return Verdict.ADOPT, f"{what}; no pod was updated since it started"
    names = join_names([start.name for start in unreported])
    return Verdict.FROZEN, f"{what}; {names} may have started with other versions"


def started_with(start: PodStart, mounted: MountedPod) -> bool:
    """Return whether a pod has the versions of a class since before its containers started."""
    if not mounted.current:
        return False
    if not mounted.updated or start.at is None:
        return True
    return mounted.updated_at is not None and start.at >= mounted.updated_at + MARGIN


def is_already_applied(consumer: Consumer, current: SourceSnapshot, facts: Facts) -> bool:
    """Rule 0: a crash between the patch and the record.

    An undo can restore an old revision, so the revision alone proves nothing: our field manager
    must have written at or after the change. Both times are the API server's. If an Argo Rollout's
    restartAt is after the change, all its pods were replaced.
    """
    if current.changed_at is None:
        return False
    restart_at = consumer.argo.restart_at if consumer.argo else None
    if restart_at is not None and current.changed_at < restart_at <= facts.now + MARGIN:
        return True
    return (
        has_current_revision(consumer, current, facts)
        and consumer.written_at is not None
        and consumer.written_at >= floor(current.changed_at)
    )


def _has_unrecorded_rollout(
    consumer: Consumer, record: Record, current: SourceSnapshot, facts: Facts
) -> bool:
    """Rule 3: return whether we applied other content than the current one since the record.

    This happens after a crash between the patch and the record, followed by a return to the
    recorded content. Then the template has a revision that is not in the record, with the same key
    and written by us (an undo would take the annotation over).
    """
    before, _, _ = consumer.revision.partition(".")
    key_id, _, _ = facts.revision.partition(".")
    return (
        bool(current.frozen or facts.live_needs_rollout)
        and before == key_id
        and consumer.revision != record.revision
        and content_of(consumer.revision) != facts.revision
        and consumer.written_at is not None
        and consumer.generation != record.generation
    )


def has_current_revision(consumer: Consumer, current: SourceSnapshot, facts: Facts) -> bool:
    """Return whether the template has the revision of the current content."""
    if facts.writing is Writing.REVISION:
        return content_of(consumer.revision) == facts.revision
    return carries(consumer.traces, Stamp(current.source, current.stamp), facts.writing)


def was_made_for(start: PodStart, revision: str, *, applied_at: float) -> bool:
    """Return whether a pod's template was written by us for some content.

    `revision` names that content ("" where no template does), and `applied_at` is when a rollout
    wrote it (POSIX seconds of the API server; 0: unknown). With Reloader's strategies no template
    names its content, so a pod counts that was created since then, with what the template is
    marked with now.
    """
    if revision and content_of(start.revision) == revision:
        return True
    return start.is_marked and bool(applied_at) and start.created >= floor(applied_at) - _ANSWER


def was_rolled_out_after(
    start: PodStart, changed_at: float | None, revision: str, *, rolled_at: float
) -> bool:
    """Return whether our last rollout made a pod, and came after a change.

    That rollout wrote `revision` at `rolled_at` (POSIX seconds of the API server; 0: unknown). A
    return to earlier content reuses its name, so the pod has to be as young as the rollout.
    """
    if changed_at is None or not rolled_at or rolled_at < changed_at:
        return False
    is_younger = start.created >= floor(rolled_at) - _ANSWER
    return is_younger and was_made_for(start, revision, applied_at=rolled_at)


#: Sources of which a reason tells; a consumer may have a thousand, and its reasons are kept.
_DESCRIBED = 8


def join_reasons(reasons: Sequence[str]) -> str:
    """Join what there is to say of several sources: of the first few, and how many more."""
    more = len(reasons) - _DESCRIBED
    shown = "; ".join(reasons[:_DESCRIBED])
    return f"{shown}; and {more} more" if more > 0 else shown


def join_findings(findings: Sequence[Finding]) -> str:
    """Join the reasons of findings; sources that are the same are named together."""
    alike: dict[str, list[Finding]] = {}
    for finding in findings:
        alike.setdefault(_what_it_is(finding), []).append(finding)
    reasons = []
    for what, found in alike.items():
        if what and len(found) > 1:
            sources = [str(finding.current.source) for finding in found]
            reasons.append(f"{join_names(sources, _DESCRIBED)} are {what}")
        else:
            reasons += [finding.reason for finding in found]
    return join_reasons(reasons)


def _what_it_is(finding: Finding) -> str:
    """Return what a finding says that its source is; "" where it says something else."""
    begin = f"{finding.current.source} is "
    return finding.reason.removeprefix(begin) if finding.reason.startswith(begin) else ""
