"""The processes of this machine, as /proc shows them: no tool has to be installed for that."""

from __future__ import annotations

import contextlib
from pathlib import Path

__all__ = ["children_of", "members_of"]

#: Fields of /proc/PID/stat after the name in parentheses, which may hold anything (proc(5)).
_PARENT, _GROUP = 1, 2


def children_of(pid: int) -> list[int]:
    """List the processes whose parent is `pid`, zombies among them."""
    return _having(_PARENT, pid)


def members_of(group: int) -> list[int]:
    """List the processes of a process group, zombies among them."""
    return _having(_GROUP, group)


def _having(field: int, number: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[field]) == number:
                found.append(int(stat.parent.name))
    return sorted(found)
