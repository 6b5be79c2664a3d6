"""Facts about the machine under the test bed: rights, disk, ports, cgroups, the cache folder.

Reads only. What changes the machine is in `packages.py` and `network.py`.
"""

import os
import shutil
import socket
from collections.abc import Iterable
from pathlib import Path

from tests.cluster.errors import TestBedError

GIB = 2**30
CGROUPS = Path("/sys/fs/cgroup")
# The version 1 controllers without which the kubelet does not start
# (kubernetes: pkg/kubelet/cm/container_manager_linux.go, validateSystemRequirements).
CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory")


def cache_folder() -> Path:
    """Return where programs, packages and images are kept: `HOTMAP_TESTBED` or the user's cache."""
    chosen = os.environ.get("HOTMAP_TESTBED")
    if chosen:
        return Path(chosen).absolute()
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "hotmap" / "testbed"


def is_root() -> bool:
    """Return whether this process may mount, make network namespaces and install packages."""
    return os.geteuid() == 0


def cgroup_version(root: Path = CGROUPS) -> int:
    """Return 2 for the unified cgroup hierarchy, 1 for one folder per controller.

    Raises:
        TestBedError: no usable hierarchy is mounted, so that a kubelet cannot start.
    """
    if (root / "cgroup.controllers").exists():
        return 2
    missing = [name for name in CONTROLLERS if not (root / name).is_dir()]
    if missing:
        raise TestBedError(
            f"The kubelet needs cgroups: {root} has neither version 2 (cgroup.controllers)"
            f" nor the version 1 controllers {', '.join(missing)}; mount them,"
            " or use --no-node."
        )
    return 1


def require_disk(folder: Path, gib: float, purpose: str) -> None:
    """Check that `gib` GiB are free where `folder` is or will be.

    Raises:
        TestBedError: there is less; the message names the folder and both figures.
    """
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free / GIB
    if free < gib:
        raise TestBedError(
            f"The disk is too full {purpose}: {existing} has {free:.1f} GiB free and {gib:g} GiB"
            " are needed; free some, or set HOTMAP_TESTBED to a folder on a larger disk."
        )


def used_ports(ports: Iterable[int]) -> list[int]:
    """List those of `ports` on which a process already listens on this machine."""
    return [port for port in ports if not _can_listen(port)]


def free_base_port(count: int, *, start: int = 17000) -> int:
    """Find a port from which `count` ports in a row are free at this moment."""
    for base in range(start, 30000, 20):
        if not used_ports(range(base, base + count)):
            return base
    raise TestBedError(f"No {count} free ports in a row between {start} and 30000.")


def _can_listen(port: int) -> bool:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("", port))
        except OSError:
            return False
    return True
