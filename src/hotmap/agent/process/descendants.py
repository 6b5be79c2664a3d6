"""Descendants of an application that outlive it: found and killed before another instance starts.

A process that starts a session of its own is in no process group that could be killed. As PID 1,
or by `take_orphans`, the agent becomes its parent when the process between them has exited.
"""

from __future__ import annotations

import os
import signal

from hotmap.agent.process.process_table import ProcessError, children_of, has_mark

__all__ = ["COMMAND_MARK", "DescendantKiller"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from hotmap.agent.runtime.loop import Loop

#: Variable in the environment of commands: what they leave running on purpose is spared.
COMMAND_MARK = "HOTMAP_RULE"

#: Seconds between two attempts, and for all of them: a process in an uninterruptible wait cannot be
#: killed.
_INTERVAL, _PATIENCE = 0.005, 5.0


class DescendantKiller:
    """Kills orphans of an application until there are none."""

    def __init__(self, loop: Loop, own: Callable[[], set[int]]) -> None:
        """`own`: numbers of children that are not orphans."""
        self._loop = loop
        self._own = own

    def kill(self, done: Callable[[int], None]) -> None:
        """Kill them and those that become orphans by that; `done` gets how many are left.

        Called at once where there are none.
        """
        self._kill(self._loop.now() + _PATIENCE, done)

    def _kill(self, deadline: float, done: Callable[[int], None]) -> None:
        orphans = self._find()
        if not orphans or self._loop.now() >= deadline:
            done(len(orphans))
            return
        for pid in orphans:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        self._loop.after(_INTERVAL, lambda: self._kill(deadline, done))

    def _find(self) -> list[int]:
        own = self._own()
        try:
            return [
                each.pid
                for each in children_of(os.getpid())
                if each.pid not in own and not has_mark(each.pid, COMMAND_MARK)
            ]
        except (OSError, ProcessError):
            return []
