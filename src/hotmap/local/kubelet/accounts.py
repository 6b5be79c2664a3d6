"""Users and groups as the /etc/passwd and /etc/group of a root file system have them."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Account", "find_account", "groups_with"]


class Account(NamedTuple):
    """A user that a root file system knows."""

    name: str
    #: The number of its own group.
    group: int
    home: str


def find_account(root: str, user: int) -> Account | None:
    """Find the user of a number; `root` is "" for the machine's own file system."""
    for fields in _entries(root, "etc/passwd"):
        if len(fields) > 5 and fields[2] == str(user) and fields[3].isdecimal():
            return Account(fields[0], int(fields[3]), fields[5])
    return None


def groups_with(root: str, name: str) -> list[int]:
    """Return the numbers of the groups that name a user as a member."""
    return [
        int(fields[2])
        for fields in _entries(root, "etc/group")
        if len(fields) > 3 and name in fields[3].split(",") and fields[2].isdecimal()
    ]


def _entries(root: str, path: str) -> Iterator[list[str]]:
    with contextlib.suppress(OSError):
        for line in Path(root or "/", path).read_text(errors="replace").splitlines():
            yield line.split(":")
