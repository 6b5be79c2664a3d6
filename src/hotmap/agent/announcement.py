"""What the controller announced to this pod: the annotation `hotmap.dev/target`, read from a file.

    hotmap.dev/target="<seq>/<live fingerprint>/<frozen fingerprint>[/<payload digest>[.…]]"

A downwardAPI volume shows the pod's annotations as a file, so no API access is needed.

Fingerprints are keyed with a key that the pod does not have. So they are told apart by equality,
and each is paired with what was projected with it: that is *order*. Where payload digests are
announced (`core.payload_digest`; one for each volume that is made of ConfigMaps alone), a directory
is compared with them: that is *exact*.
"""

from __future__ import annotations

from collections import namedtuple

from hotmap.core.payload_digest import EMPTY

__all__ = [
    "ANNOTATION",
    "MATCHED",
    "NONE",
    "NOT_ANNOUNCED",
    "NOT_PROJECTED",
    "Announcement",
    "Comparison",
    "Standing",
    "overall_relation",
    "read_announcement",
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import NamedTuple

    class Announcement(NamedTuple):
        sequence: int
        live: str
        frozen: str
        payloads: tuple[str, ...] = ()

    class Standing(NamedTuple):
        relation: str
        evidence: str

else:
    Announcement = namedtuple("Announcement", "sequence live frozen payloads", defaults=[()])
    Announcement.__doc__ = """What a pod was told to hold; fingerprints are opaque; payloads are
    digests of `core.payload_digest`."""

    Standing = namedtuple("Standing", "relation evidence")
    Standing.__doc__ = """How a directory stands to the announcement: one of the relations below,
    and by which evidence: "exact", "order", or "" where nothing is announced."""

ANNOTATION = "hotmap.dev/target"

#: Nothing is announced; both belong together; the announcement is newer than the files; the files
#: are newer than the announcement.
NONE, MATCHED = "none", "matched"
NOT_PROJECTED, NOT_ANNOUNCED = "not yet projected", "not yet announced"


def read_announcement(text: str) -> Announcement | None:
    """Find the target in the lines of a downwardAPI annotations file; None where there is none.

    Each line is `key="value"`, the value quoted as Go does (kubernetes: pkg/fieldpath). A target
    holds no character that would need it, so one that is escaped is none of ours.
    """
    for line in text.split("\n"):
        name, _, quoted = line.partition("=")
        if name != ANNOTATION:
            continue
        parts = quoted.strip().strip('"').split("/")
        if len(parts) >= 3 and parts[0].isascii() and parts[0].isdecimal():
            payloads = tuple(one for one in "".join(parts[3:4]).split(".") if one)
            return Announcement(int(parts[0]), parts[1], parts[2], payloads)
    return None


def overall_relation(standings: Iterable[Standing]) -> str:
    """Put the standings of all directories into one: whatever is behind hides what is not."""
    relations = {one.relation for one in standings}
    for relation in (NOT_PROJECTED, NOT_ANNOUNCED, MATCHED):
        if relation in relations:
            return relation
    return NONE


class Comparison:
    """How each directory stands to what is announced."""

    def __init__(self) -> None:
        self._order = _Order()
        #: Directories that were found to be announced exactly, with all that was announced then.
        self._exact: dict[str, frozenset[str]] = {}

    def compare(
        self,
        announcement: Announcement | None,
        digests: Mapping[str, str],
        payloads: Mapping[str, str],
    ) -> dict[str, Standing]:
        """Compare, and remember it for the next time.

        `digests` and `payloads` are of what each directory holds; no digests while nothing could
        be read. Whether a directory is among those that payload digests are announced for is known
        once one was found to be the directory's. Until then, and for Secrets always, order decides.
        """
        live = announcement.live if announcement else None
        standings = {
            directory: Standing(relation, "order" if relation != NONE else "")
            for directory, relation in self._order.relations(live, digests).items()
        }
        announced = frozenset(announcement.payloads if announcement else ())
        for directory, payload in payloads.items():
            if payload in announced:
                standings[directory] = Standing(MATCHED, "exact")
                if payload != EMPTY:
                    self._exact[directory] = announced
            elif announced and directory in self._exact:
                first = self._exact[directory] == announced
                standings[directory] = Standing(NOT_ANNOUNCED if first else NOT_PROJECTED, "exact")
        return standings


#: Pairs that are remembered, for edits that are taken back.
_REMEMBERED = 16


class _Order:
    """Which projected content belongs to which announced live fingerprint.

    What is there at first sight is taken to belong together. After that, whichever of the two
    changes first waits for the other. The fingerprint stands for all directories together, so an
    announcement has arrived when any of them holds something that no earlier one was paired with.
    """

    def __init__(self) -> None:
        self._pairs: dict[str, dict[str, str]] = {}
        self._last: str | None = None

    def relations(self, live: str | None, digests: Mapping[str, str]) -> dict[str, str]:
        if live is None or not digests:
            self._last = live
            return dict.fromkeys(digests, NONE)
        known = self._pairs.get(live)
        if known is None:
            if self._pairs and not self._is_new(digests):
                return dict.fromkeys(digests, NOT_PROJECTED)
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
        while len(self._pairs) > _REMEMBERED:
            del self._pairs[next(iter(self._pairs))]
