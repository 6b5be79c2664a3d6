"""The controller's announcement to this pod: the annotation `hotmap.dev/target`, read from a file.

A downwardAPI volume projects the pod's annotations into a file, so no API access is needed.

Fingerprints are keyed with a key that the pod does not have, so they can only be compared for
equality, and each is paired with what was projected with it: evidence "order". Where payload
digests are announced (`core.payload_digest`; one for each volume made of ConfigMaps only), a
directory is compared with them: evidence "exact".

The fingerprints before are those of the content that the pod started with. A pod that is told for
the first time has nothing else to compare with, and would take the change for what it has.
"""

from __future__ import annotations

from hotmap.core.target import TARGET, Target, parse_target
from hotmap.core.value import Value

__all__ = [
    "MATCHED",
    "NONE",
    "NOT_ANNOUNCED",
    "NOT_PROJECTED",
    "Comparison",
    "TargetState",
    "overall_state",
    "parse_announcement",
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class TargetState(Value):
    """How a directory compares with the announcement.

    state: NONE, MATCHED, NOT_PROJECTED or NOT_ANNOUNCED
    evidence: "exact", "order", or "" where nothing is announced
    """

    state: str
    evidence: str


#: Nothing is announced; the files are what is announced; the announcement is newer than the files;
#: the files are newer than the announcement.
NONE, MATCHED = "none", "matched"
NOT_PROJECTED, NOT_ANNOUNCED = "not yet projected", "not yet announced"


def parse_announcement(text: str) -> Target | None:
    """Parse the target in a downwardAPI annotations file; None without one.

    Each line is `key="value"`, the value quoted as Go does (kubernetes: pkg/fieldpath). A target
    contains no character that is escaped.
    """
    for line in text.split("\n"):
        name, _, quoted = line.partition("=")
        if name == TARGET and (target := parse_target(quoted.strip().strip('"'))):
            return target
    return None


def overall_state(states: Iterable[TargetState]) -> str:
    """Summarize the states of all directories: the worst one counts."""
    found = {each.state for each in states}
    for state in (NOT_PROJECTED, NOT_ANNOUNCED, MATCHED):
        if state in found:
            return state
    return NONE


class Comparison:
    """Compares each directory with what is announced."""

    def __init__(self) -> None:
        self._order = _Order()
        #: Directories that a payload digest was announced for, with all digests announced then.
        self._exact: dict[str, frozenset[str]] = {}

    def compare(
        self,
        announcement: Target | None,
        digests: Mapping[str, str],
        payloads: Mapping[str, str],
    ) -> dict[str, TargetState]:
        """Compare, and keep the state that the next comparison needs.

        `digests` and `payloads` are of what each directory holds; no digests while nothing could
        be read. That payload digests are announced for a directory is known once one matched.
        Until then, and always for Secrets, the order is used. Where two directories hold the same,
        one of them may be a Secret's, so that match shows nothing of later ones.
        """
        states = self._order.compare(announcement, digests)
        announced = frozenset(announcement.payloads if announcement else ())
        found = list(payloads.values())
        for directory, payload in payloads.items():
            if payload in announced:
                from hotmap.core.payload_digest import EMPTY  # loaded where payloads are digested

                states[directory] = TargetState(MATCHED, "exact")
                if payload != EMPTY and found.count(payload) == 1:
                    self._exact[directory] = announced
            elif announced and directory in self._exact:
                same = self._exact[directory] == announced
                state = NOT_ANNOUNCED if same else NOT_PROJECTED
                states[directory] = TargetState(state, "exact")
        return states

    @property
    def is_assumed(self) -> bool:
        """Whether it is not known by order that the files are those of the announcement."""
        return self._order.is_assumed


class _Order:
    """Which projected content belongs to which announced live fingerprint.

    An announcement that is read in its turn, while the files are those of the announcement before,
    belongs to the files that come next. The fingerprint covers all directories, so they have come
    when any directory has changed.

    Anything else leaves open what the files are: other content was announced in between and not
    read, or read while its files were missing, or was never announced, for which the controller
    leaves out a number of the sequence; the files changed before the announcement was read,
    so they may be of an edit before it; or the announcement was repeated, so the kubelet has
    synced the pod once more, and no files came, since what changed is in none of the directories.
    Then the files that are there are taken for it, which is not evidence (`is_assumed`).
    """

    def __init__(self) -> None:
        #: What was there before anything was announced.
        self._initial: dict[str, str] | None = None
        #: What was announced last, and whether that was repeated since.
        self._seen: Target | None = None
        self._repeated = False
        #: The fingerprint that files were found for last, these files, and whether that is certain.
        self._live = ""
        self._files: dict[str, str] = {}
        self._certain = False
        #: Whether the files that come next are certainly those of the announcement.
        self._in_turn = False

    @property
    def is_assumed(self) -> bool:
        """Whether it is not known that the files are those of the last announcement."""
        return not self._certain

    def compare(
        self, announcement: Target | None, digests: Mapping[str, str]
    ) -> dict[str, TargetState]:
        if announcement is None or not digests:
            if announcement is None and digests and self._initial is None:
                self._initial = dict(digests)
            return dict.fromkeys(digests, TargetState(NONE, ""))
        if announcement != self._seen:
            self._announce(announcement, dict(digests))
        if announcement.live != self._live:
            if self._files == digests:
                return dict.fromkeys(digests, TargetState(NOT_PROJECTED, "order"))
            self._pair(announcement.live, digests, certain=self._in_turn)
        return {
            directory: TargetState(
                MATCHED if self._files.get(directory) == digest else NOT_ANNOUNCED, "order"
            )
            for directory, digest in digests.items()
        }

    def _announce(self, announcement: Target, files: dict[str, str]) -> None:
        """Take an announcement that was not seen before."""
        seen, self._seen = self._seen, announcement
        if seen is None:
            if not announcement.live_before or self._initial is None:
                self._pair(announcement.live, files, certain=False)
                return
            self._pair(announcement.live_before, self._initial, certain=True)
            seen = announcement._replace(sequence=0, live=announcement.live_before)
        if announcement.live == seen.live:
            self._repeated = True
            if announcement.live != self._live or not self._certain:
                self._pair(announcement.live, files, certain=False)
            return
        self._in_turn = (
            (self._certain or self._repeated)
            and files == self._files
            and seen.live == self._live
            and announcement.sequence == seen.sequence + 1
        )
        self._repeated = False

    def _pair(self, live: str, files: Mapping[str, str], *, certain: bool) -> None:
        self._live, self._files, self._certain = live, dict(files), certain
