"""Validates a pod template before it is edited."""

from __future__ import annotations

from typing import Any

from hotmap.core.errors import ManifestError

__all__ = ["validate_pod_template"]


def validate_pod_template(template: dict[str, Any], name: str) -> None:
    """Check the types of those fields of a pod template that injection reads.

    All other validation is the API server's.

    Raises:
        ManifestError: a field has the wrong type; names object and field.
    """
    validator = _Validator(name)
    metadata = validator.mapping(template, "metadata", "metadata")
    validator.mapping(metadata, "annotations", "metadata.annotations")
    spec = validator.mapping(template, "spec", "spec")
    if not spec.get("containers"):
        raise ManifestError(f"{name}: the pod template has no containers")
    _validate_user(validator, spec, "spec")
    for key in ("os", "nodeSelector"):
        validator.mapping(spec, key, f"spec.{key}")
    for field in ("containers", "initContainers"):
        for place, container in validator.items(spec, field, "spec", ("name",)):
            _validate_container(validator, container, place)
    for place, volume in validator.items(spec, "volumes", "spec", ("name",)):
        _validate_volume(validator, volume, place)


def _validate_container(validator: _Validator, container: dict[str, Any], place: str) -> None:
    _validate_user(validator, container, place)
    for key in ("command", "args"):
        for index, word in enumerate(validator.sequence(container, key, place)):
            if isinstance(word, dict | list):
                validator.reject(f"{place}.{key}[{index}]", "must be a string")
    list(validator.items(container, "volumeMounts", place, ("name", "mountPath")))
    for inner, item in validator.items(container, "env", place, ("name",)):
        source = validator.mapping(item, "valueFrom", f"{inner}.valueFrom")
        if isinstance(item.get("value"), dict | list):
            validator.reject(f"{inner}.value", "must be a string")
        for kind in ("configMapKeyRef", "secretKeyRef"):
            if kind in source:
                validator.require_strings(
                    source[kind], ("name", "key"), f"{inner}.valueFrom.{kind}"
                )
    for inner, item in validator.items(container, "envFrom", place, ()):
        found = [kind for kind in ("configMapRef", "secretRef") if kind in item]
        if len(found) != 1:
            validator.reject(inner, "must have exactly one of configMapRef and secretRef")
        validator.require_strings(item[found[0]], ("name",), f"{inner}.{found[0]}")
    list(validator.items(container, "ports", place, ()))
    for key in (*_PROBES, "lifecycle"):
        validator.mapping(container, key, f"{place}.{key}")


def _validate_user(validator: _Validator, holder: dict[str, Any], place: str) -> None:
    context = validator.mapping(holder, "securityContext", f"{place}.securityContext")
    for key in ("runAsUser", "runAsGroup"):
        if not isinstance(context.get(key), int | None):
            validator.reject(f"{place}.securityContext.{key}", "must be a number")


_PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


def _validate_volume(validator: _Validator, volume: dict[str, Any], place: str) -> None:
    projected = validator.mapping(volume, "projected", f"{place}.projected")
    sources = [
        (place, volume),
        *validator.items(projected, "sources", f"{place}.projected", ()),
    ]
    for inner, source in sources:
        for kind in ("configMap", "secret", "downwardAPI"):
            payload = validator.mapping(source, kind, f"{inner}.{kind}")
            list(validator.items(payload, "items", f"{inner}.{kind}", ("path",)))


class _Validator:
    def __init__(self, name: str) -> None:
        self._name = name

    def reject(self, place: str, problem: str) -> None:
        raise ManifestError(f"{self._name}: {place} in the pod template {problem}")

    def mapping(self, holder: dict[str, Any], key: str, place: str) -> dict[str, Any]:
        """Return the mapping at a key, an empty one if absent."""
        found = holder.get(key)
        if not isinstance(found, dict | None):
            self.reject(place, "must be a mapping")
        return found or {}

    def sequence(self, holder: dict[str, Any], key: str, place: str) -> list[Any]:
        """Return the list at a key, an empty one if absent."""
        found = holder.get(key)
        if not isinstance(found, list | None):
            self.reject(f"{place}.{key}", "must be a list")
        return found or []

    def items(
        self, holder: dict[str, Any], key: str, place: str, keys: tuple[str, ...]
    ) -> list[tuple[str, dict[str, Any]]]:
        """Return the mappings of a list with their paths; each must have these keys as strings."""
        found = []
        for index, item in enumerate(self.sequence(holder, key, place)):
            inner = f"{place}.{key}[{index}]"
            self.require_strings(item, keys, inner)
            found.append((inner, item))
        return found

    def require_strings(self, item: Any, keys: tuple[str, ...], place: str) -> None:
        """Check that something is a mapping with strings at these keys."""
        if not isinstance(item, dict):
            self.reject(place, "must be a mapping")
        for key in keys:
            if not isinstance(item.get(key), str) or not item[key]:
                self.reject(place, f"requires {key}")
