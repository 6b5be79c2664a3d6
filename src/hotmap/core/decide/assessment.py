"""What the freshness rules say of a consumer and of each of its sources."""

from __future__ import annotations

import enum
from typing import NamedTuple

from hotmap.core.decide.evidence import PodStart
from hotmap.core.decide.snapshot import SourceSnapshot
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.state import Window
from hotmap.core.reloader.annotations import Writing

__all__ = ["CHANGED", "Assessment", "Facts", "Finding", "Verdict"]


class Verdict(enum.Enum):
    """What the rules say of one source, and of the consumer as a whole."""

    UP_TO_DATE = "up to date"
    #: Note what is there without acting.
    ADOPT = "adopt"
    #: Come back later; something is about to change.
    WAIT = "wait"
    #: Come back with the pods' starts.
    CHECK_PODS = "check pods"
    LIVE = "live change"
    FROZEN = "frozen change"
    #: Acting would do harm or nothing; a person has to do something.
    HOLD = "hold"


#: Verdicts that call for an action.
CHANGED = frozenset((Verdict.LIVE, Verdict.FROZEN))


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
        return tuple(f for f in self.findings if f.verdict in CHANGED)

    def content(self) -> tuple[str, ...]:
        """Name the content that was assessed, and when it changed; equal texts, equal content."""
        return (
            *(f"{f.present.source}|{f.present.frozen}|{f.present.live}" for f in self.findings),
            *(f"{f.present.source}|{f.present.changed_at}" for f in self.changed()),
        )
