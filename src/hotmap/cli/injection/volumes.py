"""The volumes that are added to a pod, and their mounts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hotmap.cli.injection.record import (
    BIN,
    BIN_PATH,
    POD,
    POD_PATH,
    RUN,
    RUN_PATH,
    STAGE,
    STAGE_PATH,
)

__all__ = [
    "checker_mounts", "pod_volume", "program_mount", "program_volume", "run_mounts", "run_volume",
    "stage_mount", "stage_volume",
]  # fmt: skip


def run_mounts(*, pod: bool, scratch: bool) -> list[dict[str, Any]]:
    """Mount what an agent writes to; `pod`: the pod's annotations, `scratch`: a /tmp."""
    mounts: list[dict[str, Any]] = []
    if pod:
        mounts.append({"name": POD, "mountPath": POD_PATH, "readOnly": True})
    mounts.append({"name": RUN, "mountPath": RUN_PATH})
    if scratch:
        # Checkers may write: nginx -t creates its pid file.
        mounts.append({"name": RUN, "mountPath": "/tmp", "subPath": "tmp"})
    return mounts


def checker_mounts(paths: Iterable[str]) -> list[dict[str, Any]]:
    """Mount what a checker writes to, in the memory of the agent's other files."""
    return [
        {"name": RUN, "mountPath": path, "subPath": f"checker{path.replace('/', '-')}"}
        for path in paths
    ]


def stage_mount() -> dict[str, Any]:
    """Mount the stage for the agent."""
    return {"name": STAGE, "mountPath": STAGE_PATH}


def pod_volume() -> dict[str, Any]:
    """Make the volume with the pod's annotations, and with its uid for the answers of the agent."""
    items = [
        {"path": path, "fieldRef": {"fieldPath": f"metadata.{path}"}}
        for path in ("annotations", "uid")
    ]
    return {"name": POD, "downwardAPI": {"items": items}}


def run_volume() -> dict[str, Any]:
    """Make the volume for the agent's state and socket; it survives container restarts."""
    return {"name": RUN, "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}


def stage_volume(sources: int) -> dict[str, Any]:
    """Make the stage: in memory, so that no Secret is on a disk; two revisions of each source.

    A source has at most 1 MiB, which many small files round up to pages.
    """
    size = f"{8 * max(sources, 1)}Mi"
    return {"name": STAGE, "emptyDir": {"medium": "Memory", "sizeLimit": size}}


def program_volume() -> dict[str, Any]:
    """Make the volume for the agent's program."""
    return {"name": BIN, "emptyDir": {"sizeLimit": "8Mi"}}


def program_mount() -> dict[str, Any]:
    """Mount the agent's program where the application's command starts it."""
    return {"name": BIN, "mountPath": BIN_PATH, "readOnly": True}
