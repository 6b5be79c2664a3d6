"""Mounts of the application with files that the agent uses: sockets, pid files, what is touched."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from hotmap.cli.injection.agent_paths import agent_path, is_below, is_reserved

__all__ = ["SharedMounts", "plan_shared_mounts"]

#: What is kept of a mount; a `subPathExpr` needs the application's variables.
_FIELDS = ("name", "mountPath", "subPath", "readOnly")


class SharedMounts(NamedTuple):
    """What the agent's container mounts as the application does."""

    mounts: list[dict[str, Any]]
    #: The files that are in none of the mounts that it can have.
    missing: list[str]


def plan_shared_mounts(
    mounts: Iterable[Mapping[str, Any]], paths: Iterable[str], mounted: Iterable[str]
) -> SharedMounts:
    """Find the mounts of the application that contain files which the agent uses.

    `mounted` are the directories of the application that the agent's container has already.
    """
    own = [posixpath.normpath(directory) for directory in mounted]
    usable = sorted(
        (mount for mount in mounts if _is_usable(mount)),
        key=lambda mount: len(mount["mountPath"]),
        reverse=True,
    )
    found: dict[str, dict[str, Any]] = {}
    missing = []
    for path in paths:
        if is_reserved(path) or any(_contains(directory, path) for directory in own):
            continue
        mount = next((item for item in usable if _contains(item["mountPath"], path)), None)
        if mount is None:
            missing.append(path)
        else:
            found[mount["mountPath"]] = {key: mount[key] for key in _FIELDS if key in mount}
    return SharedMounts(list(found.values()), missing)


def _is_usable(mount: Mapping[str, Any]) -> bool:
    path = mount["mountPath"]
    return "subPathExpr" not in mount and agent_path(mount["name"], path) == path


def _contains(directory: str, path: str) -> bool:
    directory = posixpath.normpath(directory)
    return posixpath.normpath(path) == directory or is_below(path, directory)
