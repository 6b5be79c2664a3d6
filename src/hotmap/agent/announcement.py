"""What the controller announced to this pod: the annotation `hotmap.dev/target`, read from a file.

    hotmap.dev/target="<seq>/<live fingerprint>/<frozen fingerprint>[/…]"

A downwardAPI volume shows the pod's annotations as a file, so no API access is needed. Live
fingerprints are keyed with a key that the pod does not have; they are told apart by equality, and
each is paired with the digest that was projected with it. So an announcement that comes before
its files, and files that come before their announcement, can be told apart.
"""

from __future__ import annotations

from collections import namedtuple

__all__ = ["ANNOTATION", "Announcement", "Pairing", "read_announcement"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple

    class Announcement(NamedTuple):
        sequence: int
        live: str
        frozen: str

else:
    Announcement = namedtuple("Announcement", "sequence live frozen")
    Announcement.__doc__ = "What a pod was told to hold; fingerprints are opaque."

ANNOTATION = "hotmap.dev/target"


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
            return Announcement(int(parts[0]), parts[1], parts[2])
    return None


#: Pairs that are remembered, for edits that are taken back.
_REMEMBERED = 16


class Pairing:
    """Which projected content belongs to which announced live fingerprint.

    What is there at first sight is taken to belong together. After that, whichever of the two
    changes first waits for the other.
    """

    def __init__(self) -> None:
        self._pairs: dict[str, str] = {}
        self._last: tuple[str | None, str | None] = (None, None)

    def relation(self, live: str | None, digest: str | None) -> str:
        """Say how announcement and content stand to each other, and remember it.

        `none`: nothing is announced; `matched`; `not yet projected`: announced, the files are
        still the old ones; `not yet announced`: the files are newer than the announcement.
        """
        if live is None or digest is None:
            self._last = (live, digest)
            return "none"
        known = self._pairs.get(live)
        before_live, before_digest = self._last
        if known is None:
            first = before_live is None and not self._pairs
            arrived = before_digest is not None and digest not in self._pairs.values()
            if first or arrived:
                self._remember(live, digest)
                return "matched"
            return "not yet projected"
        if known == digest:
            self._last = (live, digest)
            return "matched"
        return "not yet projected" if live != before_live else "not yet announced"

    def _remember(self, live: str, digest: str) -> None:
        self._pairs.pop(live, None)
        self._pairs[live] = digest
        while len(self._pairs) > _REMEMBERED:
            del self._pairs[next(iter(self._pairs))]
        self._last = (live, digest)
