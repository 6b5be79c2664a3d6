"""Converts environment variables of ConfigMaps and Secrets to files that the agent reads.

An `envFrom` becomes a volume and `--env-from`, a variable of one data key becomes a file with its
name. The result follows the order in which the kubelet builds an environment (kubernetes:
pkg/kubelet/kubelet_pods.go, makeEnvironmentVariables):

1. `envFrom`, in order; a later one wins
2. `env`, in order; it overrides those, and `$(NAME)` expands to the value of NAME so far

The agent starts with the container's environment, then applies `--env-from`, then `--env` in order.
So a variable that stays in the container is repeated as `--env NAME`, to override files, and one
whose text refers to others moves to `--env NAME=TEXT`, since the kubelet could not expand it.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, NamedTuple

from hotmap.cli.injection.record import AgentNames

__all__ = ["Conversion", "convert_environment"]

_PATH = "/hotmap/env"

_FIXED = "stays fixed until the container restarts"

_KINDS = {
    "configMapKeyRef": ("configMap", "ConfigMap"),
    "secretKeyRef": ("secret", "Secret"),
}


class Conversion(NamedTuple):
    """The changes that replace a container's environment by files."""

    #: Indexes of the removed items in the container's lists.
    env_from_taken: tuple[int, ...]
    env_taken: tuple[int, ...]
    volumes: list[dict[str, Any]]
    mounts: list[dict[str, Any]]
    flags: list[str]
    #: For the user: what could not be converted, and what may change its meaning.
    notes: list[str]


def convert_environment(container: dict[str, Any], names: AgentNames) -> Conversion:
    """Determine volumes, mounts and flags for every variable of a ConfigMap or Secret.

    A variable stays as it is where a file cannot replace it: its name is not a valid file name, or
    it has to override an earlier entry of the same name that stays.
    """
    volumes: list[dict[str, Any]] = []
    mounts: list[dict[str, Any]] = []
    flags: list[str] = []

    def mount(source: dict[str, Any], prefix: str) -> None:
        name = names.environment(len(volumes))
        volumes.append({"name": name, **source})
        path = f"{_PATH}/{name}"
        mounts.append({"name": name, "mountPath": path, "readOnly": True})
        flags.extend(("--env-from", f"{prefix}={path}" if prefix else path))

    env_from = container.get("envFrom") or []
    for item in env_from:
        mount(_volume_of(item), str(item.get("prefix") or ""))
    env = container.get("env") or []
    taken, notes = _choose_files(env)
    for items in _volumes_of(env, taken):
        mount({"projected": {"sources": items}}, "")
    moved = _choose_moved(env, taken, needed=bool(flags))
    if flags:
        for index, variable in enumerate(env):
            if index in moved:
                text, found = _moved_text(env, index, taken, moved, has_env_from=bool(env_from))
                flags += ["--env", f"{variable['name']}={text}"]
                notes += found
            elif index not in taken:
                flags += ["--env", variable["name"]]
    return Conversion(
        tuple(range(len(env_from))),
        tuple(sorted((*taken, *moved))),
        volumes,
        mounts,
        flags,
        notes,
    )


def _volume_of(source: dict[str, Any]) -> dict[str, Any]:
    if "secretRef" in source:
        reference, name = source["secretRef"], "secretName"
    else:
        reference, name = source["configMapRef"], "name"
    optional = {"optional": True} if reference.get("optional") else {}
    kind = "secret" if "secretRef" in source else "configMap"
    return {kind: {name: reference["name"], **optional}}


def _reference(variable: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    source = variable.get("valueFrom") or {}
    return next(((kind, source[kind]) for kind in _KINDS if kind in source), None)


def _choose_files(env: list[dict[str, Any]]) -> tuple[list[int], list[str]]:
    """Choose the variables that become files; note those that cannot."""
    taken, notes, staying = [], [], set()
    for index, variable in enumerate(env):
        name = variable["name"]
        found = _reference(variable)
        if found is not None:
            kind, reference = found
            what = f"{name} of {_KINDS[kind][1]}/{reference.get('name')}"
            if name in staying:
                notes.append(f"{what}, which overrides another {name}, {_FIXED}")
            elif "/" in name or name.startswith("..") or name == ".":
                notes.append(f"{what}, which is not a valid file name, {_FIXED}")
            else:
                taken.append(index)
                continue
        staying.add(name)
    return taken, notes


def _volumes_of(env: list[dict[str, Any]], taken: list[int]) -> list[list[dict[str, Any]]]:
    """Distribute sources to as few volumes as possible: a path may occur in a volume only once."""
    volumes: list[list[dict[str, Any]]] = []
    names: set[str] = set()
    for index in taken:
        variable = env[index]
        if not volumes or variable["name"] in names:
            volumes.append([])
            names = set()
        names.add(variable["name"])
        kind, reference = _reference(variable) or ("", {})
        source: dict[str, Any] = {
            "name": reference["name"],
            "items": [{"key": reference["key"], "path": variable["name"]}],
        }
        if reference.get("optional"):
            source["optional"] = True
        volumes[-1].append({_KINDS[kind][0]: source})
    return volumes


def _choose_moved(env: list[dict[str, Any]], taken: list[int], *, needed: bool) -> list[int]:
    """Choose the variables that the agent has to expand instead of the kubelet, in its order."""
    if not needed:
        return []
    counts = Counter(variable["name"] for variable in env)
    # Where a data key's variable stays to override others of its name, the kubelet sets them.
    staying = {
        variable["name"]
        for i, variable in enumerate(env)
        if i not in taken and _reference(variable)
    }
    return [
        index
        for index, variable in enumerate(env)
        if index not in taken
        and not variable.get("valueFrom")
        and (
            "$" in str(variable.get("value") or "")
            or (counts[variable["name"]] > 1 and variable["name"] not in staying)
        )
    ]


def _moved_text(
    env: list[dict[str, Any]],
    index: int,
    taken: list[int],
    moved: list[int],
    *,
    has_env_from: bool,
) -> tuple[str, list[str]]:
    """Return the text of a variable that the agent expands, and notes on what it refers to."""
    name, text = env[index]["name"], str(env[index].get("value") or "")
    referred, later = _referred(text), _set_later(env, index, moved)
    around = _set_around(env, index, taken, moved)
    notes = [_unclear(name, other) for other in sorted(referred & around)]
    if has_env_from:
        notes += [_ambiguous(name, other) for other in sorted(referred & later)]
    else:
        text = _with_literals(text, later)
    return text, notes


def _set_later(env: list[dict[str, Any]], index: int, moved: list[int]) -> set[str]:
    """Name the variables that are set for the agent at an entry, but not yet for the kubelet.

    The agent starts with the container's own variables and those of all files, and sets moved ones
    one after the other; the kubelet sets every entry one after the other.
    """
    before = {variable["name"] for variable in env[:index]}
    return {
        variable["name"] for i, variable in enumerate(env) if i > index and i not in moved
    } - before


def _set_around(
    env: list[dict[str, Any]], index: int, taken: list[int], moved: list[int]
) -> set[str]:
    """Name the variables set both before and after an entry, which may see the later value.

    Of several files with one name, the agent knows the last. A single one goes over what the
    container has; where it is optional, it may be missing.
    """
    before = {variable["name"]: i for i, variable in enumerate(env[:index])}
    found = set()
    for i, variable in enumerate(env):
        earlier = before.get(variable["name"])
        if i <= index or i in moved or earlier is None or earlier in moved:
            continue
        _, reference = _reference(env[earlier]) or ("", {})
        if i in taken or earlier not in taken or reference.get("optional"):
            found.add(variable["name"])
    return found


#: What the kubelet expands: `$$`, and `$(NAME)`.
_REFERENCE = re.compile(r"\$\$|\$\(([^)]*)\)")


def _referred(text: str) -> set[str]:
    return {found[1] for found in _REFERENCE.finditer(text) if found[0] != "$$"}


def _with_literals(text: str, names: set[str]) -> str:
    """Escape references to variables that are not set yet, so that they stay as written."""

    def escaped(found: re.Match[str]) -> str:
        return f"${found[0]}" if found[0] != "$$" and found[1] in names else found[0]

    return _REFERENCE.sub(escaped, text)


def _unclear(name: str, other: str) -> str:
    return (
        f"{name} refers to {other}, which is set before and after it; it may get the value that is "
        "set after it"
    )


def _ambiguous(name: str, other: str) -> str:
    return (
        f"{name} refers to {other}, which is set after it and possibly by an envFrom too; it gets "
        "the value that is set after it"
    )
