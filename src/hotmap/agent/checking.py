"""Gives a verdict on content: built-in checks first, then the check commands on a copy.

One check at a time; the copy is made in a directory of our own and is gone when the agent ends.
"""

from __future__ import annotations

import os

from hotmap.agent.check import complaint, fill, remove_copy, work_directory, write_copy

__all__ = ["Checker"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from hotmap.agent.children import Children, Outcome
    from hotmap.agent.detect import Snapshot
    from hotmap.agent.settings import Settings

    Done = Callable[[str, str], None]


class Checker:
    """Runs checks; a verdict is `passed`, `refused` or, when there was none, `trouble`."""

    def __init__(self, children: Children, settings: Settings) -> None:
        self._children = children
        self._settings = settings
        self._work = ""

    def check(self, snapshot: Snapshot, done: Done) -> None:
        """Check content; `done` gets the verdict and what was wrong, now or from the loop."""
        error = complaint(snapshot.contents, self._settings.bounds)
        if error:
            done("refused", error)
        elif self._settings.checks:
            self._check_copy(snapshot, done)
        else:
            done("passed", "")

    def close(self) -> None:
        """Remove what checks left."""
        if self._work:
            remove_copy(self._work)
            os.rmdir(self._work)
            self._work = ""

    def _check_copy(self, snapshot: Snapshot, done: Done) -> None:
        self._work = self._work or work_directory(self._settings.work)
        if not self._work:
            done("trouble", "no place for a copy to check: give a writable --work-dir")
            return
        try:
            remove_copy(self._work)
            contents = [snapshot.contents[one] for one in self._settings.directories]
            copies = write_copy(self._work, contents)
        except OSError as error:
            reason = (error.strerror or "").lower()
            done("trouble", f"no copy to check can be made: {reason}")
            return
        self._run(copies, 0, done)

    def _run(self, copies: list[str], number: int, done: Done) -> None:
        if number == len(self._settings.checks):
            done("passed", "")
            return
        check = self._settings.checks[number]

        def checked(outcome: Outcome) -> None:
            output = outcome.output
            for directory, copy in zip(self._settings.directories, copies, strict=True):
                output = output.replace(copy, directory)
            if outcome.late:
                done("trouble", f"the check did not end within {check.seconds:g} s")
            elif outcome.status in (126, 127) or outcome.status >= 128:
                done("trouble", f"the check could not run: {output or outcome.status}")
            elif outcome.status:
                done("refused", output or f"the check ended with status {outcome.status}")
            else:
                self._run(copies, number + 1, done)

        words = fill(check.command, copies)
        self._children.command(words, seconds=check.seconds, done=checked)
