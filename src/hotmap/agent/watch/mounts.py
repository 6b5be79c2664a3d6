"""What is mounted at a path, and whether it can change while the container runs."""

from __future__ import annotations

import os

from hotmap.agent.watch.plain_files import not_readable
from hotmap.core.value import Value
from hotmap.volume.data_link import DATA_LINK

__all__ = ["Mount", "describe_mount"]


class Mount(Value):
    """What is mounted: projected, plain, file or missing; note: its limits, in a sentence."""

    kind: str
    note: str


def describe_mount(directory: str) -> Mount:
    """Return what is mounted at a path, and what that means for changes."""
    try:
        os.lstat(directory)
    except FileNotFoundError:
        return Mount("missing", f"{directory} does not exist yet: waiting for it")
    except OSError as error:
        return Mount("missing", str(not_readable(error, directory)))
    if not os.path.isdir(directory):
        return Mount(
            "file",
            f"{directory} is a single file: with subPath it never changes while the container "
            "runs; mount the whole ConfigMap or Secret as a directory",
        )
    if os.path.islink(os.path.join(directory, DATA_LINK)):
        return Mount("projected", _frozen_below(directory))
    return Mount(
        "plain",
        f"{directory} has no {DATA_LINK} link: not a ConfigMap or Secret volume, or mounted with "
        "subPath, which never changes; its files are compared at each poll",
    )


def _frozen_below(directory: str) -> str:
    """Name the files in a directory that are mounts themselves, since those never change."""
    below = sorted(mount for mount in _mount_points() if mount.startswith(f"{directory}/"))
    if not below:
        return ""
    return f"{', '.join(below)}: mounted with subPath, never changes while the container runs"


def _mount_points() -> list[str]:
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            return [line.split(" ")[4].replace("\\040", " ") for line in file]
    except (OSError, IndexError):
        return []
