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

from collections.abc import Sequence

from hotmap.core.decide.assessment import CHANGED, Assessment, Facts, Finding, Verdict
from hotmap.core.decide.evidence import MARGIN, started_within
from hotmap.core.decide.snapshot import SourceSnapshot, content_of
from hotmap.core.decide.source_rules import (
    ROLLOUT_PATIENCE,
    assess_source,
    listed,
    shows_present,
)
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.state import Record, records_by_source

__all__ = ["assess"]

#: Seconds within which a window's two margins and the truncated second at its end would overlap.
_LATELY = 2 * MARGIN + 2


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
        assess_source(consumer, record, known.get(p.source.kind_and_name), p, facts)
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
        shows_present(consumer, f.present, facts) for f in findings if f.verdict is Verdict.FROZEN
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
            f._replace(verdict=Verdict.HOLD) if f.verdict in CHANGED else f for f in findings
        )
        return Assessment(Verdict.HOLD, blocked, held)
    return Assessment(Verdict.FROZEN, reason, tuple(findings), distinct)


def _first(findings: Sequence[Finding]) -> Verdict:
    there = {finding.verdict for finding in findings}
    return next((verdict for verdict in _URGENCY if verdict in there), Verdict.FRESH)


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
        reason = f"{listed(pods)} started while other content was current"
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
            missing = listed(present.missing)
            return (
                f"{present.source} lacks {missing}, which is not optional: new pods could not start"
            )
    return ""
