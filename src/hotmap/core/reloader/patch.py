"""Reloader's marks in a pod template: writes them byte for byte, and reads them.

Two strategies (stakater/Reloader 1.4.21, internal/pkg/handler/upgrade.go):

* `env-vars`: `STAKATER_<NAME>_<KIND>` = digest, in the one container that uses the source
* `annotations`: `reloader.stakater.com/last-reloaded-from` = a JSON document about the last source

The digest is the SHA-1 of the source's data. It is written only because any other value would
replace pods: it is unkeyed, so anyone who reads the pod template can test guesses of a Secret, and
two different contents can share it (`{a: "1;b=2"}` and `{a: "1", b: "2"}`). hotmap decides by its
own fingerprints, which have neither defect; this module only writes the result.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from hotmap.core.model.objects import (
    Container,
    EnvVar,
    ObjectKey,
    PodSpec,
    PodTemplate,
    Volume,
)
from hotmap.core.reloader.annotations import LAST_RELOADED_FROM, Writing

__all__ = [
    "DELETED",
    "FIELD_MANAGER",
    "FIELD_MANAGERS",
    "Stamp",
    "Traces",
    "carries",
    "digest_of",
    "find_traces",
    "has_marks_of",
    "is_reloader_variable",
    "stamp_patch",
    "variable_name",
    "variable_operations",
]

#: The field manager of Reloader's writes, and that of Reloader 2 (internal/pkg/workload).
FIELD_MANAGER = "Reloader"
FIELD_MANAGERS = (FIELD_MANAGER, "reloader")

#: The digest that the strategy `annotations` writes for a deleted source: the SHA-1 of
#: `__RELOADER_EMPTY_DELETE_MARKER__`.
DELETED = hashlib.sha1(b"__RELOADER_EMPTY_DELETE_MARKER__", usedforsecurity=False).hexdigest()

_PREFIX = "STAKATER_"
_TYPES = {
    "ConfigMap": "CONFIGMAP",
    "Secret": "SECRET",
    "SecretProviderClass": "SECRETPROVIDERCLASS",
}
_SUFFIXES = tuple(f"_{name}" for name in _TYPES.values())


class Stamp(NamedTuple):
    """A source whose current content is to be marked in a template."""

    source: ObjectKey
    #: Its digest, or "" if it was deleted.
    digest: str


class Variable(NamedTuple):
    """One of Reloader's variables in a container."""

    container: str
    name: str
    value: str
    #: Its index in the container's `env`.
    position: int = 0


class _Place(NamedTuple):
    """A container of a pod template, in the template's order."""

    name: str
    has_env: bool


class Traces(NamedTuple):
    """The parts of a pod template that Reloader's strategies need."""

    #: The first container, which is marked for sources that no container uses.
    first: str
    #: (source, container) of each source that is used.
    containers: tuple[tuple[ObjectKey, str], ...] = ()
    variables: tuple[Variable, ...] = ()
    #: (kind, name, digest) of the last source by annotation, or None.
    last: tuple[str, str, str] | None = None
    #: All containers, for patches by position.
    places: tuple[_Place, ...] = ()
    #: Whether the template has annotations.
    annotated: bool = False

    def container_of(self, source: ObjectKey) -> str:
        """Return the container that is marked for a source."""
        return dict(self.containers).get(source, self.first)


# -- the digest and the name of a variable -----------------------------------------------------


def digest_of(entries: Iterable[tuple[bytes, bytes]]) -> str:
    """Digest a source's data as Reloader does: SHA-1 of the sorted `key=value`, joined by `;`.

    Values of a Secret are decoded; those of a ConfigMap's `binaryData` stay base64
    (internal/pkg/util/util.go GetSHAfromConfigmap, GetSHAfromSecret).
    """
    lines = sorted(key + b"=" + value for key, value in entries)
    return hashlib.sha1(b";".join(lines), usedforsecurity=False).hexdigest()


_NO_NAME_CHARACTERS = re.compile(r"[^A-Z0-9]+")


def variable_name(source: ObjectKey) -> str:
    """Return the variable name of a source: `my-config` → `STAKATER_MY_CONFIG_CONFIGMAP`.

    Names that differ only in punctuation share a variable (`my-config`, `my.config`); each
    writes its own digest there, so a change of either still gives another value.
    """
    name = _NO_NAME_CHARACTERS.sub("_", source.name.upper())
    return f"{_PREFIX}{name.removeprefix('_')}_{_TYPES[source.kind]}"


def is_reloader_variable(entry: EnvVar) -> bool:
    """Return whether a variable is one that a rollout by the strategy `env-vars` writes."""
    return entry.name.startswith(_PREFIX) and entry.name.endswith(_SUFFIXES)


# -- marks in a template -----------------------------------------------------------------


def find_traces(template: PodTemplate, namespace: str) -> Traces | None:
    """Read what Reloader's strategies need from a template; None if it has no container."""
    spec = template.spec
    if not spec.containers:
        return None
    return Traces(
        first=spec.containers[0].name,
        containers=tuple(_marked_containers(spec, namespace)),
        variables=tuple(
            Variable(container.name, entry.name, entry.value or "", position)
            for container in spec.containers
            for position, entry in enumerate(container.env or ())
            if is_reloader_variable(entry)
        ),
        last=_last_reloaded_from(template.metadata.annotations or {}),
        places=tuple(_Place(item.name, bool(item.env)) for item in spec.containers),
        annotated=template.metadata.annotations is not None,
    )


def _marked_containers(spec: PodSpec, namespace: str) -> Iterator[tuple[ObjectKey, str]]:
    """Choose the container of each source (getContainerUsingResource).

    The first volume that holds the source decides, if something mounts it; else its first use in
    an environment. A source of init containers alone is marked in the first container.
    """
    containers, inits = spec.containers or [], spec.init_containers or []
    mounted: dict[ObjectKey, str] = {}
    for volume in spec.volumes or ():
        for source in _sources_of_volume(volume, namespace):
            mounted.setdefault(source, volume.name)
    mounting, mounting_inits = _first_mounting(containers), _first_mounting(inits)
    chosen: dict[ObjectKey, str] = {}
    for source, volume_name in mounted.items():
        if user := mounting.get(volume_name):
            chosen[source] = user
        elif volume_name in mounting_inits:
            chosen[source] = containers[0].name
    for container in containers:
        for source in _imported(container, namespace):
            chosen.setdefault(source, container.name)
    for container in inits:
        for source in _imported(container, namespace):
            chosen.setdefault(source, containers[0].name)
    yield from chosen.items()


def _sources_of_volume(volume: Volume, namespace: str) -> Iterator[ObjectKey]:
    if volume.config_map:
        yield ObjectKey("ConfigMap", namespace, volume.config_map.name)
    if volume.secret:
        yield ObjectKey("Secret", namespace, volume.secret.secret_name)
    if volume.csi and (name := (volume.csi.volume_attributes or {}).get("secretProviderClass")):
        yield ObjectKey("SecretProviderClass", namespace, name)
    for part in (volume.projected.sources or ()) if volume.projected else ():
        if part.config_map:
            yield ObjectKey("ConfigMap", namespace, part.config_map.name)
        if part.secret:
            yield ObjectKey("Secret", namespace, part.secret.name)


def _first_mounting(containers: Sequence[Container]) -> dict[str, str]:
    """Map each volume that is mounted to the name of the first container that mounts it."""
    first: dict[str, str] = {}
    for container in containers:
        for mount in container.volume_mounts or ():
            first.setdefault(mount.name, container.name)
    return first


def _imported(container: Container, namespace: str) -> Iterator[ObjectKey]:
    for entry in container.env or ():
        if entry.value_from and (ref := entry.value_from.config_map_key_ref):
            yield ObjectKey("ConfigMap", namespace, ref.name)
        if entry.value_from and (ref := entry.value_from.secret_key_ref):
            yield ObjectKey("Secret", namespace, ref.name)
    for source in container.env_from or ():
        if source.config_map_ref:
            yield ObjectKey("ConfigMap", namespace, source.config_map_ref.name)
        if source.secret_ref:
            yield ObjectKey("Secret", namespace, source.secret_ref.name)


class _LastReloadedFrom(msgspec.Struct):
    """The document in Go's order of fields (pkg/common/reload_source.go)."""

    type: str
    name: str
    namespace: str
    hash: str
    containerRefs: list[str]
    #: POSIX seconds.
    observedAt: int


_KINDS = {type_: kind for kind, type_ in _TYPES.items()}
_decoder = msgspec.json.Decoder(_LastReloadedFrom)


def _last_reloaded_from(annotations: Mapping[str, str]) -> tuple[str, str, str] | None:
    text = annotations.get(LAST_RELOADED_FROM)
    if text is None:
        return None
    try:
        document = _decoder.decode(text)
    except msgspec.DecodeError:
        return None  # it is not Reloader's, so it proves nothing
    kind = _KINDS.get(document.type)
    return (kind, document.name, document.hash) if kind else None


def carries(traces: Traces | None, stamp: Stamp, writing: Writing) -> bool:
    """Return whether a template is already marked with a source's current content."""
    if traces is None or writing is Writing.REVISION or not stamp.digest:
        return False
    if writing is Writing.ANNOTATIONS:
        return traces.last == (stamp.source.kind, stamp.source.name, stamp.digest)
    mark = traces.container_of(stamp.source), variable_name(stamp.source), stamp.digest
    return any(mark == (known.container, known.name, known.value) for known in traces.variables)


def has_marks_of(
    traces: Traces, containers: Iterable[Container], annotations: Mapping[str, str]
) -> bool:
    """Return whether a pod has the marks of a template, which others may have had as well."""
    known = {place.name for place in traces.places}
    found = {
        (container.name, entry.name, entry.value or "")
        for container in containers
        if container.name in known
        for entry in container.env or ()
        if is_reloader_variable(entry)
    }
    wanted = {(mark.container, mark.name, mark.value) for mark in traces.variables}
    return found == wanted and _last_reloaded_from(annotations) == traces.last


# -- patches ---------------------------------------------------------------------------


def stamp_patch(
    traces: Traces, stamps: Sequence[Stamp], writing: Writing, *, namespace: str, now: float
) -> dict[str, Any]:
    """Build the strategic merge patch that marks a template; {} if it would change nothing.

    Several stamps are one patch, and so one rollout, where Reloader sends one for each. With
    `annotations` there is one slot: the last stamp stays.

    A variable of a deleted source is removed by its name. Reloader removes by position, which
    removes another one if the list was changed meanwhile.
    """
    if writing is Writing.ANNOTATIONS:
        return _annotation_patch(traces, stamps[-1], namespace, now)
    return _variables_patch(traces, stamps)


def _annotation_patch(traces: Traces, stamp: Stamp, namespace: str, now: float) -> dict[str, Any]:
    document = _LastReloadedFrom(
        _TYPES[stamp.source.kind],
        stamp.source.name,
        namespace,
        stamp.digest or DELETED,
        [traces.container_of(stamp.source)],
        int(now),
    )
    text = msgspec.json.encode(document).decode()
    return {"spec": {"template": {"metadata": {"annotations": {LAST_RELOADED_FROM: text}}}}}


def _variables_patch(traces: Traces, stamps: Sequence[Stamp]) -> dict[str, Any]:
    changed = _changed_variables(traces, stamps)
    if not changed:
        return {}
    containers = [
        {
            "name": container,
            "env": [
                {"name": name, "$patch": "delete"}
                if value is None
                else {"name": name, "value": value}
                for name, value in variables.items()
            ],
        }
        for container, variables in changed.items()
    ]
    return {"spec": {"template": {"spec": {"containers": containers}}}}


def _changed_variables(traces: Traces, stamps: Sequence[Stamp]) -> dict[str, dict[str, str | None]]:
    """Return the new values of variables by container and name; None: it is removed.

    Two sources may share a variable, and a patch names it once.
    """
    changed: dict[str, dict[str, str | None]] = {}
    for stamp in stamps:
        name = variable_name(stamp.source)
        if not stamp.digest:
            for variable in traces.variables:
                if variable.name == name:
                    changed.setdefault(variable.container, {})[name] = None
        elif not carries(traces, stamp, Writing.ENV_VARS):
            changed.setdefault(traces.container_of(stamp.source), {})[name] = stamp.digest
    return changed


def variable_operations(traces: Traces, stamps: Sequence[Stamp]) -> list[dict[str, Any]]:
    """Build the JSON patch operations that mark a template with variables; [] if none changes.

    For custom resources, which take no strategic merge patch. Positions are those of the version of
    the object that `traces` were read from, so the patch needs its resourceVersion as precondition.
    """
    operations: list[dict[str, Any]] = []
    for container, variables in _changed_variables(traces, stamps).items():
        index = next(i for i, place in enumerate(traces.places) if place.name == container)
        env = f"/spec/template/spec/containers/{index}/env"
        has_env = traces.places[index].has_env
        gone: list[int] = []
        for name, value in variables.items():
            there = [
                variable.position
                for variable in traces.variables
                if (variable.container, variable.name) == (container, name)
            ]
            if value is None:
                gone += there
            elif there:
                operations += [
                    {"op": "replace", "path": f"{env}/{at}", "value": _entry(name, value)}
                    for at in there
                ]
            else:
                entry: Any = _entry(name, value)
                path, added = (f"{env}/-", entry) if has_env else (env, [entry])
                operations.append({"op": "add", "path": path, "value": added})
                has_env = True
        # From the end, so that the other positions stay as they are.
        operations += [{"op": "remove", "path": f"{env}/{at}"} for at in sorted(gone)[::-1]]
    return operations


def _entry(name: str, value: str) -> dict[str, str]:
    return {"name": name, "value": value}
