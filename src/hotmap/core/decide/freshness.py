"""Is a consumer behind its sources? The rules, in the order in which they are asked.

What was last asked for (the record) is held against what is there now (the present). Watch
events play no part, so downtime, failover, lost watches and recreated objects all converge.

    0  the template already carries the present revision, written by us after the change → asked
    1  nothing is known of a source (no record, key lost, other uses)     → adopt; with catch-up,
       look at the pods first and act unless they are proven younger
    2  the source's resourceVersion is smaller than the one asked for     → wait: a stale store
    3  equal                                                              → fresh, unless a pod
       started while the content was another one: then frozen change, under a name of its own.
       Too early to tell → do what the rest says, count nothing as asked, look again.
       Equal to what a record says that a crash kept from noting our last rollout → as rule 6
    4  only what is in live use differs                                   → live change
    5  what is in frozen use differs, generation as vouched for           → frozen change
    6  … and the generation moved on → wait for the consumer's own rollout, then look at the pods:
       proven younger → adopt, or created since its template was seen to change, and that after
       the source. Else frozen change
    7  the source was immutable and is another object now → hold: kubelets go on serving the old
       while a pod uses it. Pods of a kind that deletes before it creates end the hold
    8  the source is used in another way than before: unchanged as a whole → adopt, else as rule 6.
       It is new to a template that changed → look at the pods: one started before → frozen change
    9  the source is not visible (no right, a selector) → nothing is concluded, nothing recorded

Besides these: a source that is gone, or lost a data key that is not optional, changes nothing by
itself (running pods keep what they have, new ones could not start); a deleted optional source
empties its files, which is a live change for those who re-read them, and leaves what was read at
start as it is. A source that was waited for changes nothing when it appears, unless containers
were running then already.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from math import floor
from typing import NamedTuple

from hotmap.core.decide.evidence import (
    MARGIN,
    PodStart,
    made_since,
    proven_younger,
    started_before,
    started_within,
)
from hotmap.core.decide.snapshot import SourceSnapshot, content_of
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.references import Use, UseKind
from hotmap.core.model.state import Record, SourceRecord, Window, records_by_source
from hotmap.core.reloader.annotations import Writing
from hotmap.core.reloader.patch import Stamp, carries
from hotmap.core.text import parse_number

__all__ = [
    "ROLLOUT_PATIENCE",
    "Assessment",
    "Facts",
    "Finding",
    "Verdict",
    "assess",
]

#: Seconds to wait for a consumer's own rollout before its pods are looked at (rule 6).
ROLLOUT_PATIENCE = 60.0

#: Seconds within which a window's two margins and the truncated second at its end would overlap.
_LATELY = 2 * MARGIN + 2


class Verdict(enum.Enum):
    """What the rules say of one source, and of the consumer as a whole."""

    FRESH = "fresh"
    #: Note what is there without acting.
    ADOPT = "adopt"
    #: Come back later; something is about to change.
    WAIT = "wait"
    #: Come back with the pods' starts.
    LOOK = "look"
    LIVE = "live change"
    FROZEN = "frozen change"
    #: Acting would do harm or nothing; a person has to do something.
    HOLD = "hold"


class Facts(NamedTuple):
    """What else the rules need to know of a consumer; times in POSIX seconds."""

    now: float
    #: The revision of the present content; see `revision_of`.
    revision: str
    #: Act on staleness that only evidence shows.
    catch_up: bool = False
    #: Nobody in the pods takes a live change, so it needs new pods as a frozen one does.
    live_rolls: bool = False
    #: How rollouts are written, which is where a template shows what it was asked for.
    writing: Writing = Writing.REVISION
    #: Whether the first appearance of a source, and its deletion, are changes.
    wants_created: bool = True
    wants_deleted: bool = False
    #: Windows in which sources of this consumer held other content, not examined yet.
    windows: tuple[Window, ...] = ()
    #: Seconds since this consumer is waited for (rule 6).
    waited: float = 0.0
    #: Sources whose last change was seen before the consumer's pod template was seen to change,
    #: and when that was.
    before_template: frozenset[ObjectKey] = frozenset()
    template_at: float = 0.0
    #: Sources that a consistent read has confirmed to be older than what was asked for.
    confirmed: frozenset[ObjectKey] = frozenset()
    #: The starts of the consumer's pods, or None when nobody has looked.
    starts: tuple[PodStart, ...] | None = None


class Finding(NamedTuple):
    """The verdict on one source, with its reason in words."""

    present: SourceSnapshot
    verdict: Verdict
    reason: str
    #: Whether the source is older than what was last asked for.
    older: bool = False


class Assessment(NamedTuple):
    """The verdict on a consumer: the most urgent of its findings."""

    verdict: Verdict
    reason: str
    findings: tuple[Finding, ...]
    #: The content returned to a revision whose pods may hold something else: ask under a new name.
    distinct: bool = False
    #: Windows cannot be examined yet: do what the verdict says, count nothing as asked, look again.
    early: bool = False

    def changed(self) -> tuple[Finding, ...]:
        """Select the findings that call for an action."""
        return tuple(f for f in self.findings if f.verdict in _CHANGED)

    def content(self) -> tuple[str, ...]:
        """Name the content that was assessed, and when it changed; equal texts, equal content."""
        return (
            *(f"{f.present.source}|{f.present.frozen}|{f.present.live}" for f in self.findings),
            *(f"{f.present.source}|{f.present.changed_at}" for f in self.changed()),
        )


#: The verdict on a consumer is the first of these that any of its sources has.
_URGENCY = (
    Verdict.WAIT,
    Verdict.FROZEN,
    Verdict.LOOK,
    Verdict.LIVE,
    Verdict.HOLD,
    Verdict.ADOPT,
    Verdict.FRESH,
)

#: Verdicts that call for an action.
_CHANGED = frozenset((Verdict.LIVE, Verdict.FROZEN))

#: Verdicts that leave the pods in place, so that windows have to be examined.
_WITHOUT_NEW_PODS = frozenset((Verdict.LIVE, Verdict.HOLD, Verdict.ADOPT, Verdict.FRESH))


def assess(
    consumer: Consumer, record: Record | None, snapshots: Sequence[SourceSnapshot], facts: Facts
) -> Assessment:
    """Hold what was asked of a consumer against what is there, by the rules above.

    `record` must have been made with the fingerprint key that `presents` were made with; else
    pass None (rule 1). LOOK asks to be called again with `facts.starts`; WAIT to be called later.
    """
    known = records_by_source(record)
    findings = [
        _assess_source(consumer, record, known.get(p.source.kind_and_name), p, facts)
        for p in snapshots
    ]
    verdict = _first(findings)
    reasons = [f.reason for f in findings if f.verdict is verdict]
    reason = "; ".join(reasons) if reasons else "uses no source that it follows"
    if verdict in _WITHOUT_NEW_PODS and record is not None:
        plainly = Assessment(verdict, reason, tuple(findings))
        return _assess_windows(consumer, record, plainly, facts)
    if verdict is not Verdict.FROZEN:
        return Assessment(verdict, reason, tuple(findings))
    # An undo can have brought the present revision back; asking for it again would write nothing.
    distinct = all(
        _shows(consumer, f.present, facts) for f in findings if f.verdict is Verdict.FROZEN
    )
    if facts.starts is not None:
        # Nor would it replace the pods that carry its name still, such as those of a rollout that
        # somebody took back.
        distinct |= any(content_of(start.revision) == facts.revision for start in facts.starts)
    elif record is not None and not distinct and _left_just_now(record, facts):
        return Assessment(
            Verdict.LOOK, f"{reason}; this content was current moments ago", tuple(findings)
        )
    return _new_pods(reason, findings, facts, distinct=distinct)


def _left_just_now(record: Record, facts: Facts) -> bool:
    """Return whether the present revision was left so lately that no window can be examined.

    Whole seconds do not tell a pod that started in between from one that this return starts, so
    a pod that carries the revision now makes the return take a name of its own.
    """
    return any(
        one.revision == facts.revision and facts.now - one.at < _LATELY for one in record.left
    )


def _new_pods(
    reason: str, findings: Sequence[Finding], facts: Facts, *, distinct: bool
) -> Assessment:
    """Conclude that new pods are needed, unless something would keep them from starting."""
    if blocked := _unstartable(findings, facts):
        held = tuple(
            f._replace(verdict=Verdict.HOLD) if f.verdict in _CHANGED else f for f in findings
        )
        return Assessment(Verdict.HOLD, blocked, held)
    return Assessment(Verdict.FROZEN, reason, tuple(findings), distinct)


def _first(findings: Sequence[Finding]) -> Verdict:
    there = {finding.verdict for finding in findings}
    return next((verdict for verdict in _URGENCY if verdict in there), Verdict.FRESH)


def _assess_source(
    consumer: Consumer,
    record: Record | None,
    asked: SourceRecord | None,
    present: SourceSnapshot,
    facts: Facts,
) -> Finding:
    def found(verdict: Verdict, reason: str) -> Finding:
        return Finding(present, verdict, f"{present.source} {reason}")

    if not present.visible:
        return found(Verdict.FRESH, "is not visible to hotmap: nothing is known of it")
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
    if _is_older(present, asked) and present.source not in facts.confirmed:
        reason = "is older in the watch cache than the version applied: waiting"
        return found(Verdict.WAIT, reason)._replace(older=True)
    if (present.frozen, present.live) == (asked.frozen, asked.live):
        if _has_overlooked(consumer, record, present, facts):
            return found(*_assess_frozen_change(consumer, record, present, facts, _READ_AT_START))
        return found(Verdict.FRESH, "is unchanged")
    if not present.exists:
        if facts.wants_deleted and not present.required:
            return found(*_assess_frozen_change(consumer, record, present, facts, "is deleted"))
        return found(*_assess_deleted(present, asked, facts))
    if asked.immutable and asked.uid != present.uid:
        return found(*_assess_recreated_immutable(consumer, present, facts))
    if present.missing:
        return found(
            Verdict.HOLD,
            f"lacks {_listed(present.missing)}, which is not optional: new pods could not start",
        )
    if present.frozen != asked.frozen:
        return found(*_assess_frozen_change(consumer, record, present, facts, _READ_AT_START))
    if facts.live_rolls:
        return found(*_assess_frozen_change(consumer, record, present, facts, _NOT_REREAD))
    return found(Verdict.LIVE, "changed in mounted files")


def _assess_new_use(
    consumer: Consumer, record: Record, present: SourceSnapshot, facts: Facts
) -> tuple[Verdict, str]:
    """Rule 8: the record knows the consumer and not this source, or not with this use.

    Where the generation did not move, the source was not visible before, or hotmap was told to
    follow it only now: first sight, as in rule 1.
    """
    if consumer.generation == record.generation or not _reads_at_start(present, facts):
        return _assess_unknown(consumer, present, facts)
    if not present.exists or not facts.wants_created:
        return _assess_unknown(consumer, present, facts)
    if consumer.rolling and facts.waited < ROLLOUT_PATIENCE:
        return Verdict.WAIT, "is used now, while a rollout is in progress"
    if facts.starts is None:
        return Verdict.LOOK, "is used now: checking when its pods started"
    if started_before(facts.starts, present.changed_at):
        return Verdict.FROZEN, "is used now, and changed after some pods had started"
    return Verdict.ADOPT, "is used now: now tracking"


def _assess_other_uses(
    consumer: Consumer,
    record: Record,
    asked: SourceRecord,
    present: SourceSnapshot,
    facts: Facts,
) -> tuple[Verdict, str]:
    """Rule 8: other data keys, or another kind of use; what is comparable is compared."""
    what = "is used differently than before"
    same_object = asked.uid == present.uid
    same_version = same_object and asked.resource_version == present.resource_version
    if same_version or (asked.content and asked.content == present.content):
        return Verdict.ADOPT, f"{what}: now tracking"
    if not present.exists or not asked.uid:
        return _assess_unknown(consumer, present, facts)
    if not _reads_at_start(present, facts):
        return Verdict.LIVE, f"changed, and {what}"
    return _assess_frozen_change(consumer, record, present, facts, f"changed, and {what}")


def _assess_creation(present: SourceSnapshot, facts: Facts) -> tuple[Verdict, str] | None:
    """Assess a source that did not exist when something was asked; None: as any other change.

    Containers that insist on it start with it, but somebody may have deleted and created it while
    they ran; so their starts decide.
    """
    waited_for = _was_waited_for(present.uses)
    if not waited_for and not _reads_at_start(present, facts):
        return None
    if facts.starts is None:
        return Verdict.LOOK, "was created: checking when its pods started"
    if started_before(facts.starts, present.changed_at):
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
            return Verdict.LOOK, f"{what}: checking when its pods started"
        if proven_younger(facts.starts, present.changed_at, files=bool(present.live)):
            return Verdict.ADOPT, f"{what}; all pods started after that"
    return (
        Verdict.HOLD,
        f"{what}; kubelets serve the old content to new pods while any pod on the node uses it. "
        "Use a new name, or scale to zero first",
    )


def _reads_at_start(present: SourceSnapshot, facts: Facts) -> bool:
    """Return whether a change of a source needs containers to start anew."""
    return bool(present.frozen) or facts.live_rolls


def _assess_unknown(
    consumer: Consumer, present: SourceSnapshot, facts: Facts
) -> tuple[Verdict, str]:
    """Rule 1; what is re-read from files catches up by itself."""
    what = "is new to hotmap"
    if not facts.catch_up or not present.exists or not _reads_at_start(present, facts):
        return Verdict.ADOPT, f"{what}: now tracking"
    if facts.writing is not Writing.REVISION and _shows(consumer, present, facts):
        return Verdict.ADOPT, f"{what}, and the pod template carries its current revision"
    if consumer.rolling and facts.waited < ROLLOUT_PATIENCE:
        return Verdict.WAIT, f"{what}, while a rollout is in progress"
    if facts.starts is None:
        return Verdict.LOOK, f"{what}: checking when its pods started"
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
        return Verdict.FRESH, "was deleted; running pods keep their content, new pods cannot start"
    if present.live != asked.live and not facts.live_rolls:
        return Verdict.LIVE, "was deleted; it is optional, so its files are removed"
    return Verdict.FRESH, "was deleted; it is optional, and running containers keep what they read"


_READ_AT_START = "changed"
_NOT_REREAD = "changed in mounted files"


def _assess_frozen_change(
    consumer: Consumer, record: Record, present: SourceSnapshot, facts: Facts, what: str
) -> tuple[Verdict, str]:
    """Rules 0, 5 and 6: a change that needs containers to start anew."""
    if _already_asked(consumer, present, facts):
        return Verdict.ADOPT, "is already in the pod template"
    if consumer.generation == record.generation or consumer.key.kind == "CronJob":
        return Verdict.FROZEN, what  # an edit of a CronJob starts no pods
    if consumer.rolling and facts.waited < ROLLOUT_PATIENCE:
        return Verdict.WAIT, f"{what}, while another rollout is in progress"
    if facts.starts is None:
        return Verdict.LOOK, f"{what}, and so did the workload: checking when its pods started"
    after_template = present.source in facts.before_template and not consumer.rolling
    if after_template and made_since(facts.starts, facts.template_at):
        return Verdict.ADOPT, f"{what}, and all pods were created after that"
    if proven_younger(facts.starts, present.changed_at, files=bool(present.live)):
        return Verdict.ADOPT, f"{what}, and all pods started after that"
    return Verdict.FROZEN, f"{what}, and some pods may have started before that"


def _already_asked(consumer: Consumer, present: SourceSnapshot, facts: Facts) -> bool:
    """Rule 0: a crash between the patch and the record.

    An undo can bring an old revision back too, so the revision alone proves nothing: our field
    manager must have written at or after the change. Both times are the API server's. Whoever
    set an Argo Rollout's restartAt to a time after the change has had all its pods replaced.
    """
    if present.changed_at is None:
        return False
    restart_at = consumer.argo.restart_at if consumer.argo else None
    if restart_at is not None and present.changed_at < restart_at <= facts.now + MARGIN:
        return True
    return (
        _shows(consumer, present, facts)
        and consumer.written_at is not None
        and consumer.written_at >= floor(present.changed_at)
    )


def _has_overlooked(
    consumer: Consumer, record: Record, present: SourceSnapshot, facts: Facts
) -> bool:
    """Rule 3: tell whether we have asked for other content than the present since the record.

    A crash between the patch and the record, and then the content that the record knows is back.
    The template tells: it carries a revision that the record does not know, under the same key
    and written by us, for an undo takes the annotation over.
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


def _shows(consumer: Consumer, present: SourceSnapshot, facts: Facts) -> bool:
    """Return whether the template says that it was asked for what is present."""
    if facts.writing is Writing.REVISION:
        return content_of(consumer.revision) == facts.revision
    return carries(consumer.traces, Stamp(present.source, present.stamp), facts.writing)


def _assess_windows(
    consumer: Consumer, record: Record, plainly: Assessment, facts: Facts
) -> Assessment:
    """Rule 3's exception: an edit and its revert, with a container that started in between.

    `plainly` is the judgement as far as content goes.
    """
    windows = (*record.windows, *facts.windows)
    concerned = [
        f
        for f in plainly.findings
        if f.verdict is not Verdict.HOLD and (f.present.frozen or facts.live_rolls)
    ]
    if not windows or not concerned:
        return plainly
    came_back = "reverted"
    if consumer.rolling and facts.waited < ROLLOUT_PATIENCE:
        reason = f"{came_back}; re-checking pods when the rollout ends"
        return plainly._replace(reason=reason, early=True)
    if facts.now <= max(window.end for window in windows) + MARGIN:
        # A container that starts now may still read the other content from its kubelet's store.
        reason = f"{came_back}; re-checking pods"
        return plainly._replace(reason=reason, early=True)
    if facts.starts is None:
        return plainly._replace(
            verdict=Verdict.LOOK, reason=f"{came_back}: checking when its pods started"
        )
    if pods := started_within(facts.starts, windows):
        reason = f"{_listed(pods)} started while other content was current"
        findings = [
            f._replace(verdict=Verdict.FROZEN) if f in concerned else f for f in plainly.findings
        ]
        return _new_pods(reason, findings, facts, distinct=True)
    return plainly


def _unstartable(findings: Sequence[Finding], facts: Facts) -> str:
    """Say what would keep new pods from starting, or "" when nothing is known to."""
    for finding in findings:
        present = finding.present
        if not present.exists and present.required and present.visible:
            return f"{present.source} does not exist and is not optional: new pods could not start"
        if present.missing:
            missing = _listed(present.missing)
            return (
                f"{present.source} lacks {missing}, which is not optional: new pods could not start"
            )
    return ""


def _listed(names: Sequence[str], most: int = 3) -> str:
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
