"""Ephemeral containers of pods: validation.

kubernetes: pkg/apis/core/validation/validation.go, validateEphemeralContainers. Paths and texts are
upstream's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotmap.local.apiserver.container_validation import container_errors, image_error
from hotmap.local.field_errors import duplicate, forbidden_field, not_found_value

if TYPE_CHECKING:
    from hotmap.local.field_errors import FieldError

__all__ = ["ephemeral_errors"]

#: Fields of containers that an ephemeral one may not have, in the order of their messages.
_FORBIDDEN = (
    "ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules", "livenessProbe",
    "readinessProbe", "startupProbe", "lifecycle",
)  # fmt: skip
_WHY = "cannot be set for an Ephemeral Container"


def ephemeral_errors(spec: dict[str, Any], path: str, volumes: set[Any]) -> list[FieldError]:
    """Check the ephemeral containers of a pod; `volumes` are the names of its volumes."""
    others = {
        container.get("name", "")
        for field in ("containers", "initContainers")
        for container in spec.get(field) or ()
    }
    errors: list[FieldError] = []
    taken = set(others)
    for index, container in enumerate(spec.get("ephemeralContainers") or ()):
        at, name = f"{path}[{index}]", container.get("name", "")
        errors += container_errors(container, at, volumes)
        errors += image_error(container, at)
        if name in taken:
            errors.append(duplicate(f"{at}.name", name))
        taken.add(name)
        target = container.get("targetContainerName")
        if target and target not in others:
            errors.append(not_found_value(f"{at}.targetContainerName", target))
        errors += [
            forbidden_field(f"{at}.{field}", _WHY) for field in _FORBIDDEN if container.get(field)
        ]
        errors += [
            forbidden_field(f"{at}.volumeMounts[{number}].{field}", _WHY)
            for number, mount in enumerate(container.get("volumeMounts") or ())
            for field in ("subPath", "subPathExpr")
            if mount.get(field)
        ]
    return errors
