"""The volumes that are added to a pod, and their mounts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hotmap.cli.injection.record import BIN_PATH, POD_PATH, RUN_PATH, STAGE_PATH, AgentNames

__all__ = [
    "checker_mounts", "pod_volume", "program_mount", "program_volume", "run_mounts", "run_volume",
    "stage_mount", "stage_volume",
]  # fmt: skip


def run_mounts(names: AgentNames, *, pod: bool, scratch: bool) -> list[dict[str, Any]]:
    """Mount what an agent writes to; `pod`: the pod's annotations, `scratch`: a /tmp."""
    mounts: list[dict[str, Any]] = []
    if pod:
        mounts.append({"name": names.pod, "mountPath": POD_PATH, "readOnly": True})
    mounts.append({"name": names.run, "mountPath": RUN_PATH})
    if scratch:
        # Checkers may write: nginx -t creates its pid file.
        mounts.append({"name": names.run, "mountPath": "/tmp", "subPath": "tmp"})
    return mounts


def checker_mounts(names: AgentNames, paths: Iterable[str]) -> list[dict[str, Any]]:
    """Mount what a checker writes to, in the memory of the agent's other files."""
    return [
        {"name": names.run, "mountPath": path, "subPath": f"checker{path.replace('/', '-')}"}
        for path in paths
    ]


def stage_mount(names: AgentNames) -> dict[str, Any]:
    """Mount the stage for the agent."""
    return {"name": names.stage, "mountPath": STAGE_PATH}


def pod_volume(names: AgentNames) -> dict[str, Any]:
    """Make the volume with the pod's annotations, and with its uid for the answers of the agent."""
    items = [
        {"path": path, "fieldRef": {"fieldPath": f"metadata.{path}"}}
        for path in ("annotations", "uid")
    ]
    return {"name": names.pod, "downwardAPI": {"items": items}}


def run_volume(names: AgentNames) -> dict[str, Any]:
    """Make the volume for the agent's state and socket; it survives container restarts."""
    return {"name": names.run, "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}


def stage_volume(names: AgentNames, sources: int) -> dict[str, Any]:
    """Make the stage: in memory, so that no Secret is on a disk; two revisions of each source.

    A source has at most 1 MiB, which many small files round up to pages.
    """
    size = f"{8 * max(sources, 1)}Mi"
    return {"name": names.stage, "emptyDir": {"medium": "Memory", "sizeLimit": size}}


def program_volume(names: AgentNames) -> dict[str, Any]:
    """Make the volume for the agent's program."""
    return {"name": names.bin, "emptyDir": {"sizeLimit": "8Mi"}}


def program_mount(names: AgentNames) -> dict[str, Any]:
    """Mount the agent's program where the application's command starts it."""
    return {"name": names.bin, "mountPath": BIN_PATH, "readOnly": True}
