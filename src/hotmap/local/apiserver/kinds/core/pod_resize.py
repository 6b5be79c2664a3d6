"""Updates through the resize subresource: the resources of containers, and nothing else.

kubernetes: pkg/registry/core/pod/strategy.go (dropNonResizeUpdates) and
pkg/apis/core/validation/validation.go (ValidatePodResize).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotmap.local.apiserver.pod_defaults import quality_of_service
from hotmap.local.field_errors import FieldError, forbidden_field, invalid_value
from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["resize_errors", "resized_spec"]

_CONTAINERS = ("containers", "initContainers")
_MUTABLE = ("cpu", "memory")


def resized_spec(old: JsonObject, new: JsonObject) -> JsonObject:
    """Return the old spec with the new resources; the new one if its containers are others.

    The validation refuses other containers.
    """
    if any(_names(old, field) != _names(new, field) for field in _CONTAINERS):
        return new
    spec = {**old}
    for field in _CONTAINERS:
        if field in old:
            spec[field] = [
                _with_fields(before, after, ("resources", "resizePolicy"))
                for before, after in zip(old[field], new[field], strict=True)
            ]
    return _with_fields(spec, new, ("resources",))


def resize_errors(old: JsonObject, new: JsonObject) -> list[FieldError]:
    """Find what a resize may not change."""
    errors: list[FieldError] = []
    if quality_of_service(old) != quality_of_service(new):
        why = "Pod QOS Class may not change as a result of resizing"
        errors.append(invalid_value("spec", quality_of_service(old), why))
    others = [error for field in _CONTAINERS for error in _container_errors(old, new, field)]
    if others:
        return [*errors, *others]
    for field in _CONTAINERS:
        for index, before in enumerate(old.get(field) or ()):
            after, path = new[field][index], f"spec.{field}[{index}]"
            errors += _resource_errors(before, after, path)
            runs_once = field == "initContainers" and before.get("restartPolicy") != "Always"
            if runs_once and after != before and _restarts(after):
                why = (
                    "non-sidecar init containers with a resize policy of RestartContainer cannot "
                    "be resized"
                )
                errors.append(forbidden_field(path, why))
    return errors


def _restarts(container: JsonObject) -> bool:
    policies = container.get("resizePolicy") or ()
    return any(policy.get("restartPolicy") == "RestartContainer" for policy in policies)


def _container_errors(old: JsonObject, new: JsonObject, field: str) -> Iterator[FieldError]:
    before, after = _names(old, field), _names(new, field)
    if len(before) != len(after):
        yield forbidden_field(f"spec.{field}", f"{field} may not be added or removed on resize")
        return
    for index, (name, other) in enumerate(zip(before, after, strict=True)):
        if name != other:
            why = f"{field} may not be renamed or reordered on resize"
            yield forbidden_field(f"spec.{field}[{index}].name", why)


def _resource_errors(before: JsonObject, after: JsonObject, path: str) -> Iterator[FieldError]:
    known, changed = before.get("resources") or {}, after.get("resources") or {}
    for field in ("requests", "limits"):
        if not (known.get(field) or {}).keys() <= (changed.get(field) or {}).keys():
            why = f"resource {field} cannot be removed"
            yield forbidden_field(f"{path}.resources.{field}", why)
    if _immutable_part(before) != _immutable_part(after):
        if path.startswith("spec.initContainers"):
            why = "only cpu and memory resources for init or sidecar containers are mutable"
            yield forbidden_field(path, why)
        else:
            yield forbidden_field("spec", "only cpu and memory resources are mutable")


def _immutable_part(container: JsonObject) -> JsonObject:
    resources = container.get("resources") or {}
    kept = {
        field: {name: value for name, value in values.items() if name not in _MUTABLE}
        for field, values in resources.items()
        if isinstance(values, dict)
    }
    # Go compares the resources without their claims.
    return {**container, "resources": {field: values for field, values in kept.items() if values}}


def _names(spec: JsonObject, field: str) -> list[str]:
    return [container.get("name", "") for container in spec.get(field) or ()]


def _with_fields(
    before: Mapping[str, object], after: Mapping[str, object], fields: tuple[str, ...]
) -> JsonObject:
    """Return a map with some of its fields as another one has them."""
    kept = {name: value for name, value in before.items() if name not in fields}
    return {**kept, **{name: after[name] for name in fields if name in after}}
