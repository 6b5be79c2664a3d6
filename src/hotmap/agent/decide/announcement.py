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

from hotmap.core.payload_digest import EMPTY
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
        Until then, and always for Secrets, the order is used.
        """
        live = announcement.live if announcement else None
        self._order.start(announcement.live_before if announcement else "")
        states = {
            directory: TargetState(state, "order" if state != NONE else "")
            for directory, state in self._order.compare(live, digests).items()
        }
        announced = frozenset(announcement.payloads if announcement else ())
        for directory, payload in payloads.items():
            if payload in announced:
                states[directory] = TargetState(MATCHED, "exact")
                if payload != EMPTY:
                    self._exact[directory] = announced
            elif announced and directory in self._exact:
                same = self._exact[directory] == announced
                state = NOT_ANNOUNCED if same else NOT_PROJECTED
                states[directory] = TargetState(state, "exact")
        return states

    @property
    def is_assumed(self) -> bool:
        """Whether order is not known: the files were there when the announcement was first seen."""
        return self._order.is_assumed


#: Pairs that are kept, to recognize edits that are reverted.
_KEPT_PAIRS = 16


class _Order:
    """Which projected content belongs to which announced live fingerprint.

    The first announcement and the first content belong together. After that, whichever of the two
    changes first waits for the other. The fingerprint covers all directories, so an announcement
    has arrived when any directory has content that no earlier announcement was paired with.
    """

    def __init__(self) -> None:
        self._pairs: dict[str, dict[str, str]] = {}
        self._last: str | None = None
        #: What was there before anything was announced.
        self._initial: dict[str, str] | None = None
        #: The announcement that was paired with what was there.
        self._assumed: str | None = None

    def start(self, live_before: str) -> None:
        """Pair the content before the first announcement with the fingerprint before it."""
        if live_before and not self._pairs and self._initial is not None:
            self._pairs[live_before] = self._initial

    @property
    def is_assumed(self) -> bool:
        """Whether the last announcement was paired with what was there anyway."""
        return self._last is None or self._last == self._assumed

    def compare(self, live: str | None, digests: Mapping[str, str]) -> dict[str, str]:
        if live is None or not digests:
            self._last = live
            if live is None and digests and self._initial is None:
                self._initial = dict(digests)
            return dict.fromkeys(digests, NONE)
        known = self._pairs.get(live)
        if known is None:
            if self._pairs and not self._is_new(digests):
                return dict.fromkeys(digests, NOT_PROJECTED)
            if not self._pairs:
                self._assumed = live
            self._remember(live, dict(digests))
            return dict.fromkeys(digests, MATCHED)
        if known == digests:
            self._last = live
        behind = NOT_ANNOUNCED if live == self._last else NOT_PROJECTED
        return {
            directory: MATCHED if known.get(directory) == digest else behind
            for directory, digest in digests.items()
        }

    def _is_new(self, digests: Mapping[str, str]) -> bool:
        return dict(digests) not in self._pairs.values()

    def _remember(self, live: str, digests: dict[str, str]) -> None:
        self._pairs[live] = digests
        self._last = live
        while len(self._pairs) > _KEPT_PAIRS:
            del self._pairs[next(iter(self._pairs))]
