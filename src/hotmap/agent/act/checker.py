"""Checks content: the built-in checks first, then the check commands on a copy.

One check at a time; the copy is made in a directory of our own, which is removed when the agent
exits.
"""

from __future__ import annotations

import os
import signal

from hotmap.agent.decide.content_checks import find_error
from hotmap.agent.decide.facts import ERROR, PASSED, REFUSED
from hotmap.agent.process.process_table import CHECK_MARK
from hotmap.agent.runtime.program_output import describe_exit_status, mark_output
from hotmap.core.errors import os_reason

__all__ = ["Checker"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hotmap.agent.act.check_copy import WorkDirectory
    from hotmap.agent.decide.snapshot import Snapshot
    from hotmap.agent.process.child_processes import ChildProcesses, Outcome
    from hotmap.agent.settings.settings import CheckSettings

    Done = Callable[[str, str, int | None], None]

#: Exit statuses with which a shell says that it could not start a program, or 128+n that signal n
#: ended it. Larger ones are the checker's own: `sshd -t` and `php -l` refuse with 255.
_STATUSES_OF_NO_CHECK = {126, 127, *range(129, 128 + signal.NSIG)}


class Checker:
    """Runs checks; a result is PASSED, REFUSED or, when a check itself failed, ERROR."""

    def __init__(
        self, children: ChildProcesses, settings: CheckSettings, directories: Sequence[str]
    ) -> None:
        """`directories`: in the order of {dir}, {dir2} …"""
        self._children = children
        self._settings = settings
        self._directories = directories
        self._work: WorkDirectory | None = None

    def remove_remains(self) -> None:
        """Remove copies that were left by an agent that was killed."""
        if self._settings.commands:
            from hotmap.agent.act.check_copy import remove_left_directories

            remove_left_directories(self._settings.work_directory)

    def check(self, snapshot: Snapshot, done: Done) -> None:
        """Check content; `done` gets the result, the error and the exit status of a command
        that did not pass, now or from the loop.
        """
        error = find_error(snapshot.contents, self._settings.limits)
        if error:
            done(REFUSED, error, None)
        elif self._settings.commands:
            self._check_copy(snapshot, done)
        else:
            done(PASSED, "", None)

    def close(self) -> None:
        """Remove what checks left."""
        if self._work is not None:
            self._work.remove()
            self._work = None

    def _check_copy(self, snapshot: Snapshot, done: Done) -> None:
        from hotmap.agent.act.check_copy import (  # many agents have no command
            fill_placeholders,
            work_places,
        )

        places = work_places(self._settings.work_directory)
        try:
            copies = self._copy(snapshot, places)
        except OSError as error:
            done(
                ERROR,
                f"cannot write a copy to check in {' or '.join(places)}: "
                f"{os_reason(error)}; set --work-dir to a directory with "
                "enough space that the agent may write, such as an emptyDir",
                None,
            )
            return
        commands = [fill_placeholders(command, copies) for command in self._settings.commands]
        self._run(commands, copies, done)

    def _copy(self, snapshot: Snapshot, places: Sequence[str]) -> list[str]:
        """Copy content to where the last copy was, or else to the first place with enough space.

        Raises:
            OSError: no place can be written; that of the last one.
        """
        from hotmap.agent.act.check_copy import make_work_directory, write_copies

        contents = [snapshot.contents[directory] for directory in self._directories]
        failed: OSError | None = None
        for place in ("", *places):
            if not place and self._work is None:
                continue
            try:
                if self._work is None:
                    self._work = make_work_directory(place)
                self._work.clear()
                return write_copies(self._work.path, contents)
            except OSError as error:
                self.close()
                failed = error
        assert failed is not None
        raise failed

    def _run(self, commands: list[list[str]], copies: list[str], done: Done) -> None:
        if not commands:
            done(PASSED, "", None)
            return
        words, *others = commands
        timeout = self._settings.timeout

        def checked(outcome: Outcome) -> None:
            output = outcome.output
            for number in reversed(range(len(copies))):  # …/10 before …/1, which it begins with
                output = output.replace(copies[number], self._directories[number])
            if outcome.timed_out:
                done(ERROR, f"check timed out after {timeout:g}s", None)
            elif not outcome.started:
                done(ERROR, f"check could not run: {output}", outcome.status)
            elif outcome.status in _STATUSES_OF_NO_CHECK:
                status = describe_exit_status(outcome.status)
                instead = f"check could not run: {words[0]} ended with {status}"
                text = mark_output(output and f"check could not run: {output}", instead)
                done(ERROR, text, outcome.status)
            elif outcome.status and _may_not_bind(output):
                instead = "check could not run: it may not bind a port below 1024 here"
                done(ERROR, mark_output(f"{instead}: {output}", instead), outcome.status)
            elif outcome.status:
                instead = f"check failed with exit status {outcome.status}"
                done(REFUSED, mark_output(output, instead), outcome.status)
            else:
                self._run(others, copies, done)

        environment = {**os.environ, CHECK_MARK: "1"}
        self._children.run_command(words, seconds=timeout, done=checked, environment=environment)


def _may_not_bind(output: str) -> bool:
    """Return whether a checker failed to bind a port, which does not depend on the content.

    nginx -t binds the addresses that it listens on (nginx: ngx_open_listening_sockets).
    """
    return "bind() to " in output and "(13: Permission denied)" in output
