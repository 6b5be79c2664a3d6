"""Processes: what hotmap's are started with, and those of this machine, as /proc shows them."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

__all__ = ["child_environment", "children_of", "members_of", "with_modules"]

#: Fields of /proc/PID/stat after the name in parentheses, which may hold anything (proc(5)).
_PARENT, _GROUP = 1, 2


def child_environment(**variables: str) -> dict[str, str]:
    """Return an environment for a controller: PATH and `variables`, nothing of the user's."""
    return {"PATH": os.environ["PATH"], **variables}


def with_modules(folder: Path, **variables: str) -> dict[str, str]:
    """Return this process's environment, and a folder with modules before all others."""
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, **variables}


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
