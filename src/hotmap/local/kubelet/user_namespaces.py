"""User and group IDs of containers on a plane without root, which has one user: who started it.

A container with other IDs runs in a user namespace that maps them to that user. Containers with the
same IDs share one, since the kernel lets a process look at others (by /proc/PID/exe, for example)
only in its own namespace. Runs in the zygote and its forks, with system calls only; standard
library only.
"""

# ruff: noqa: PTH123

from __future__ import annotations

import errno
import os
import socket

from hotmap.local.kubelet import linux
from hotmap.local.kubelet.error_text import error_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

__all__ = ["UserNamespaces", "enter_new_user_namespace", "has_other_users"]

#: Maximum bytes of the message why there is no namespace.
_MAX_ERROR = 2048


class UserNamespaces:
    """The user namespaces of one zygote, by the user and group ID that they map."""

    def __init__(self) -> None:
        self._namespaces: dict[tuple[int, int], int] = {}

    def prepare(self, user: int | None, group: int | None) -> None:
        """Create the namespace that a fork with these IDs will enter.

        A user without a group has the root group (CRI: LinuxContainerSecurityContext).

        Raises:
            OSError: the kernel does not allow it.
        """
        ids = user or 0, group or 0
        if any(ids) and ids not in self._namespaces:
            self._namespaces[ids] = _create(*ids)

    def enter(self, user: int | None, group: int | None) -> None:
        """Move this process into the namespace with these IDs, which was prepared."""
        ids = user or 0, group or 0
        if any(ids):
            linux.setns(self._namespaces[ids], linux.CLONE_NEWUSER)


def has_other_users() -> bool:
    """Return whether this process may take other users and give files to them.

    Root may, unless it is root only of a namespace with one user, as after `unshare -r`.
    """
    if os.geteuid() != 0:
        return False
    try:
        with open("/proc/self/setgroups", encoding="ascii") as file:
            return file.read().strip() == "allow"
    except FileNotFoundError:
        # A kernel without user namespaces.
        return True


def enter_new_user_namespace(user: int, group: int, *, others: int = 0) -> None:
    """Move this process into a user namespace in which its user and group have these IDs.

    `others` are flags of namespaces that belong to it.

    Raises:
        OSError: the kernel does not allow it.
    """
    own_user, own_group = os.geteuid(), os.getegid()
    try:
        linux.unshare(linux.CLONE_NEWUSER | others)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        text = "the limit of user namespaces is reached (sysctl user.max_user_namespaces)"
        raise OSError(error.errno, text) from None
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {own_user} 1"),
        ("gid_map", f"{group} {own_group} 1"),
    ):
        try:
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
        except OSError as error:
            raise OSError(error.errno, f"write {name}: {error.strerror}") from None


def _create(user: int, group: int) -> int:
    """Return a descriptor of a new namespace, which exists as long as that is open."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            pid = os.fork()
            if pid == 0:
                _send_new_namespace(theirs, user, group)
        message, fds, flags, _ = socket.recv_fds(ours, _MAX_ERROR, 1)
        os.waitpid(pid, 0)
    if not fds:
        # The kernel drops a descriptor for which there is no room.
        why = os.strerror(errno.EMFILE) if flags & socket.MSG_CTRUNC else message.decode()
        raise OSError(f"run as user {user} and group {group}: {why}")
    os.set_inheritable(fds[0], False)
    return fds[0]


def _send_new_namespace(receiver: socket.socket, user: int, group: int) -> NoReturn:
    try:
        enter_new_user_namespace(user, group)
        namespace = os.open("/proc/self/ns/user", os.O_RDONLY)
        socket.send_fds(receiver, [b"-"], [namespace])
    except OSError as error:
        receiver.send(error_text(error).encode()[:_MAX_ERROR])
    finally:
        os._exit(0)
