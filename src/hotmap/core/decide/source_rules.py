"""The freshness rules for one source of a consumer; `freshness` numbers them."""

from __future__ import annotations

from collections.abc import Sequence

from hotmap.core.decide.assessment import Facts, Finding, Verdict
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
)
from hotmap.core.decide.source_snapshot import SourceSnapshot
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.provider_class import MountedPod
from hotmap.core.model.references import Use, UseKind
from hotmap.core.model.state import Record, SourceRecord
from hotmap.core.reloader.annotations import Writing
from hotmap.core.text import join_names, parse_number

__all__ = [
    "ROLLOUT_WAIT",
    "assess_source",
    "has_mounts",
    "reads_at_start",
    "started_with",
]

#: Seconds to wait for a consumer's own rollout before its pods are checked (rule 6).
ROLLOUT_WAIT = 60.0


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
    if (pinned := assess_unrecorded_pin(consumer, record, recorded, current, facts)) is not None:
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
    if has_unrecorded_rollout(consumer, record, current, facts):
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
    if consumer.rolling and facts.waited < ROLLOUT_WAIT:
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
    if consumer.rolling and facts.waited < ROLLOUT_WAIT:
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
    if consumer.generation < record.generation and facts.waited < ROLLOUT_WAIT:
        return Verdict.WAIT, f"{what}, while the watch lags behind hotmap's own rollout"
    if consumer.rolling and facts.waited < ROLLOUT_WAIT:
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
    is_waiting = facts.waited < ROLLOUT_WAIT
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
    if facts.waited < ROLLOUT_WAIT:
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
