"""The freshness rules for one source of a consumer; `freshness` numbers them."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor

from hotmap.core.decide.assessment import Facts, Finding, Verdict
from hotmap.core.decide.evidence import MARGIN, made_since, proven_younger, started_before
from hotmap.core.decide.snapshot import SourceSnapshot, content_of
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.references import Use, UseKind
from hotmap.core.model.state import Record, SourceRecord
from hotmap.core.reloader.annotations import Writing
from hotmap.core.reloader.patch import Stamp, carries
from hotmap.core.text import parse_number

__all__ = [
    "ROLLOUT_PATIENCE",
    "already_applied",
    "assess_source",
    "listed",
    "reads_at_start",
    "shows_present",
]

#: Seconds to wait for a consumer's own rollout before its pods are checked (rule 6).
ROLLOUT_PATIENCE = 60.0


def assess_source(
    consumer: Consumer,
    record: Record | None,
    asked: SourceRecord | None,
    present: SourceSnapshot,
    facts: Facts,
) -> Finding:
    """Assess one source; `asked` is what the record says of it."""

    def found(verdict: Verdict, reason: str) -> Finding:
        return Finding(present, verdict, f"{present.source} {reason}")

    if not present.visible:
        why = "cannot be read" if present.unreadable else "is not visible to hotmap"
        return found(Verdict.UP_TO_DATE, f"{why}: nothing is known of it")
    if record is not None and asked is None:
        return found(*_assess_new_use(consumer, record, present, facts))
    if record is None or asked is None:
        return found(*_assess_unknown(consumer, present, facts))
    if asked.uses != present.digest:
        return found(*_assess_other_uses(consumer, record, asked, present, facts))
    if not asked.uid and present.exists:
        if not facts.wants_created:
            return found(Verdict.ADOPT, "was created; creations are ignored (flags)")
        if (created := _assess_creation(present, facts)) is not None:
            return found(*created)
    return _assess_known(consumer, record, asked, present, facts)


def _assess_known(
    consumer: Consumer,
    record: Record,
    asked: SourceRecord,
    present: SourceSnapshot,
    facts: Facts,
) -> Finding:
    """Compare a source with what was last asked for (rules 2 to 7)."""

    def found(verdict: Verdict, reason: str) -> Finding:
        return Finding(present, verdict, f"{present.source} {reason}")

    if _is_older(present, asked) and present.source not in facts.confirmed:
        reason = "is older in the watch cache than the version applied: waiting"
        return found(Verdict.WAIT, reason)._replace(older=True)
    if (present.frozen, present.live) == (asked.frozen, asked.live):
        if _has_overlooked(consumer, record, present, facts):
            return found(*_assess_frozen_change(consumer, record, present, facts, _READ_AT_START))
        return found(Verdict.UP_TO_DATE, "is unchanged")
    if not present.exists:
        if facts.wants_deleted and not present.required:
            return found(*_assess_frozen_change(consumer, record, present, facts, "is deleted"))
        return found(*_assess_deleted(present, asked, facts))
    if asked.immutable and asked.uid != present.uid:
        return found(*_assess_recreated_immutable(consumer, present, facts))
    if present.missing:
        return found(
            Verdict.HOLD,
            f"lacks {listed(present.missing)}, which is not optional: new pods could not start",
        )
    if present.frozen != asked.frozen:
        return found(*_assess_frozen_change(consumer, record, present, facts, _READ_AT_START))
    if facts.live_rolls:
        return found(*_assess_frozen_change(consumer, record, present, facts, _NOT_REREAD))
    return found(Verdict.LIVE, "changed in mounted files")


def _assess_new_use(
    consumer: Consumer, record: Record, present: SourceSnapshot, facts: Facts
) -> tuple[Verdict, str]:
    """Rule 8: the record has the consumer, but not this source or not this use of it.

    If the generation is unchanged, the source was not visible or not followed before: adopt, as in
    rule 1.
    """
    if consumer.generation == record.generation or not reads_at_start(present, facts):
        return _assess_unknown(consumer, present, facts)
    if not present.exists or not facts.wants_created:
        return _assess_unknown(consumer, present, facts)
    if consumer.rolling and facts.waited < ROLLOUT_PATIENCE:
        return Verdict.WAIT, "is used now, while a rollout is in progress"
    if facts.starts is None:
        return Verdict.CHECK_PODS, "is used now: checking when its pods started"
    after_template = present.source in facts.before_template
    if after_template and made_since(facts.starts, facts.template_at):
        return Verdict.ADOPT, "is used now: now tracking"
    if started_before(facts.starts, present.changed_since):
        return Verdict.FROZEN, "is used now, and changed after some pods had started"
    files = bool(present.live)
    if present.edited and not proven_younger(facts.starts, present.changed_at, files=files):
        return Verdict.FROZEN, "is used now, and changed when some pods may have started already"
    return Verdict.ADOPT, "is used now: now tracking"


def _assess_other_uses(
    consumer: Consumer,
    record: Record,
    asked: SourceRecord,
    present: SourceSnapshot,
    facts: Facts,
) -> tuple[Verdict, str]:
    """Rule 8: other data keys, or another kind of use; compares what is comparable."""
    what = "is used differently than before"
    same_object = asked.uid == present.uid
    same_version = same_object and asked.resource_version == present.resource_version
    if same_version or (asked.content and asked.content == present.content):
        return Verdict.ADOPT, f"{what}: now tracking"
    if not present.exists or not asked.uid:
        return _assess_unknown(consumer, present, facts)
    if not reads_at_start(present, facts):
        return Verdict.LIVE, f"changed, and {what}"
    return _assess_frozen_change(consumer, record, present, facts, f"changed, and {what}")


def _assess_creation(present: SourceSnapshot, facts: Facts) -> tuple[Verdict, str] | None:
    """Assess a source that did not exist in the record; None: as any other change.

    Containers that require it started after its creation, but it may have been deleted and
    recreated while they ran; so their starts decide.
    """
    waited_for = _was_waited_for(present.uses)
    if not waited_for and not reads_at_start(present, facts):
        return None
    if facts.starts is None:
        return Verdict.CHECK_PODS, "was created: checking when its pods started"
    if started_before(facts.starts, present.changed_since):
        return None if not waited_for else (Verdict.FROZEN, "was created after some pods started")
    if waited_for or proven_younger(facts.starts, present.changed_at, files=bool(present.live)):
        return Verdict.ADOPT, "was created; the containers that use it started with it"
    return None


def _assess_recreated_immutable(
    consumer: Consumer, present: SourceSnapshot, facts: Facts
) -> tuple[Verdict, str]:
    """Rule 7: a kubelet serves the old content while any pod on its node uses the source."""
    what = "was immutable and has been recreated"
    if consumer.has_no_pods:
        return Verdict.ADOPT, f"{what}; no pods use it"
    if consumer.key.kind in ("DaemonSet", "StatefulSet"):  # they delete a pod before its successor
        if facts.starts is None:
            return Verdict.CHECK_PODS, f"{what}: checking when its pods started"
        if proven_younger(facts.starts, present.changed_at, files=bool(present.live)):
            return Verdict.ADOPT, f"{what}; all pods started after that"
    return (
        Verdict.HOLD,
        f"{what}; kubelets serve the old content to new pods while any pod on the node uses it. "
        "Use a new name, or scale to zero first",
    )


def reads_at_start(present: SourceSnapshot, facts: Facts) -> bool:
    """Return whether a change of a source needs containers to restart."""
    return bool(present.frozen) or facts.live_rolls


def _assess_unknown(
    consumer: Consumer, present: SourceSnapshot, facts: Facts
) -> tuple[Verdict, str]:
    """Rule 1; re-read files are updated without an action."""
    what = "is new to hotmap"
    if not facts.catch_up or not present.exists or not reads_at_start(present, facts):
        return Verdict.ADOPT, f"{what}: now tracking"
    if facts.writing is not Writing.REVISION and shows_present(consumer, present, facts):
        return Verdict.ADOPT, f"{what}, and the pod template carries its current revision"
    if consumer.rolling and facts.waited < ROLLOUT_PATIENCE:
        return Verdict.WAIT, f"{what}, while a rollout is in progress"
    if facts.starts is None:
        return Verdict.CHECK_PODS, f"{what}: checking when its pods started"
    if proven_younger(facts.starts, present.changed_at, files=bool(present.live)):
        return Verdict.ADOPT, f"{what}, and all pods started after the last change"
    return (
        Verdict.FROZEN,
        f"{what}, and some pods may have started before the last change",
    )


def _is_older(present: SourceSnapshot, asked: SourceRecord) -> bool:
    """Rule 2; versions of one object may be compared as numbers (KEP-5504), others never."""
    if not present.exists or present.uid != asked.uid:
        return False
    now, before = parse_number(present.resource_version), parse_number(asked.resource_version)
    return now is not None and before is not None and now < before


def _was_waited_for(uses: Sequence[Use]) -> bool:
    """Return whether every container that uses a source had to wait until it existed.

    A container waits for its own environment, the whole pod for volumes and init containers.
    """
    insisting = [use for use in uses if not use.optional]
    if any(use.init or use.kind is UseKind.LIVE for use in insisting):
        return True
    return {use.container for use in insisting} == {use.container for use in uses}


def _assess_deleted(
    present: SourceSnapshot, asked: SourceRecord, facts: Facts
) -> tuple[Verdict, str]:
    if present.required:
        return (
            Verdict.UP_TO_DATE,
            "was deleted; running pods keep their content, new pods cannot start",
        )
    if present.live != asked.live and not facts.live_rolls:
        return Verdict.LIVE, "was deleted; it is optional, so its files are removed"
    return (
        Verdict.UP_TO_DATE,
        "was deleted; it is optional, and running containers keep what they read",
    )


_READ_AT_START = "changed"
_NOT_REREAD = "changed in mounted files"


def _assess_frozen_change(
    consumer: Consumer, record: Record, present: SourceSnapshot, facts: Facts, what: str
) -> tuple[Verdict, str]:
    """Rules 0, 5 and 6: a change that needs containers to restart."""
    if already_applied(consumer, present, facts):
        return Verdict.ADOPT, "is already in the pod template"
    if consumer.generation == record.generation or consumer.key.kind == "CronJob":
        return Verdict.FROZEN, what  # an edit of a CronJob starts no pods
    if consumer.generation < record.generation and facts.waited < ROLLOUT_PATIENCE:
        return Verdict.WAIT, f"{what}, while the watch lags behind hotmap's own rollout"
    if consumer.rolling and facts.waited < ROLLOUT_PATIENCE:
        return Verdict.WAIT, f"{what}, while another rollout is in progress"
    if facts.starts is None:
        return (
            Verdict.CHECK_PODS,
            f"{what}, and so did the workload: checking when its pods started",
        )
    after_template = present.source in facts.before_template and not consumer.rolling
    if after_template and made_since(facts.starts, facts.template_at):
        return Verdict.ADOPT, f"{what}, and all pods were created after that"
    if proven_younger(facts.starts, present.changed_at, files=bool(present.live)):
        return Verdict.ADOPT, f"{what}, and all pods started after that"
    return Verdict.FROZEN, f"{what}, and some pods may have started before that"


def already_applied(consumer: Consumer, present: SourceSnapshot, facts: Facts) -> bool:
    """Rule 0: a crash between the patch and the record.

    An undo can restore an old revision, so the revision alone proves nothing: our field manager
    must have written at or after the change. Both times are the API server's. If an Argo Rollout's
    restartAt is after the change, all its pods were replaced.
    """
    if present.changed_at is None:
        return False
    restart_at = consumer.argo.restart_at if consumer.argo else None
    if restart_at is not None and present.changed_at < restart_at <= facts.now + MARGIN:
        return True
    return (
        shows_present(consumer, present, facts)
        and consumer.written_at is not None
        and consumer.written_at >= floor(present.changed_at)
    )


def _has_overlooked(
    consumer: Consumer, record: Record, present: SourceSnapshot, facts: Facts
) -> bool:
    """Rule 3: return whether we applied other content than the current one since the record.

    This happens after a crash between the patch and the record, followed by a return to the
    recorded content. Then the template has a revision that is not in the record, with the same key
    and written by us (an undo would take the annotation over).
    """
    before, _, _ = consumer.revision.partition(".")
    key_id, _, _ = facts.revision.partition(".")
    return (
        bool(present.frozen or facts.live_rolls)
        and before == key_id
        and consumer.revision != record.revision
        and content_of(consumer.revision) != facts.revision
        and consumer.written_at is not None
        and consumer.generation != record.generation
    )


def shows_present(consumer: Consumer, present: SourceSnapshot, facts: Facts) -> bool:
    """Return whether the template has the revision of the current content."""
    if facts.writing is Writing.REVISION:
        return content_of(consumer.revision) == facts.revision
    return carries(consumer.traces, Stamp(present.source, present.stamp), facts.writing)


def listed(names: Sequence[str], most: int = 3) -> str:
    """Write the first of some names, and how many more there are."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
