"""What a node changes on the machine outside the cluster's folder, and putting it back.

`leave` notes how things were before the first change; `clean` compares with that note, so that a
folder or setting which was there before is never touched.
"""

import json
import os
import shutil
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.cluster import machine, network
from tests.cluster.layout import Layout

# Not in the cluster's folder: it is about the machine, and outlives a folder removed by hand.
NOTE = Path("/run/hotmap-testbed-node.json")
KMSG = Path("/dev/kmsg")
# Written by kubelet, containerd and the CNI plugins whatever their flags say.
FOLDERS = (
    "/var/lib/kubelet",
    "/var/log/pods",
    "/var/log/containers",
    "/var/lib/cni",
    "/run/containerd",
)


def leave(layout: Layout) -> None:
    """Change the machine for a node: its address, forwarding, /dev/kmsg; note what was before.

    A note that a lost cluster left is taken over: what it calls "before" still is.
    """
    before = noted() or {
        "absent": sorted({*FOLDERS, str(KMSG)} - set(present([*FOLDERS, str(KMSG)]))),
        "forwarding": network.FORWARDING.read_text().strip(),
    }
    partial = NOTE.with_suffix(".partial")
    partial.write_text(json.dumps({**before, "cluster": str(layout.folder)}))
    partial.rename(NOTE)
    network.add_address()
    network.FORWARDING.write_text("1")
    if not KMSG.exists():  # the kubelet reads the kernel's log for OOM kills, and insists on it
        KMSG.symlink_to("/dev/null")


def clean(layout: Layout) -> None:
    """Put back what `leave` and the node's components have changed for this cluster.

    To be called when nothing of the cluster runs any more.
    """
    unmount_below(layout.folder)
    before = noted()
    if before is None or before["cluster"] != str(layout.folder):
        return
    remove_cgroups()
    network.remove_rules()
    network.remove_address()
    network.FORWARDING.write_text(before["forwarding"])
    for path in map(Path, before["absent"]):
        if path.is_symlink():
            path.unlink()
        else:
            shutil.rmtree(path, ignore_errors=True)
    NOTE.unlink()


def noted() -> dict[str, Any] | None:
    """Return what the machine's present node has noted, None when there is no node.

    `cluster` is its folder, `absent` lists the paths that were not there, `forwarding` is the
    kernel's setting.
    """
    try:
        note: dict[str, Any] = json.loads(NOTE.read_text())
    except FileNotFoundError:
        return None
    return note


def present(paths: list[str]) -> list[str]:
    """List those of `paths` that exist."""
    return [path for path in paths if os.path.lexists(path)]


def cgroups(root: Path = machine.CGROUPS) -> list[Path]:
    """List the kubelet's topmost cgroups: one in version 2, one per controller in version 1."""
    return [path for path in (root / "kubepods", *root.glob("*/kubepods")) if path.is_dir()]


def mounts_below(folder: Path) -> list[str]:
    """List the mount points in a folder, innermost first."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        # Blanks and the like are written in octal (proc(5)).
        point = line.split()[4].encode().decode("unicode_escape")
        if point.startswith(f"{folder}/"):
            found.append(point)
    return sorted(found, reverse=True)


def unmount_below(folder: Path) -> None:
    """Unmount everything in a folder, network namespaces of pods included."""
    if points := mounts_below(folder):
        subprocess.run(["umount", "--lazy", *points], capture_output=True, check=False)


def remove_cgroups(root: Path = machine.CGROUPS) -> None:
    """Remove the kubelet's empty cgroups; killed processes may hold them for a moment."""
    deadline = time.monotonic() + 5
    while tops := cgroups(root):
        for top in tops:
            for parent, _, _ in os.walk(top, topdown=False):
                with suppress(OSError):
                    Path(parent).rmdir()
        if time.monotonic() > deadline:
            return
        time.sleep(0.05)
