"""Says where a pod template is not shaped as one, before anything is worked out from it."""

from __future__ import annotations

from typing import Any

from hotmap.core.errors import ManifestError

__all__ = ["require_shape"]


def require_shape(template: dict[str, Any], name: str) -> None:
    """See that what injection reads of a pod template is what it takes it for.

    Only that: whether the API server takes the pod is the API server's to say.

    Raises:
        ManifestError: it is not; names object and field.
    """
    checker = _Checker(name)
    metadata = checker.mapping(template, "metadata", "metadata")
    checker.mapping(metadata, "annotations", "metadata.annotations")
    spec = checker.mapping(template, "spec", "spec")
    if not spec.get("containers"):
        raise ManifestError(f"{name} has no containers in its pod template")
    _require_user(checker, spec, "spec")
    for field in ("containers", "initContainers"):
        for place, container in checker.items(spec, field, "spec", ("name",)):
            _require_container(checker, container, place)
    for place, volume in checker.items(spec, "volumes", "spec", ("name",)):
        _require_volume(checker, volume, place)


def _require_container(checker: _Checker, container: dict[str, Any], place: str) -> None:
    _require_user(checker, container, place)
    for key in ("command", "args"):
        for index, word in enumerate(checker.sequence(container, key, place)):
            if isinstance(word, dict | list):
                checker.refuse(f"{place}.{key}[{index}]", "is no text")
    list(checker.items(container, "volumeMounts", place, ("name", "mountPath")))
    for inner, one in checker.items(container, "env", place, ("name",)):
        source = checker.mapping(one, "valueFrom", f"{inner}.valueFrom")
        if isinstance(one.get("value"), dict | list):
            checker.refuse(f"{inner}.value", "is no text")
        for kind in ("configMapKeyRef", "secretKeyRef"):
            if kind in source:
                checker.texts(source[kind], ("name", "key"), f"{inner}.valueFrom.{kind}")
    for inner, one in checker.items(container, "envFrom", place, ()):
        found = [kind for kind in ("configMapRef", "secretRef") if kind in one]
        if len(found) != 1:
            checker.refuse(inner, "has not exactly one of configMapRef and secretRef")
        checker.texts(one[found[0]], ("name",), f"{inner}.{found[0]}")
    for key in (*_PROBES, "lifecycle"):
        checker.mapping(container, key, f"{place}.{key}")


def _require_user(checker: _Checker, holder: dict[str, Any], place: str) -> None:
    context = checker.mapping(holder, "securityContext", f"{place}.securityContext")
    for key in ("runAsUser", "runAsGroup"):
        if not isinstance(context.get(key), int | None):
            checker.refuse(f"{place}.securityContext.{key}", "is no number")


_PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


def _require_volume(checker: _Checker, volume: dict[str, Any], place: str) -> None:
    projected = checker.mapping(volume, "projected", f"{place}.projected")
    sources = [
        (place, volume),
        *checker.items(projected, "sources", f"{place}.projected", ()),
    ]
    for inner, source in sources:
        for kind in ("configMap", "secret", "downwardAPI"):
            payload = checker.mapping(source, kind, f"{inner}.{kind}")
            list(checker.items(payload, "items", f"{inner}.{kind}", ("path",)))


class _Checker:
    def __init__(self, name: str) -> None:
        self._name = name

    def refuse(self, place: str, problem: str) -> None:
        raise ManifestError(f"{self._name}: {place} of its pod template {problem}")

    def mapping(self, holder: dict[str, Any], key: str, place: str) -> dict[str, Any]:
        """Give the mapping at a key, an empty one for none."""
        found = holder.get(key)
        if not isinstance(found, dict | None):
            self.refuse(place, "is no mapping")
        return found or {}

    def sequence(self, holder: dict[str, Any], key: str, place: str) -> list[Any]:
        """Give the list at a key, an empty one for none."""
        found = holder.get(key)
        if not isinstance(found, list | None):
            self.refuse(f"{place}.{key}", "is no list")
        return found or []

    def items(
        self, holder: dict[str, Any], key: str, place: str, texts: tuple[str, ...]
    ) -> list[tuple[str, dict[str, Any]]]:
        """Give the mappings of a list with their places; each has these keys with texts."""
        found = []
        for index, item in enumerate(self.sequence(holder, key, place)):
            inner = f"{place}.{key}[{index}]"
            self.texts(item, texts, inner)
            found.append((inner, item))
        return found

    def texts(self, item: Any, keys: tuple[str, ...], place: str) -> None:
        """See that something is a mapping with texts at these keys."""
        if not isinstance(item, dict):
            self.refuse(place, "is no mapping")
        for key in keys:
            if not isinstance(item.get(key), str) or not item[key]:
                self.refuse(place, f"has no {key}")
