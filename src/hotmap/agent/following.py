"""A rule at work: the files that it is about, how far it has come, and what it has done."""

from __future__ import annotations

from hotmap.agent.detect import selected
from hotmap.agent.processes import ProcessError, find, started_at
from hotmap.agent.settings import FROZEN

__all__ = ["Followed"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from hotmap.agent.decide import Progress
    from hotmap.agent.settings import Rule


class Followed:
    """One rule with its progress and its counts."""

    __slots__ = (
        "attempted_files", "directories", "failures", "files", "loaded_at", "loaded_files", "loads",
        "progress", "rule",
    )  # fmt: skip

    def __init__(self, rule: Rule, directories: tuple[str, ...], progress: Progress) -> None:
        self.rule = rule
        self.progress = progress
        #: Those that the rule is about; none for what goes by an announcement.
        self.directories = () if rule.name == FROZEN else rule.directories or directories
        #: Digests by file: wanted now, in the present attempt, loaded last.
        self.files: dict[str, str] = {}
        self.attempted_files: dict[str, str] = {}
        self.loaded_files: dict[str, str] = {}
        self.loads = self.failures = 0
        self.loaded_at = 0.0

    def choose(self, files: Mapping[str, str]) -> dict[str, str]:
        """Choose the files that the rule is about, of all digests by path."""
        below = {
            path: digest
            for path, digest in files.items()
            if any(path.startswith(f"{root}/") for root in self.directories)
        }
        return {path: below[path] for path in selected(below, self.rule.files, self.directories)}

    def adopt(self) -> None:
        """Take note that the process has loaded what is wanted, without our doing."""
        if self.progress.wanted is not None:
            self.progress.adopt(self.progress.wanted)
            self.loaded_files = self.files

    def loaded_at_start(self) -> bool:
        """Tell whether the process began after its content was there, so that it has read it.

        Both times are since boot: when this agent had the content before it (and had published
        it), and when the kernel counts the start. What lies before our own first look is not
        known, so a process that is older is told once. Rules that restart take it for granted at
        first sight: a restart without a cause would be worse.
        """
        actions = self.rule.actions
        if any(action.kind == "restart" for action in actions):
            return self.progress.tried is None
        targets = {action.target for action in actions if action.kind == "signal"}
        if len(targets) != 1 or any(one.kind not in ("signal", "none") for one in actions):
            return False
        (target,) = targets
        if target == "child":
            return False  # the supervisor says so where it starts it
        try:
            return started_at(find(target)) > self.progress.wanted_since
        except ProcessError:
            return False

    def status(self, now: float) -> dict[str, Any]:
        """Describe it as JSON values; `now` is of the clock that its progress goes by."""
        progress = self.progress
        since = progress.pending_since
        if progress.wanted is None:
            word = "waiting"
        elif not progress.pending:
            word = "loaded"
        else:
            word = "failing" if progress.error else "pending"
        return {
            "name": self.rule.name,
            "state": word,
            "wanted": progress.wanted,
            "loaded": progress.loaded,
            "pending_seconds": round(now - since, 3) if since is not None else 0,
            "attempts_failed": progress.failures,
            "error": progress.error,
            "loads": self.loads,
            "failures": self.failures,
            "loaded_at": round(self.loaded_at, 3),
        }
