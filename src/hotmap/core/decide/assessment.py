"""The results of the freshness rules for a consumer and for each of its sources."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hotmap.core.decide.evidence import PodStart
from hotmap.core.decide.snapshot import Snapshot
from hotmap.core.decide.source_snapshot import SourceSnapshot
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.state import UNVOUCHED, SourceRecord, Window
from hotmap.core.text import join_names

__all__ = [
    "CHANGED",
    "Assessment",
    "Case",
    "Finding",
    "OtherUse",
    "Verdict",
    "join_findings",
    "join_reasons",
    "join_uses",
    "oldest_use",
]


class Verdict(enum.Enum):
    """The verdict of the rules on one source, and on the consumer as a whole."""

    UP_TO_DATE = "up to date"
    #: Record the current content without acting.
    ADOPT = "adopt"
    #: Decide again later; something is about to change.
    WAIT = "wait"
    #: List the pods and decide again with their starts.
    CHECK_PODS = "check pods"
    #: Look for other pods of the namespace that use the source, and decide again with them too.
    CHECK_OTHERS = "check other pods"
    LIVE = "live change"
    FROZEN = "frozen change"
    #: Acting would do harm or nothing; a user has to act.
    HOLD = "hold"


#: Verdicts that need an action.
CHANGED = frozenset((Verdict.LIVE, Verdict.FROZEN))


class OtherUse(NamedTuple):
    """That pods use a source, beside the running ones of the consumer."""

    #: The oldest one that is not the consumer's own, or one of its own, which terminates.
    pod: str
    #: When the oldest of all was created, POSIX seconds of the API server's clock, cut to whole
    #: seconds.
    created: float
    #: Whether only terminating pods of the consumer use it.
    own: bool = False
    #: Whether the oldest of all is terminating, be it the consumer's own or not.
    ends: bool = False


def oldest_use(use: OtherUse, known: OtherUse | None) -> OtherUse:
    """Return the use by the older of two pods."""
    return use if known is None or use.created < known.created else known


def join_uses(other: OtherUse | None, ending: OtherUse | None) -> OtherUse | None:
    """Join the uses by a pod of another workload, and by an own one that terminates.

    The other workload's is named if there is one: the own one may be gone when that is read.
    """
    if ending is None:
        return other
    if other is None:
        return ending._replace(own=True)
    return oldest_use(other, ending)._replace(pod=other.pod)


class Finding(NamedTuple):
    """The verdict on one source, with its reason."""

    current: SourceSnapshot
    verdict: Verdict
    reason: str
    #: Whether the source is older than the last applied version.
    older: bool = False
    #: Held, since other pods used an immutable source that it replaces: when that was seen, POSIX
    #: seconds of the API server; else 0.
    shared_at: float = 0.0
    #: Seconds until a source that is held, waits or was deleted is to be checked again, if no
    #: change of it or of the consumer announces the end; 0: soon for one that waits, else not.
    recheck_in: float = 0.0
    #: Whether it waits for the consumer's own rollout only.
    awaits_rollout: bool = False
    #: Whether it is an optional source that was deleted; running containers keep what they read.
    deleted: bool = False
    #: Whether a rollout has written its content that was not recorded (rule 0).
    written: bool = False


class Case(NamedTuple):
    """One source of a consumer, with all that the rules compare."""

    snapshot: Snapshot
    current: SourceSnapshot
    #: What the record says of the source; None: it does not have it, or there is none.
    recorded: SourceRecord | None
    #: As for `decide`.
    starts: Sequence[PodStart] | None
    others: Mapping[ObjectKey, OtherUse | None]

    @property
    def recorded_generation(self) -> int:
        """The generation of the consumer that its record vouches for."""
        record = self.snapshot.record
        return UNVOUCHED if record is None else record.generation

    def find(self, verdict: Verdict, reason: str) -> Finding:
        """Make the finding of a verdict; the reason continues a sentence about the source."""
        return Finding(self.current, verdict, f"{self.current.source} {reason}")


class Assessment(NamedTuple):
    """The verdict on a consumer: the most urgent of its findings."""

    verdict: Verdict
    reason: str
    findings: tuple[Finding, ...]
    #: The content returned to a revision whose pods may have other content: use a distinct name.
    distinct: bool = False
    #: Windows cannot be examined yet: act on the verdict, record nothing as applied, check again.
    early: bool = False
    #: Seconds until then, if no change of the consumer announces it; 0: soon.
    recheck_in: float = 0.0
    #: Pods that were created in or after this second have the assessed content, since the template
    #: change that made them came after the last change; POSIX seconds, 0: unknown.
    proven_since: float = 0.0
    #: Whether pods are replaced because they were found to have older content.
    heals: bool = False
    #: Whether a nudge tells agents that content read at start has changed. It does not where that
    #: content is the applied one and only pods are suspected, nor where the applied one is not
    #: known, since it was used in another way.
    announces: bool = True
    #: When sources may have had other content while no controller watched: to be kept with the
    #: record until it is examined, since the next controller knows nothing of it.
    windows: tuple[Window, ...] = ()

    def changed(self) -> tuple[Finding, ...]:
        """Select the findings that need an action."""
        return tuple(f for f in self.findings if f.verdict in CHANGED)


#: Sources that a reason names; a consumer may have a thousand, and its reasons are kept.
_DESCRIBED = 8


def join_reasons(reasons: Sequence[str]) -> str:
    """Join the reasons of the first few sources, and say how many more there are."""
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
