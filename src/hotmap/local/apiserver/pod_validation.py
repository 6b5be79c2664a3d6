"""Pods and pod templates: validation of everything but their volumes.

pkg/apis/core/validation/validation.go, as far as a node that runs processes gives the fields a
meaning. Paths and texts are upstream's.
"""

from __future__ import annotations

from typing import Any

from hotmap.local.apiserver.affinity_validation import affinity_errors
from hotmap.local.apiserver.container_validation import (
    container_errors,
    file_volume_errors,
    handler_errors,
    image_error,
)
from hotmap.local.apiserver.dns_validation import dns_errors, readiness_gate_errors
from hotmap.local.apiserver.ephemeral_validation import ephemeral_errors
from hotmap.local.apiserver.metadata import label_errors
from hotmap.local.apiserver.node_feature_validation import node_feature_errors, resize_errors
from hotmap.local.apiserver.pod_scheduling_validation import scheduling_errors
from hotmap.local.apiserver.restart_validation import restart_errors
from hotmap.local.apiserver.security_validation import host_user_errors, pod_security_errors
from hotmap.local.apiserver.volume_validation import volume_errors
from hotmap.local.field_errors import (
    FieldError,
    choice_errors,
    duplicate,
    invalid_value,
    required,
    rule_errors,
)
from hotmap.local.json_object import JsonObject
from hotmap.local.names import label_name_errors, subdomain_errors

_INT32_MAX = (1 << 31) - 1


def pod_spec_errors(spec: JsonObject, path: str) -> list[FieldError]:
    """Find everything wrong with the spec of a pod or a template (ValidatePodSpec)."""
    errors, names = _volumes_errors(spec.get("volumes", ()), f"{path}.volumes")
    if not spec.get("containers"):
        errors.append(required(f"{path}.containers"))
    for field in ("containers", "initContainers"):
        errors += _containers_errors(spec, field, path, names)
    errors += ephemeral_errors(spec, f"{path}.ephemeralContainers", names)
    errors += choice_errors(spec, path, "restartPolicy", ("Always", "OnFailure", "Never"))
    dns = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
    errors += choice_errors(spec, path, "dnsPolicy", dns)
    errors += readiness_gate_errors(spec, path)
    errors += dns_errors(spec, path)
    errors += _deadline_errors(spec, path)
    errors += [*pod_security_errors(spec, path), *host_user_errors(spec, path)]
    errors += _host_port_errors(spec, path)
    for key, value in sorted((spec.get("nodeSelector") or {}).items()):
        errors += label_errors(f"{path}.nodeSelector", {key: value})
    for field in ("serviceAccountName", "nodeName"):
        if spec.get(field):
            errors += rule_errors(f"{path}.{field}", spec[field], subdomain_errors)
    for field in ("hostname", "subdomain"):
        if spec.get(field):
            errors += rule_errors(f"{path}.{field}", spec[field], label_name_errors)
    errors += [*scheduling_errors(spec, path), *affinity_errors(spec, path)]
    errors += node_feature_errors(spec, path)
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            errors += file_volume_errors(container, f"{path}.{field}[{index}]", spec)
    return errors


def image_errors(spec: JsonObject, path: str) -> list[FieldError]:
    """Check the images of a pod, but not of a template (validateContainerOnlyForPod)."""
    return [
        error
        for field in ("initContainers", "containers")
        for index, container in enumerate(spec.get(field, ()))
        for error in image_error(container, f"{path}.{field}[{index}]")
    ]


def _containers_errors(
    spec: JsonObject, field: str, path: str, volumes: set[Any]
) -> list[FieldError]:
    errors: list[FieldError] = []
    is_initial = field == "initContainers"
    taken = {c.get("name", "") for c in spec.get("containers", ())} if is_initial else set()
    for index, container in enumerate(spec.get(field, ())):
        at = f"{path}.{field}[{index}]"
        errors += container_errors(container, at, volumes)
        pod_restart = spec.get("restartPolicy", "")
        errors += resize_errors(container, at, pod_restart, is_initial=is_initial)
        handlers = handler_errors(container, at, spec, is_initial=is_initial)
        restarts = restart_errors(container, at)
        errors += [*restarts, *handlers] if is_initial else [*handlers, *restarts]
        if container.get("name") in taken:
            errors.append(duplicate(f"{at}.name", container["name"]))
        taken.add(container.get("name", ""))
    return errors


def _deadline_errors(spec: JsonObject, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    deadline = spec.get("activeDeadlineSeconds", 1)
    if not 1 <= deadline <= _INT32_MAX:
        why = f"must be between 1 and {_INT32_MAX}, inclusive"
        errors.append(invalid_value(f"{path}.activeDeadlineSeconds", deadline, why))
    return errors


def _host_port_errors(spec: JsonObject, path: str) -> list[FieldError]:
    """Check the ports of the node that containers ask for (checkHostPortConflicts)."""
    errors: list[FieldError] = []
    taken: set[str] = set()
    for number, container in enumerate(spec.get("containers") or ()):
        for index, port in enumerate(container.get("ports") or ()):
            at = f"{path}.containers[{number}].ports[{index}].hostPort"
            wanted = port.get("hostPort", 0)
            if spec.get("hostNetwork") and wanted != port.get("containerPort", 0):
                why = "must match `containerPort` when `hostNetwork` is true"
                errors.append(invalid_value(at, wanted, why))
            key = f"{port.get('protocol', 'TCP')}/{port.get('hostIP', '')}/{wanted}"
            if wanted and key in taken:
                errors.append(duplicate(at, key))
            taken.add(key)
    return errors


def _volumes_errors(volumes: Any, path: str) -> tuple[list[FieldError], set[Any]]:
    """Check the volumes; return the names of those that are right as well (ValidateVolumes)."""
    errors: list[FieldError] = []
    taken: set[Any] = set()
    for index, volume in enumerate(volumes):
        at, name = f"{path}[{index}]", volume.get("name", "")
        found = volume_errors(volume, at)
        if not name:
            found.append(required(f"{at}.name"))
        else:
            found += rule_errors(f"{at}.name", name, label_name_errors)
        if name in taken:
            found.append(duplicate(f"{at}.name", name))
        if not found:
            taken.add(name)
        errors += found
    return errors, taken
