"""The freshness rules for one source of a consumer; `freshness` numbers them."""

from __future__ import annotations

from collections.abc import Sequence

from hotmap.core.decide.assessment import Case, Finding, Verdict
from hotmap.core.decide.evidence import (
    MARGIN,
    PodStart,
    all_created_since,
    all_started_after,
    any_started_before,
)
from hotmap.core.decide.immutable_rules import (
    assess_recreated_immutable,
    assess_unrecorded_pin,
    may_be_pinned,
)
from hotmap.core.decide.own_rollouts import (
    has_current_revision,
    has_unrecorded_rollout,
    is_already_applied,
    is_written,
)
from hotmap.core.decide.snapshot import Snapshot, changed_before_template
from hotmap.core.decide.source_snapshot import SourceSnapshot
from hotmap.core.model.consumer import Argo, Consumer
from hotmap.core.model.provider_class import MountedPod
from hotmap.core.model.references import Use, UseKind
from hotmap.core.model.state import SourceRecord, records_by_source
from hotmap.core.reloader.annotations import Writing
from hotmap.core.resource_version import is_newer
from hotmap.core.text import join_names

__all__ = [
    "ROLLOUT_WAIT",
    "assess_source",
    "has_mounts",
    "reads_at_start",
    "started_with",
]

#: Seconds to wait for a consumer's own rollout before its pods are checked (rule 6).
ROLLOUT_WAIT = 60.0

#: Seconds after its creation in which a source that the record lacks counts as new. Later it has
#: existed for a while, and is followed only now. Settling and retries take less.
_JUST_CREATED = 120.0

#: Seconds without a controller, as between two leaders or at a restart, after which a consumer may
#: have been created and its source edited in that gap. In a longer gap, the last write of a source
#: may as well have been a label, and all pods would be replaced for that.
_SHORT_GAP = 3600.0


def assess_source(case: Case) -> Finding:
    """Assess one source of a consumer."""
    current, recorded = case.current, case.recorded
    if not current.visible:
        why = "cannot be read" if current.unreadable else "is not visible to hotmap"
        return case.find(Verdict.UP_TO_DATE, f"{why}: nothing is known of it")
    if current.is_unknown:
        known = recorded is not None and recorded.uses == current.digest
        verdict = Verdict.UP_TO_DATE if known else Verdict.ADOPT
        why = "is mounted in different versions, or by no pod: waiting for updates"
        return case.find(verdict, why)
    pinned = assess_unrecorded_pin(case)
    if pinned is not None and pinned.verdict is Verdict.HOLD and current.is_like_replaced:
        # Kubelets serve equal content until the next edit, which the record has to show.
        case = case._replace(current=current._replace(replaces_immutable=True))
    elif pinned is not None:
        return pinned
    if recorded is None:
        return _assess_unknown(case) if case.snapshot.record is None else _assess_new_use(case)
    if recorded.uses != current.digest:
        return _assess_other_uses(case, recorded)
    if not recorded.uid and current.exists and not recorded.pinned:
        if not case.snapshot.policy.reload_on_create:
            return case.find(Verdict.ADOPT, "was created; creations are ignored (flags)")
        if (created := _assess_creation(case)) is not None:
            return created
    return _assess_known(case, recorded)


def _assess_known(case: Case, recorded: SourceRecord) -> Finding:
    """Compare a source with what was last applied (rules 2 to 7)."""
    snapshot, current = case.snapshot, case.current
    is_older = current.mounts is None and _is_older(current, recorded)
    if is_older and current.source not in snapshot.confirmed:
        reason = "is older in the watch cache than the version applied: waiting"
        return case.find(Verdict.WAIT, reason)._replace(older=True)
    same_at_start = current.frozen == recorded.frozen or current.uncovered
    same_files = current.live == recorded.live or (
        current.uncovered and snapshot.live_needs_rollout
    )
    if same_at_start and same_files:
        return _assess_same_content(case, recorded)
    if not current.exists:
        if snapshot.policy.reload_on_delete and not current.required:
            return _assess_frozen_change(case, "is deleted")
        return _assess_deleted(case, recorded)
    if may_be_pinned(recorded, current):
        return assess_recreated_immutable(case)
    if current.missing:
        missing = join_names(current.missing)
        why = f"lacks {missing}, which is not optional: new pods could not start"
        return case.find(Verdict.HOLD, why)
    if not same_at_start:
        return _assess_frozen_change(case, _READ_AT_START)
    if snapshot.live_needs_rollout:
        return _assess_frozen_change(case, _NOT_REREAD)
    return case.find(Verdict.LIVE, "changed in mounted files")


def _assess_same_content(case: Case, recorded: SourceRecord) -> Finding:
    """Rule 3, and what else may be behind equal content."""
    snapshot, current = case.snapshot, case.current
    if (unused := _assess_unused(case, recorded)) is not None:
        return unused
    if has_unrecorded_rollout(snapshot, current):
        return _assess_frozen_change(case, _READ_AT_START)
    if current.live and not snapshot.live_needs_rollout and current.changes.window is not None:
        return case.find(Verdict.LIVE, "may have been changed in mounted files and changed back")
    return case.find(Verdict.UP_TO_DATE, "is unchanged")


def _assess_new_use(case: Case) -> Finding:
    """Rule 8: the record has the consumer, but not this source or not this use of it.

    If the generation is unchanged, the source was not visible or not followed before: adopt, as in
    rule 1. One that was created since is a change: it was not in the record because only an
    expression names it, or because a selector hides which sources exist. A class may have been
    rotated long before it was followed.
    """
    snapshot, current, starts = case.snapshot, case.current, case.starts
    consumer = snapshot.consumer
    if has_mounts(current):
        return _assess_unknown(case)
    if (
        not current.exists
        or not snapshot.policy.reload_on_create
        or not reads_at_start(snapshot, current)
    ):
        return _assess_unknown(case)
    if consumer.generation == case.recorded_generation:
        created_at = current.changes.latest if current.changes.created else None
        if created_at is None or snapshot.now - created_at > _JUST_CREATED:
            return _assess_unknown(case)
        return _assess_creation(case) or _assess_frozen_change(case, "was created")
    if consumer.rolling and snapshot.waited < ROLLOUT_WAIT:
        return _wait_for_rollout(case, "is used now, while a rollout is in progress")
    if starts is None:
        return case.find(Verdict.CHECK_PODS, "is used now: checking when its pods started")
    after_template = changed_before_template(snapshot, current)
    if after_template and all_created_since(starts, snapshot.template_at):
        return case.find(Verdict.ADOPT, "is used now: now tracking")
    if any_started_before(starts, current.changed_since):
        return case.find(Verdict.FROZEN, "is used now, and changed after some pods had started")
    files = current.is_mounted
    if current.edited and not all_started_after(starts, current.changed_at, files=files):
        why = "is used now, and changed when some pods may have started already"
        return case.find(Verdict.FROZEN, why)
    return case.find(Verdict.ADOPT, "is used now: now tracking")


def _assess_other_uses(case: Case, recorded: SourceRecord) -> Finding:
    """Rule 8: other data keys, or another kind of use; compares what is comparable."""
    current = case.current
    what = "is used differently than before"
    if recorded.content:
        is_same = recorded.content == current.content
    else:
        version = current.uid, current.resource_version
        is_same = version == (recorded.uid, recorded.resource_version)
    if is_same:
        return case.find(Verdict.ADOPT, f"{what}: now tracking")
    if not current.exists or not (recorded.uid or recorded.pinned):
        return _assess_unknown(case)
    if may_be_pinned(recorded, current):
        return assess_recreated_immutable(case)
    if not reads_at_start(case.snapshot, current):
        return case.find(Verdict.LIVE, f"changed, and {what}")
    return _assess_frozen_change(case, f"changed, and {what}")


def _assess_creation(case: Case) -> Finding | None:
    """Assess a source that did not exist in the record; None: as any other change.

    Containers that require it started after its creation, but it may have been deleted and
    recreated while they ran; so their starts decide.
    """
    snapshot, current, starts = case.snapshot, case.current, case.starts
    required_at_start = _is_required_at_start(current.uses)
    if not required_at_start and not reads_at_start(snapshot, current):
        return None
    if not required_at_start and case.snapshot.consumer.key.kind == "CronJob":
        return None  # its last run was without the source, and no pod shows that
    if case.snapshot.consumer.rolling and snapshot.waited < ROLLOUT_WAIT:
        # Pods of the earlier template may not use it; those of the current one waited for it.
        return _wait_for_rollout(case, f"was created, {_during_rollout(case.snapshot.consumer)}")
    if starts is None:
        return case.find(Verdict.CHECK_PODS, "was created: checking when its pods started")
    if has_mounts(current):
        return _assess_mounts(case, "was created")
    if any_started_before(starts, current.changed_since):
        if not required_at_start:
            return None
        return case.find(Verdict.FROZEN, "was created after some pods started")
    if required_at_start or all_started_after(starts, current.changed_at, files=current.is_mounted):
        return case.find(Verdict.ADOPT, "was created; the containers that use it started with it")
    return None


def reads_at_start(snapshot: Snapshot, current: SourceSnapshot) -> bool:
    """Return whether a change of a source needs containers to restart."""
    return bool(current.frozen) or snapshot.live_needs_rollout


def _assess_unknown(case: Case) -> Finding:
    """Rule 1; re-read files are updated without an action."""
    snapshot, current, starts = case.snapshot, case.current, case.starts
    consumer = snapshot.consumer
    what = "is new to hotmap"
    if not current.exists and not current.required:
        return case.find(Verdict.ADOPT, "does not exist, and is not required: now tracking")
    if not current.exists or not reads_at_start(snapshot, current):
        return case.find(Verdict.ADOPT, f"{what}: now tracking")
    if not snapshot.policy.catch_up:
        return _assess_recreated(case, what) or _assess_unwatched(case, what)
    is_marked = snapshot.policy.writing is not Writing.REVISION
    if is_marked and has_current_revision(snapshot, current):
        why = f"{what}, and the pod template carries its current revision"
        return case.find(Verdict.ADOPT, why)
    if consumer.rolling and snapshot.waited < ROLLOUT_WAIT:
        return _wait_for_rollout(case, f"{what}, while a rollout is in progress")
    if starts is None:
        return case.find(Verdict.CHECK_PODS, f"{what}: checking when its pods started")
    if has_mounts(current):
        return _assess_mounts(case, what)
    if all_started_after(starts, current.changed_at, files=current.is_mounted):
        return case.find(Verdict.ADOPT, f"{what}, and all pods started after the last change")
    why = f"{what}, and some pods may have started before the last change"
    return case.find(Verdict.FROZEN, why)


def _assess_recreated(case: Case, what: str) -> Finding | None:
    """Assess a source of a workload that succeeds a deleted one; None: it has what that had.

    It may have been deleted without its pods, which the new one adopts, before an edit reached
    them.
    """
    snapshot, current, starts = case.snapshot, case.current, case.starts
    if has_mounts(current):
        return None
    before = records_by_source(snapshot.predecessor).get(current.source.kind_and_name)
    if before is None or _is_same_content(current, before):
        return None
    if starts is None:
        return case.find(Verdict.CHECK_PODS, f"{what}: checking when its pods started")
    if any_started_before(starts, current.changed_since):
        return case.find(Verdict.FROZEN, f"{what}, and changed after some pods had started")
    return None


def _is_same_content(current: SourceSnapshot, before: SourceRecord) -> bool:
    if before.uses != current.digest:  # its fingerprints are over other data keys
        return before.content == current.content
    return (before.frozen, before.live) == (current.frozen, current.live)


def _assess_unwatched(case: Case, what: str) -> Finding:
    """Adopt, unless the consumer was created and the source edited in a gap without a controller.

    A controller would have adopted the consumer before the edit. Pods from before the gap show that
    the consumer is older, so that it was merely not followed.
    """
    snapshot, current, starts = case.snapshot, case.current, case.starts
    since, adopt = snapshot.unwatched_since, case.find(Verdict.ADOPT, f"{what}: now tracking")
    if since is None or snapshot.now - since > _SHORT_GAP or has_mounts(current):
        return adopt
    if current.changed_at is not None and current.changed_at + MARGIN <= since:
        return adopt
    if starts is None:
        return case.find(Verdict.CHECK_PODS, f"{what}: checking when its pods started")
    is_new = all_created_since(starts, since)
    if is_new and any_started_before(starts, current.changed_since):
        return case.find(Verdict.FROZEN, f"{what}, and changed after some pods had started")
    return adopt


def _is_older(current: SourceSnapshot, recorded: SourceRecord) -> bool:
    """Rule 2; versions of one object may be compared, others never."""
    is_same = current.exists and current.uid == recorded.uid
    return is_same and is_newer(recorded.resource_version, current.resource_version)


def _is_required_at_start(uses: Sequence[Use]) -> bool:
    """Return whether every container that uses a source had to wait until it existed.

    A container waits for its own environment, the whole pod for volumes and init containers.
    """
    required = [use for use in uses if not use.optional]
    if any(use.init or use.kind is UseKind.LIVE for use in required):
        return True
    return {use.container for use in required} == {use.container for use in uses}


def _assess_unused(case: Case, recorded: SourceRecord) -> Finding | None:
    """Rule 7, for a consumer without pods; None: it does not apply, or others use the source.

    What others keep has no effect on equal content until an edit. For a source that was deleted
    it is checked again, until new pods start without it.
    """
    current = case.current
    is_read = current.exists or not current.required
    if not (case.snapshot.consumer.has_no_pods and is_read and may_be_pinned(recorded, current)):
        return None
    unused = assess_recreated_immutable(case)
    if unused.verdict is not Verdict.HOLD:
        return unused
    if current.exists:
        return None
    why = "was deleted; kubelets serve it to new pods while any pod on the node uses it"
    found = case.find(Verdict.UP_TO_DATE, why)
    return found._replace(deleted=True, recheck_in=unused.recheck_in)


def _assess_deleted(case: Case, recorded: SourceRecord) -> Finding:
    if case.current.required:
        why = "was deleted; running pods keep their content, new pods cannot start"
        return case.find(Verdict.UP_TO_DATE, why)
    if (unused := _assess_unused(case, recorded)) is not None:
        return unused
    if case.current.live != recorded.live and not case.snapshot.live_needs_rollout:
        found = case.find(Verdict.LIVE, "was deleted; it is optional, so its files are removed")
    else:
        why = "was deleted; it is optional, and running containers keep what they read"
        found = case.find(Verdict.UP_TO_DATE, why)
    return found._replace(deleted=True)


#: Ends of reasons: what of the source changed, and what is waited for.
_READ_AT_START = "changed"
_NOT_REREAD = "changed in mounted files"
_BEFORE_OWN_ROLLOUT = "while the watch lags behind hotmap's own rollout"


def _find_applied(case: Case) -> Finding:
    """Rule 0; pods may have been made for the content before this controller noticed it.

    The mark bounds the time of a change that was not observed. The source's metadata does not: the
    removal of a data key updates no time there, and a container may have started just before.
    """
    current = case.current
    at = case.snapshot.consumer.written_at if is_written(case.snapshot, current) else None
    is_observed = current.changes.latest is not None
    if at is not None and not is_observed and at < (current.changed_at or 0.0):
        case = case._replace(current=current._replace(changed_at=at, estimated=True))
    applied = case.find(Verdict.ADOPT, "is already in the pod template")
    return applied._replace(written=at is not None)


def _assess_frozen_change(case: Case, what: str) -> Finding:
    """Rules 0, 5 and 6: a change that needs containers to restart."""
    snapshot, current, starts = case.snapshot, case.current, case.starts
    consumer = snapshot.consumer
    if is_already_applied(snapshot, current):
        return _find_applied(case)
    if has_mounts(current) and consumer.key.kind != "CronJob":
        return _assess_mounted_change(case, what)
    if consumer.generation == case.recorded_generation or consumer.key.kind == "CronJob":
        return case.find(Verdict.FROZEN, what)  # an edit of a CronJob starts no pods
    if consumer.generation < case.recorded_generation and snapshot.waited < ROLLOUT_WAIT:
        return _wait_for_rollout(case, f"{what}, {_BEFORE_OWN_ROLLOUT}")
    if consumer.rolling and snapshot.waited < ROLLOUT_WAIT:
        return _wait_for_rollout(case, f"{what}, {_during_rollout(consumer)}")
    if starts is None:
        why = f"{what}, and so did the workload: checking when its pods started"
        return case.find(Verdict.CHECK_PODS, why)
    after_template = changed_before_template(snapshot, current) and not consumer.rolling
    if after_template and all_created_since(starts, snapshot.template_at):
        return case.find(Verdict.ADOPT, f"{what}, and all pods were created after that")
    if all_started_after(starts, current.changed_at, files=current.is_mounted):
        if consumer.rolling and consumer.argo is not None:
            # These are the pods of its newest template, which is promoted later, retried or undone.
            if _is_after_abort(consumer.argo, current):
                return case.find(Verdict.FROZEN, f"{what}, after its rollout was aborted")
            return _wait_for_rollout(case, f"{what}, {_during_rollout(consumer)}")
        return case.find(Verdict.ADOPT, f"{what}, and all pods started after that")
    return case.find(Verdict.FROZEN, f"{what}, and some pods may have started before that")


def _wait_for_rollout(case: Case, reason: str) -> Finding:
    """Wait for a rollout; its progress changes the consumer, which is decided on again then."""
    left = ROLLOUT_WAIT - case.snapshot.waited
    again = left if left > 0 else ROLLOUT_WAIT
    return case.find(Verdict.WAIT, reason)._replace(recheck_in=again, awaits_rollout=True)


def _is_after_abort(argo: Argo, current: SourceSnapshot) -> bool:
    """Return whether a source changed after a rollout was aborted, which the change may correct."""
    if not argo.aborted or argo.aborted_at is None:
        return False
    return current.changed_at is not None and current.changed_at > argo.aborted_at


def _during_rollout(consumer: Consumer) -> str:
    if consumer.argo is not None and consumer.argo.aborted:
        return "while its rollout is aborted"
    if consumer.is_rollout_paused:
        return "while its rollout is paused"
    return "while another rollout is in progress"


# -- SecretProviderClasses -----------------------------------------------------------------------


def has_mounts(current: SourceSnapshot) -> bool:
    """Return whether a source is a class that the consumer's own pods mount."""
    return current.mounts is not None and any(use.container for use in current.uses)


def _assess_mounted_change(case: Case, what: str) -> Finding:
    """Rule 11: what its pods have mounted decides, whatever the generation is."""
    snapshot, current, starts = case.snapshot, case.current, case.starts
    consumer = snapshot.consumer
    assert current.mounts is not None, "of a class"
    if consumer.has_no_pods and current.mounts.by_update:
        return case.find(Verdict.FROZEN, what)
    is_waiting = snapshot.waited < ROLLOUT_WAIT
    if consumer.generation < case.recorded_generation and is_waiting:
        return _wait_for_rollout(case, f"{what}, {_BEFORE_OWN_ROLLOUT}")
    if consumer.generation > case.recorded_generation and consumer.rolling and is_waiting:
        return _wait_for_rollout(case, f"{what}, {_during_rollout(consumer)}")
    if starts is None:
        return case.find(Verdict.CHECK_PODS, f"{what}: checking what its pods have mounted")
    return _assess_mounts(case, what)


def _assess_mounts(case: Case, what: str) -> Finding:
    """Compare what each pod mounted at its start with the versions of a class."""
    snapshot, current, starts = case.snapshot, case.current, case.starts
    assert current.mounts is not None, "of a class"
    mounted = {pod.pod: pod for pod in current.mounts.pods}
    starts = case.starts or ()
    unreported = [start for start in starts if start.at is not None and start.name not in mounted]
    older = [
        start.name
        for start in starts
        if start.name in mounted and not started_with(start, mounted[start.name])
    ]
    if older:
        return case.find(Verdict.FROZEN, f"{what}; {join_names(older)} started with other versions")
    if all_started_after(unreported, current.changed_at):
        return case.find(Verdict.ADOPT, f"{what}; all pods started with these versions")
    if snapshot.waited < ROLLOUT_WAIT:
        why = f"{what}; waiting for the CSI driver to report what pods have mounted"
        return case.find(Verdict.WAIT, why)
    if not current.mounts.by_update:
        return case.find(Verdict.ADOPT, f"{what}; no pod was updated since it started")
    names = join_names([start.name for start in unreported])
    return case.find(Verdict.FROZEN, f"{what}; {names} may have started with other versions")


def started_with(start: PodStart, mounted: MountedPod) -> bool:
    """Return whether a pod has the versions of a class since before its containers started."""
    if not mounted.current:
        return False
    if not mounted.updated or start.at is None:
        return True
    return mounted.updated_at is not None and start.at >= mounted.updated_at + MARGIN
