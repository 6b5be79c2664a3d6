"""PID namespaces that containers share: `shareProcessNamespace`, and ephemeral containers.

An ephemeral container with a target is in the namespace of that container, and ends with it. With
`shareProcessNamespace` process 1 of the namespace belongs to no container, as with a real kubelet
(KEP-1495, build/pause): it reaps orphans of the containers and does nothing else. It exists as long
as a container of the pod does.

In a namespace of its own a container's processes end with its first one, by the kernel. In a shared
one this module kills them, found by their mount namespace, as runc finds them by their cgroup
(runc: libcontainer, shouldKillOnExit). Runs in the zygote and its forks, with system calls only;
standard library only.
"""

# ruff: noqa: PTH116, PTH208

from __future__ import annotations

import contextlib
import os
import signal

from hotmap.local.kubelet import linux

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

__all__ = ["SharedProcesses", "own_mounts"]

#: Rounds of the search for remaining processes of a container: a fork may escape one round.
_ROUNDS = 20


class SharedProcesses:
    """The shared PID namespaces of one zygote, by the name that their containers give."""

    def __init__(self) -> None:
        self._keepers: dict[str, _Keeper] = {}
        #: Of running containers, by their pidfd: the name, and the mount namespace or 0.
        self._containers: dict[int, tuple[str, int]] = {}
        #: Of containers in the namespace of another one, by their pidfd: the mount namespace or 0.
        self._guests: dict[int, int] = {}

    def enter(self, name: str, home: int) -> None:
        """Put the next fork into the namespace called `name`; `home` is the caller's pidfd."""
        if name not in self._keepers:
            linux.unshare(linux.CLONE_NEWPID)
            try:
                pid = os.fork()
                if pid == 0:
                    _wait_forever()
            finally:
                linux.setns(home, linux.CLONE_NEWPID)
            self._keepers[name] = _Keeper(os.pidfd_open(pid))
        linux.setns(self._keepers[name].pidfd, linux.CLONE_NEWPID)

    def add(self, name: str, container: int, mounts: int) -> None:
        """Count a container, by its pidfd, among those of a namespace.

        `mounts` is its `own_mounts`.
        """
        self._keepers[name].containers += 1
        self._containers[container] = (name, mounts)

    def add_guest(self, container: int, mounts: int) -> None:
        """Count a container, by its pidfd, that runs in the namespace of another one."""
        self._guests[container] = mounts

    def ended(self, container: int) -> None:
        """Kill what an ended container left, and the namespace after its last container."""
        if guest_mounts := self._guests.pop(container, 0):
            _kill_in(guest_mounts)
            return
        name, mounts = self._containers.pop(container, ("", 0))
        if not name:
            return
        keeper = self._keepers[name]
        keeper.containers -= 1
        if keeper.containers == 0:
            signal.pidfd_send_signal(keeper.pidfd, signal.SIGKILL)
            os.close(keeper.pidfd)
            del self._keepers[name]
        elif mounts:
            _kill_in(mounts)


def own_mounts() -> int:
    """Return the number of the mount namespace that the caller is in; 0 where /proc is silent."""
    with contextlib.suppress(OSError):
        return os.stat("/proc/self/ns/mnt").st_ino
    return 0


class _Keeper:
    """Process 1 of a shared namespace, and how many containers are in it."""

    __slots__ = ("containers", "pidfd")

    def __init__(self, pidfd: int) -> None:
        self.pidfd = pidfd
        self.containers = 0


def _wait_forever() -> NoReturn:
    """Run as process 1 of the namespace: reap until killed."""
    try:
        signal.set_wakeup_fd(-1)
        # If it is ignored, the kernel reaps. Other signals do not reach a process 1 that has no
        # handler for them.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        # A wait for the end of a container's output must not wait for this process.
        os.closerange(0, os.sysconf("SC_OPEN_MAX"))
        linux.rename_process("pause")
        while True:
            signal.pause()
    finally:
        os._exit(1)


def _kill_in(mounts: int) -> None:
    """Kill every process of a mount namespace."""
    for _ in range(_ROUNDS):
        running = [number for number in os.listdir("/proc") if number.isdecimal()]
        if not sum(_killed(number, mounts) for number in running):
            return


def _killed(number: str, mounts: int) -> bool:
    """Kill one process if it is in a mount namespace; return whether it is."""
    try:
        # Opened first, so that the signal cannot reach another process with the same number.
        process = os.open(f"/proc/{number}", os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        if os.stat("ns/mnt", dir_fd=process).st_ino != mounts:
            return False
        signal.pidfd_send_signal(process, signal.SIGKILL)
    except OSError:
        return False
    finally:
        os.close(process)
    return True
