"""The mounts of a pod with a stage between the sources and the application.

The agent mounts the sources; the application mounts, at the same paths, a directory in which
content appears only after it passed its check. So each mount of the application is replaced by one
of the stage, with the directory of its volume as `subPath`.

The kubelet resolves a `subPath` when the container starts, so a directory mounted that way never
changes. Through the stage it does: the agent mounts a volume of that directory's files only. A
`subPath` that names a file never changes in either case.
"""

from __future__ import annotations

import copy
import posixpath
from typing import Any, NamedTuple

from hotmap.cli.injection.agent_paths import SOURCES, agent_path
from hotmap.cli.injection.record import STAGE_PATH, AgentNames

__all__ = ["StagePlan", "count_sources", "default_mode", "is_live", "plan_stage", "staged_mounts"]


class StagePlan(NamedTuple):
    """The volumes that go through the stage, and the agent's mounts of them."""

    #: By index of the application's mount, the directory of its files in the agent's container.
    directories: dict[int, str]
    #: The agent's mounts, and the added volumes.
    mounts: list[dict[str, Any]]
    volumes: list[dict[str, Any]]
    notes: list[str]


def is_live(volume: dict[str, Any]) -> bool:
    """Return whether a volume has ConfigMaps or Secrets as files.

    One with tokens only is rewritten every few minutes and is not followed.
    """
    sources = (volume.get("projected") or {}).get("sources") or ()
    projected = any("configMap" in source or "secret" in source for source in sources)
    return "configMap" in volume or "secret" in volume or projected


def count_sources(volume: dict[str, Any]) -> int:
    """Count the ConfigMaps and Secrets of a volume."""
    sources = (volume.get("projected") or {}).get("sources") or ()
    return sum("configMap" in item or "secret" in item for item in (volume, *sources))


def plan_stage(
    volumes: dict[str, dict[str, Any]],
    mounts: list[dict[str, Any]],
    names: AgentNames,
    *,
    apart: bool,
) -> StagePlan:
    """Choose the mounts that go through the stage.

    `apart`: the agent runs in the application's container, so its directories need other paths.
    Otherwise they have the application's paths, so that absolute paths in the files mean the same
    to a checker, unless two end in the same name.
    """
    found = StagePlan({}, [], [], [])
    places: dict[tuple[str, str], str] = {}
    for index, mount in enumerate(mounts):
        volume = volumes.get(mount["name"], {})
        if not is_live(volume):
            continue
        part = str(mount.get("subPath") or "").strip("/")
        if "subPathExpr" in mount or (part and not _part_of(volume, part)):
            found.notes.append(
                f"{mount['mountPath']} is a single file of volume {mount['name']}, which never "
                "changes while the container runs; mount a directory"
            )
            continue
        if _holds_token(volume):
            found.notes.append(
                f"{mount['mountPath']} contains a service account token, which must not be "
                "delayed; it is neither staged nor watched"
            )
            continue
        source = (mount["name"], part)
        if source not in places:
            name = mount["name"]
            if part:
                name = names.source(len(found.volumes))
                found.volumes.append({"name": name, **_part_of(volume, part)})
            path = agent_path(name, mount["mountPath"].rstrip("/") or "/")
            taken = [posixpath.basename(place) for place in places.values()]
            if apart or posixpath.basename(path) in ("", *taken):
                path = f"{SOURCES}/{name}"
            places[source] = path
            found.mounts.append({"name": name, "mountPath": path, "readOnly": True})
        found.directories[index] = places[source]
    return found


def staged_mounts(
    mounts: list[dict[str, Any]], stage: StagePlan, places: dict[str, str], names: AgentNames
) -> list[dict[str, Any]]:
    """Return the application's mounts with the stage; `places`: published path by directory."""
    found = []
    for index, mount in enumerate(mounts):
        if index in stage.directories:
            place = places[stage.directories[index]]
            mount = {key: value for key, value in mount.items() if key != "subPath"}
            mount["name"] = names.stage
            mount["readOnly"] = True
            if place != STAGE_PATH:
                mount["subPath"] = posixpath.relpath(place, STAGE_PATH)
        found.append(mount)
    return found


def _holds_token(volume: dict[str, Any]) -> bool:
    sources = (volume.get("projected") or {}).get("sources") or ()
    return any("serviceAccountToken" in source or "podCertificate" in source for source in sources)


def _part_of(volume: dict[str, Any], folder: str) -> dict[str, Any]:
    """Return the volume with the files of one directory only; {} without such a directory."""
    narrowed = {key: copy.deepcopy(value) for key, value in volume.items() if key != "name"}
    sources = (narrowed.get("projected") or {}).get("sources")
    everything = [narrowed] if sources is None else sources
    kept = [source for source in everything if _keep_items_below(source, folder)]
    if sources is not None:
        narrowed["projected"]["sources"] = kept
    return narrowed if kept else {}


def _keep_items_below(source: dict[str, Any], folder: str) -> bool:
    for kind in ("configMap", "secret", "downwardAPI"):
        if kind in source:
            items = source[kind].get("items") or ()
            below = [item for item in items if item["path"].startswith(f"{folder}/")]
            for item in below:
                item["path"] = item["path"].removeprefix(f"{folder}/")
            source[kind]["items"] = below
            return bool(below)
    return False


def default_mode(volume: dict[str, Any]) -> int | None:
    """Return the default mode of a volume of sources; None where it is not set."""
    for kind in ("configMap", "secret", "projected"):
        if kind in volume and is_live(volume):
            mode = (volume[kind] or {}).get("defaultMode")
            return mode if isinstance(mode, int) else None
    return None
