"""What the answer to a write of a pod or a pod template warns of.

pkg/api/pod/warnings.go, warningsForPodSpecAndMeta; names of node labels and annotations that are
out of use are not told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotmap.local.json_object import JsonObject
from hotmap.local.quantity import parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["pod_warnings"]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NO_SELECTOR = "labelSelector: a null labelSelector results in matching no pod"
# Sources with `items`.
_FILE_SOURCES = ("configMap", "secret", "downwardAPI")


def pod_warnings(spec: JsonObject, path: str) -> list[str]:
    """Return warnings of the spec of a pod or a template."""
    containers = [
        (f"{path}.{field}[{index}]", container)
        for field in ("initContainers", "containers", "ephemeralContainers")
        for index, container in enumerate(spec.get(field) or ())
    ]
    ports = [
        (f"{at}.ports[{index}]", port)
        for at, container in containers
        for index, port in enumerate(container.get("ports") or ())
    ]
    return [
        *_spread_warnings(spec, path),
        *(text for volume in spec.get("volumes") or () for text in _volume_warnings(volume)),
        *_repetitions(spec, path, "hostAliases", "ip"),
        *_repetitions(spec, path, "imagePullSecrets", "name"),
        *_empty_name_warnings(spec, path),
        *(text for at, container in containers for text in _container_warnings(container, at)),
        *_port_warnings(ports),
        *_port_name_warnings(ports),
        *_grace_warnings(spec, path),
        *_affinity_warnings(spec, path),
    ]


def _spread_warnings(spec: JsonObject, path: str) -> Iterator[str]:
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        if constraint.get("labelSelector") is None:
            yield f"{path}.topologySpreadConstraints[{index}].{_NO_SELECTOR}"


def _affinity_warnings(spec: JsonObject, path: str) -> Iterator[str]:
    for field in ("podAffinity", "podAntiAffinity"):
        rules, at = (spec.get("affinity") or {}).get(field) or {}, f"{path}.affinity.{field}"
        for index, term in enumerate(rules.get(_REQUIRED) or ()):
            if term.get("labelSelector") is None:
                yield f"{at}.{_REQUIRED}[{index}].{_NO_SELECTOR}"
        for index, weighted in enumerate(rules.get(_PREFERRED) or ()):
            if (weighted.get("podAffinityTerm") or {}).get("labelSelector") is None:
                yield f"{at}.{_PREFERRED}[{index}].podAffinityTerm.{_NO_SELECTOR}"


def _volume_warnings(volume: JsonObject) -> Iterator[str]:
    """Warn of files that hide one another (warningsForOverlappingVirtualPaths)."""
    name = f'volume "{volume.get("name", "")}"'
    for field in _FILE_SOURCES:
        if field in volume:
            paths = [(path, "") for path in _file_paths(volume[field])]
            shown = _shown_source(field, volume[field])
            for text in _overlaps(paths):
                yield f"{name} ({shown}): overlapping paths: {text}"
    paths = []
    for source in (volume.get("projected") or {}).get("sources") or ():
        if not source:
            yield f"{name} (Projected) has no sources provided"
        for field in (*_FILE_SOURCES, "serviceAccountToken"):
            if field in source:
                shown = f" ({_shown_source(field, source[field])})"
                paths += [(path, shown) for path in _file_paths(source[field])]
    for text in _overlaps(paths):
        yield f"{name} (Projected): overlapping paths: {text}"


def _file_paths(source: JsonObject) -> list[str]:
    if "path" in source:
        return [source["path"].rstrip("/")]
    return [item.get("path", "").rstrip("/") for item in source.get("items") or ()]


def _shown_source(field: str, source: JsonObject) -> str:
    shown = f"{field[0].upper()}{field[1:]}"
    if field not in ("configMap", "secret"):
        return shown
    return f'{shown} "{source.get("secretName") or source.get("name", "")}"'


def _overlaps(paths: list[tuple[str, str]]) -> Iterator[str]:
    """Pair each path with the earlier ones that are equal to it, lie in it or hold it."""
    for index, (path, source) in enumerate(paths):
        for other, its_source in paths[:index]:
            if f"{path}/".startswith(f"{other}/") or f"{other}/".startswith(f"{path}/"):
                yield f'"{path}"{source} with "{other}"{its_source}'


def _empty_name_warnings(spec: JsonObject, path: str) -> Iterator[str]:
    for index, secret in enumerate(spec.get("imagePullSecrets") or ()):
        if not secret.get("name"):
            yield f'{path}.imagePullSecrets[{index}].name: invalid empty name ""'


def _container_warnings(container: JsonObject, path: str) -> Iterator[str]:
    for field in ("limits", "requests"):
        quantities = (container.get("resources") or {}).get(field) or {}
        for name in ("memory", "ephemeral-storage"):
            if name in quantities and parse_quantity(quantities[name]) % 1:
                yield (
                    f"{path}.resources.{field}[{name}]: fractional byte value "
                    f'"{quantities[name]}" is invalid, must be an integer'
                )
    yield from _environment_warnings(container, path)


def _grace_warnings(spec: JsonObject, path: str) -> Iterator[str]:
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        yield (
            f"{path}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid "
            "and will be treated as 1"
        )


def _repetitions(spec: JsonObject, path: str, field: str, key: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, item in enumerate(spec.get(field) or ()):
        if item.get(key, "") in seen:
            yield f'{path}.{field}[{index}].{key}: duplicate {key} "{item.get(key, "")}"'
        seen.add(item.get(key, ""))


def _environment_warnings(container: JsonObject, path: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, variable in enumerate(container.get("env") or ()):
        name, value = variable.get("name", ""), variable.get("value", "")
        reference = f"$({name})"
        replaces = "valueFrom" in variable or value == reference or reference not in value
        if name in seen and replaces:
            yield (
                f'{path}.env[{index}]: hides previous definition of "{name}", which may be '
                "dropped when using apply"
            )
        seen.add(name)


def _port_warnings(ports: list[tuple[str, JsonObject]]) -> Iterator[str]:
    known: dict[tuple[Any, Any], list[tuple[str, JsonObject]]] = {}
    for at, port in ports:
        others = known.setdefault((port.get("containerPort"), port.get("protocol", "TCP")), [])
        for other_at, other in others:
            kind = _port_conflict(port, other)
            if kind:
                yield f"{at}: {kind} port definition with {other_at}"
        others.append((at, port))


def _port_conflict(port: JsonObject, other: JsonObject) -> str:
    """Return how two definitions of one container port relate, "" if they may be meant."""
    (address, number), (other_address, other_number) = (
        (known.get("hostIP", ""), known.get("hostPort", 0)) for known in (port, other)
    )
    if (address, number) == (other_address, other_number):
        return "duplicate"
    if not number or not other_number:
        return "overlapping"
    is_ambiguous = number == other_number and bool(address) != bool(other_address)
    return "dangerously ambiguous" if is_ambiguous else ""


def _port_name_warnings(ports: list[tuple[str, JsonObject]]) -> Iterator[str]:
    known: dict[str, str] = {}
    for at, port in ports:
        name = port.get("name", "")
        if name and (other := known.setdefault(name, at)) != at:
            yield (
                f'{at}: duplicate port name "{name}" with {other}, services and probes that '
                f"select ports by name will use {other}"
            )
