"""The few Linux system calls that Python 3.11 does not offer, as plain functions.

`sandbox` and `zygote` combine them. Standard library only, and
cheap to import: the zygote and each container's first process use this module.
"""

from __future__ import annotations

import ctypes
import os

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MS_SLAVE = 0x80000
MNT_DETACH = 0x2

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_MOUNT_ATTR_RDONLY = 0x1
# The same number on every architecture, as for all calls since Linux 5.1.
_SYS_MOUNT_SETATTR = 442

_libc = ctypes.CDLL(None, use_errno=True)


class _MountAttributes(ctypes.Structure):
    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns", ctypes.c_uint64),
    )


def unshare(flags: int) -> None:
    """Move the calling process into new namespaces; the PID one takes effect at its next fork."""
    _check(_libc.unshare(flags), "unshare")


def setns(fd: int, flags: int) -> None:
    """Join namespaces of the process behind a pidfd, or the one namespace behind `fd`."""
    _check(_libc.setns(fd, flags), "setns")


def mount(
    source: str, target: str, *, fstype: str | None = None, flags: int = 0, options: str = ""
) -> None:
    """Call mount(2); the names are as the calling process sees them."""
    result = _libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        fstype.encode() if fstype else None,
        ctypes.c_ulong(flags),
        os.fsencode(options) if options else None,
    )
    _check(result, f"mount {fstype or source} on {target}")


def make_read_only(target: str) -> None:
    """Make a mount, and on Linux 5.12 or newer the mounts inside it, read-only."""
    attributes = _MountAttributes(set=_MOUNT_ATTR_RDONLY)
    result = _libc.syscall(
        ctypes.c_long(_SYS_MOUNT_SETATTR),
        ctypes.c_int(_AT_FDCWD),
        os.fsencode(target),
        ctypes.c_uint(_AT_RECURSIVE),
        ctypes.byref(attributes),
        ctypes.c_size_t(ctypes.sizeof(attributes)),
    )
    if result == 0:
        return
    # An unprivileged remount must repeat the flags that are locked on the mount.
    status = os.statvfs(target).f_flag
    kept = status & (MS_NOSUID | MS_NODEV | MS_NOEXEC)
    mount(target, target, flags=MS_REMOUNT | MS_BIND | MS_RDONLY | kept)


def unmount(target: str) -> None:
    """Detach a mount at once; it is released after its last use."""
    _check(_libc.umount2(os.fsencode(target), MNT_DETACH), f"unmount {target}")


def pivot_root(new_root: str, put_old: str) -> None:
    """Make `new_root`, a mount, the root of the mount namespace, with the old one inside it."""
    _check(_libc.pivot_root(os.fsencode(new_root), os.fsencode(put_old)), "pivot_root")


def die_with_parent() -> None:
    """Ask the kernel to kill this process when the thread that forked it ends."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(9), 0, 0, 0), "prctl")


def rename_process(name: str) -> None:
    """Change the name that the calling process has in lists of processes; 15 bytes at most."""
    _check(_libc.prctl(_PR_SET_NAME, name.encode(), 0, 0, 0), "prctl")


def _check(result: int, call: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
