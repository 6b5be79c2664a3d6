"""How far each directory has come: announced, projected, good, loaded. Knows no clock and no files.

    projected   what the last reading found
    good        what passed its check last
    loaded      what every rule that looks at the directory has made its process load

Digests are this agent's own (`digest`), so they can be shown and compared with nothing else.
"""

from __future__ import annotations

from hotmap.agent.announcement import NONE, Comparison, Standing, overall_relation

__all__ = ["Directories"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from hotmap.agent.announcement import Announcement
    from hotmap.agent.detect import Snapshot


class Directories:
    """All watched directories and their standing."""

    def __init__(self, directories: Iterable[str]) -> None:
        self._rows = {directory: _Row() for directory in directories}
        self._announcement: Announcement | None = None
        self._payloads: dict[str, str] = {}
        self._comparison = Comparison()

    def announce(self, announcement: Announcement) -> None:
        """Take note of what was announced."""
        self._announcement = announcement
        self._compare()

    def project(self, snapshot: Snapshot, now: float) -> None:
        """Take note of what was read."""
        for directory, row in self._rows.items():
            row.projected = snapshot.directories[directory]
            row.note(now)
        self._payloads = snapshot.payloads
        self._compare()

    def pass_check(self, snapshot: Snapshot) -> None:
        """Take note of what passed its check."""
        for directory, row in self._rows.items():
            row.good = snapshot.directories[directory]

    def load(self, pending: Iterable[str], now: float) -> None:
        """Take note that what is good is loaded, but for directories that a rule still works on."""
        waiting = set(pending)
        for directory, row in self._rows.items():
            if directory not in waiting and row.good is not None:
                row.loaded = row.good
                row.note(now)

    @property
    def all_loaded_once(self) -> bool:
        """Whether every directory has been loaded at some time."""
        return all(row.loaded is not None for row in self._rows.values())

    @property
    def announcement(self) -> Announcement | None:
        """What was announced last."""
        return self._announcement

    @property
    def relation(self) -> str:
        """How all of them together stand to the announcement."""
        return overall_relation(row.standing for row in self._rows.values())

    def status(
        self, now: float, about: Mapping[str, Mapping[str, Any]], errors: Mapping[str, str]
    ) -> list[dict[str, Any]]:
        """Describe them as JSON values, each with what is known `about` it and its last error."""
        return [
            {
                "directory": directory,
                **about[directory],
                "target": row.standing.relation,
                "evidence": row.standing.evidence,
                "projected": row.projected,
                "good": row.good,
                "loaded": row.loaded,
                "pending_seconds": round(now - row.since, 3) if row.since is not None else 0,
                "error": errors.get(directory, ""),
            }
            for directory, row in self._rows.items()
        ]

    def _compare(self) -> None:
        digests = {d: row.projected for d, row in self._rows.items() if row.projected is not None}
        standings = self._comparison.compare(self._announcement, digests, self._payloads)
        for directory, standing in standings.items():
            self._rows[directory].standing = standing


class _Row:
    """One directory."""

    __slots__ = ("good", "loaded", "projected", "since", "standing")

    def __init__(self) -> None:
        self.projected: str | None = None
        self.good: str | None = None
        self.loaded: str | None = None
        #: Since when it has held something that is not loaded.
        self.since: float | None = None
        self.standing = Standing(NONE, "")

    def note(self, now: float) -> None:
        if self.projected == self.loaded:
            self.since = None
        elif self.since is None:
            self.since = now
