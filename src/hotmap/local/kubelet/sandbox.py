"""A container's view of the machine: its own root, in which every mountPath is real.

Runs in a container's first process, inside private mount namespaces, so the host stays untouched
and all of it ends with the processes. `zygote` starts the processes. Two ways to make the root:

* `overlay`: an overlay over each of the host's file systems, changes kept in a tmpfs. The
  container can write anywhere. Needs real root: in a user namespace the kernel refuses to take
  a tree with locked mounts in it as a lower layer.
* `bind`: a tmpfs with the host's directories bound into it read-only. Where a mount point has to
  be made, or where programs usually write (`/tmp`, `/run`, …), the directory is rebuilt as a
  tmpfs that shows the host's entries. Works in an unprivileged user namespace.

This separates pods and keeps the host clean; it is not a security boundary: programs run with the
kubelet's user, on the host's network and devices. Standard library only.
"""

# Runs in forks between namespaces, on paths that have changed their meaning: plain system calls.
# ruff: noqa: PTH102, PTH103, PTH106, PTH109, PTH110, PTH112, PTH114, PTH115
# ruff: noqa: PTH118, PTH120, PTH121, PTH123, PTH211

from __future__ import annotations

import contextlib
import os

from hotmap.local.kubelet import linux

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NotRequired, TypedDict

    class Mount(TypedDict):
        """A path of the host, with all links resolved, as a path of the container."""

        source: str
        target: str
        read_only: bool

    class ContainerSpec(TypedDict):
        """What the zygote needs to start a container; travels as JSON."""

        argv: list[str]
        env: dict[str, str]
        cwd: str
        hostname: str
        mounts: list[Mount]
        user: NotRequired[int | None]
        group: NotRequired[int | None]
        #: Supplementary groups, such as the pod's fsGroup.
        groups: NotRequired[list[int]]
        #: The directory of an image, as the root; "" for the machine's own.
        root: NotRequired[str]
        #: The name of the PID namespace that it shares with others; "" for one of its own.
        processes: NotRequired[str]
        #: The container whose PID namespace it joins, by its number; None for none.
        beside: NotRequired[int | None]


OVERLAY = "overlay"
BIND = "bind"

#: Where the host's root lies inside the new one while the container's tree is being put together.
_HOST = "/.host"
#: Shown apart: the kernel makes their content, and they cannot be a lower layer.
_KERNEL_TREES = ("/proc", "/sys", "/dev")
#: What a container sees of the machine's /dev, where the machine has it.
_DEVICES = (
    "null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "mqueue",
    "fuse", "kvm", "net", "dri",
)  # fmt: skip
_DEVICE_LINKS = (
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
)
#: Directories in which programs expect to be able to write, kept apart from the host's.
_WRITABLE = ("/tmp", "/var/tmp", "/run", "/var/log", "/root")
#: What container runtimes and desktops mount by the hundred, deep in the tree: never programs.
_PASSING = ("tmpfs", "overlay", "nsfs", "proc", "sysfs", "cgroup", "mqueue", "devpts")
_PASSING_DEPTH = 3
#: Never a lower layer: reading a file there can block, or mounts something.
_FOREIGN = ("autofs", "fuse", "nfs", "cifs", "9p", "virtiofs")


def probe_overlay(workspace: str) -> bool:
    """Return whether this process can mount an overlay over the host's root."""
    linux.mount("tmpfs", workspace, fstype="tmpfs", options="mode=755")
    try:
        _mount_overlay("/", workspace)
    except OSError:
        return False
    else:
        linux.unmount(f"{workspace}/root")
        return True
    finally:
        linux.unmount(workspace)


def enter_root(kind: str, workspace: str, mounts: list[Mount], image: str) -> None:
    """Replace the root of this process's own mount namespace by the container's.

    `workspace` is any existing directory; a tmpfs hides it here only. `image` is a directory that
    becomes the root in place of the machine's, under an overlay for whatever kind. The mounts
    appear in the order of their depth, so that one may lie inside another.

    Raises:
        OSError: the kernel refused; the text says which call and which path.
    """
    linux.mount("none", "/", flags=linux.MS_REC | linux.MS_PRIVATE)
    submounts = _host_submounts()
    linux.mount("tmpfs", workspace, fstype="tmpfs", options="mode=755")
    if image:
        _mount_overlay(image, workspace)
        _pivot(f"{workspace}/root")
        _show_name_resolution()
    elif kind == OVERLAY:
        _mount_overlay("/", workspace)
        _pivot(f"{workspace}/root")
        _show_submounts(submounts, workspace)
    else:
        _pivot(workspace)
        _mirror("/", open_to_writes=False)
        for path in _WRITABLE:
            if os.path.isdir(path) and not os.path.islink(path):
                _mirror(path, open_to_writes=True)
    _show_kernel_trees()
    for mount in sorted(mounts, key=lambda mount: mount["target"].rstrip("/").count("/")):
        _bind_volume(mount)
    linux.unmount(_HOST)
    os.rmdir(_HOST)


def _mount_overlay(lower: str, workspace: str) -> None:
    """Mount an overlay over `lower` at `<workspace>/root`, its layers beside it."""
    for name in ("upper", "work", "root"):
        os.makedirs(f"{workspace}/{name}", exist_ok=True)
    # Relative names: the workspace's own path may hold characters that separate options.
    here = os.getcwd()
    os.chdir(workspace)
    try:
        linux.mount(
            "overlay",
            "root",
            fstype="overlay",
            options=f"lowerdir={_escape(lower)},upperdir=upper,workdir=work",
        )
    finally:
        os.chdir(here)


def _escape(path: str) -> str:
    return path.replace("\\", "\\\\").replace(":", "\\:").replace(",", "\\,")


def _pivot(root: str) -> None:
    put_old = root + _HOST
    os.makedirs(put_old, exist_ok=True)
    linux.pivot_root(root, put_old)
    os.chdir("/")


def _host_submounts() -> list[tuple[str, str]]:
    """List (path, file system type) of the mounts below the root that a container may need."""
    found: dict[str, str] = {}
    with open("/proc/self/mountinfo", "rb") as lines:
        for line in lines:
            fields = line.split(b" ")
            # Blanks and the like are written as octal escapes.
            path = os.fsdecode(fields[4].decode("unicode_escape").encode("latin-1"))
            fstype = fields[fields.index(b"-", 6) + 1].decode()
            passing = fstype.startswith(_PASSING) and path.count("/") >= _PASSING_DEPTH
            if path != "/" and not passing and not path.startswith(_KERNEL_TREES):
                found[path] = fstype
    return sorted(found.items())


def _show_submounts(submounts: list[tuple[str, str]], workspace: str) -> None:
    """Show the host's other file systems in an overlay root, each under an overlay of its own."""
    for number, (path, fstype) in enumerate(submounts):
        host = _HOST + path
        if not os.path.lexists(path) or not os.path.lexists(host):
            continue
        try:
            if fstype.startswith(_FOREIGN) or not os.path.isdir(host):
                raise OSError
            layers = f"{_HOST}{workspace}/{number}"
            os.mkdir(layers)
            _mount_overlay(host, layers)
            linux.mount(f"{layers}/root", path, flags=linux.MS_BIND)
        except OSError:
            with contextlib.suppress(OSError):
                _bind_read_only(host, path)


def _show_name_resolution() -> None:
    """Show the machine's files for names, as a runtime does in every image."""
    for path in ("/etc/hosts", "/etc/resolv.conf"):
        with contextlib.suppress(OSError):
            _make_mount_point(path, is_directory=False)
            _bind_read_only(_HOST + path, path)


def _show_devices() -> None:
    """Make a /dev of the container's own, with the usual devices of the machine in it.

    Files that are created there stay in the container (runtime-spec: config-linux.md, Default
    Devices); the machine's own /dev would keep them.
    """
    linux.mount("tmpfs", "/dev", fstype="tmpfs", options="mode=755")
    for name in _DEVICES:
        host, path = f"{_HOST}/dev/{name}", f"/dev/{name}"
        if os.path.islink(host):
            os.symlink(os.readlink(host), path)
        elif os.path.exists(host):
            with contextlib.suppress(OSError):
                _make_mount_point(path, os.path.isdir(host))
                linux.mount(host, path, flags=linux.MS_BIND | linux.MS_REC)
    for name, target in _DEVICE_LINKS:
        os.symlink(target, f"/dev/{name}")


def _show_kernel_trees() -> None:
    for path in _KERNEL_TREES:
        host = _HOST + path
        if not os.path.isdir(host):
            continue
        os.makedirs(path, exist_ok=True)
        if path == "/dev":
            _show_devices()
            continue
        if path == "/proc":
            # Shows the container's own processes. Refused where the host's /proc is masked, as
            # in many containers: then the host's is better than none.
            with contextlib.suppress(OSError):
                linux.mount("proc", path, fstype="proc")
                continue
        linux.mount(host, path, flags=linux.MS_BIND | linux.MS_REC)


def _mirror(directory: str, *, open_to_writes: bool) -> None:
    """Rebuild a directory as a tmpfs of our own that shows the host's entries, read-only.

    The root is a tmpfs already and only gets its entries. Entries that cannot be bound (not
    readable, removed meanwhile) are left out.
    """
    host = os.path.normpath(_HOST + directory)
    if directory != "/":
        mode = "1777" if open_to_writes else "755"
        linux.mount("tmpfs", directory, fstype="tmpfs", options=f"mode={mode}")
    with contextlib.suppress(OSError), os.scandir(host) as entries:
        for entry in entries:
            path = os.path.join(directory, entry.name)
            if path == _HOST or path in _KERNEL_TREES:
                continue
            with contextlib.suppress(OSError):
                _show_entry(entry, path)


def _show_entry(entry: os.DirEntry[str], path: str) -> None:
    if entry.is_symlink():
        os.symlink(os.readlink(entry.path), path)
        return
    if entry.is_dir():
        os.mkdir(path)
    else:
        _touch(path)
    _bind_read_only(entry.path, path)


def _bind_read_only(source: str, target: str) -> None:
    linux.mount(source, target, flags=linux.MS_BIND | linux.MS_REC)
    linux.make_read_only(target)


def _bind_volume(mount: Mount) -> None:
    source, target = _HOST + mount["source"], mount["target"]
    is_directory = os.path.isdir(source)
    try:
        _make_mount_point(target, is_directory)
    except OSError:
        if not _open_parent(target):
            raise
        _make_mount_point(target, is_directory)
    linux.mount(source, target, flags=linux.MS_BIND | linux.MS_REC)
    if mount["read_only"]:
        linux.make_read_only(target)


def _make_mount_point(path: str, is_directory: bool) -> None:
    if os.path.exists(path):
        return
    # A link that leads nowhere, such as to a file that a service makes, gets what it leads to.
    path = os.path.realpath(path)
    if is_directory:
        os.makedirs(path)
    else:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        _touch(path)


def _open_parent(path: str) -> bool:
    """Rebuild the nearest existing parent of `path` if it is the host's; return whether it was."""
    parent = os.path.dirname(os.path.normpath(path))
    while not os.path.isdir(parent):
        parent = os.path.dirname(parent)
    parent = os.path.realpath(parent)
    if not os.path.isdir(_HOST + parent) or not os.path.samefile(_HOST + parent, parent):
        return False
    _mirror(parent, open_to_writes=False)
    return True


def _touch(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644))
