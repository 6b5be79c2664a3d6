"""Containers of pods and pod templates: validation.

pkg/apis/core/validation/validation.go, as far as a node that runs processes gives the fields a
meaning. Paths and texts are upstream's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hotmap.local.apiserver.probe_validation import probe_errors, resource_errors
from hotmap.local.apiserver.security_validation import container_security_errors
from hotmap.local.apiserver.volume_validation import field_ref_errors, resource_field_errors
from hotmap.local.field_errors import (
    PORT_RANGE,
    FieldError,
    choice_errors,
    duplicate,
    forbidden_field,
    invalid_value,
    not_found_value,
    required,
    rule_errors,
    unsupported,
)
from hotmap.local.json_object import JsonObject
from hotmap.local.names import (
    config_key_errors,
    env_name_errors,
    label_name_errors,
    port_name_errors,
    relative_path_errors,
    subdomain_errors,
)

__all__ = ["container_errors", "file_volume_errors", "handler_errors", "image_error"]


_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE = ("Disabled", "Enabled", "IfPossible")
_ENV_FIELD_PATHS = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName",
    "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip


def image_error(container: JsonObject, path: str) -> list[FieldError]:
    """Check the image of a container of a pod, but not of a template."""
    image = container.get("image", "")
    if image == image.strip():
        return []
    why = "must not have leading or trailing whitespace"
    return [invalid_value(f"{path}.image", image, why)]


def container_errors(container: JsonObject, path: str, volumes: set[Any]) -> list[FieldError]:
    """Check what all kinds of containers have (validateContainerCommon)."""
    errors: list[FieldError] = []
    name = container.get("name", "")
    if not name:
        errors.append(required(f"{path}.name"))
    else:
        errors += rule_errors(f"{path}.name", name, label_name_errors)
    if not container.get("image"):
        errors.append(required(f"{path}.image"))
    errors += _ports_errors(container.get("ports", ()), f"{path}.ports")
    for index, variable in enumerate(container.get("env", ())):
        errors += _env_errors(variable, f"{path}.env[{index}]")
    for index, source in enumerate(container.get("envFrom", ())):
        errors += _env_from_errors(source, f"{path}.envFrom", index)
    errors += _mount_errors(container, f"{path}.volumeMounts", volumes)
    pull = ("Always", "IfNotPresent", "Never")
    errors += choice_errors(container, path, "imagePullPolicy", pull)
    errors += choice_errors(
        container, path, "terminationMessagePolicy", ("File", "FallbackToLogsOnError")
    )
    errors += container_security_errors(container, path)
    return errors + resource_errors(container, path)


def file_volume_errors(container: JsonObject, path: str, spec: JsonObject) -> list[FieldError]:
    """Check the volumes that variables come from (validateFileKeyRefVolumes)."""
    volumes = {volume.get("name"): volume for volume in spec.get("volumes", ())}
    errors: list[FieldError] = []
    for index, variable in enumerate(container.get("env", ())):
        ref = (variable.get("valueFrom") or {}).get("fileKeyRef")
        if ref is None:
            continue
        at, name = f"{path}.env[{index}].valueFrom.fileKeyRef.volumeName", ref.get("volumeName", "")
        if name not in volumes:
            errors.append(not_found_value(at, name))
        elif "emptyDir" not in volumes[name]:
            errors.append(invalid_value(at, name, "referenced volume must be of type emptyDir"))
    return errors


def handler_errors(
    container: JsonObject, path: str, spec: JsonObject, *, is_initial: bool
) -> list[FieldError]:
    """Check probes and hooks, which only some init containers may have."""
    if not is_initial or container.get("restartPolicy") == "Always":
        return probe_errors(container, path, grace=spec.get("terminationGracePeriodSeconds"))
    why = "may not be set for init containers without restartPolicy=Always"
    return [
        forbidden_field(f"{path}.{field}", why)
        for field in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
        if container.get(field) is not None
    ]


def _ports_errors(ports: Any, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    taken: set[str] = set()
    for index, port in enumerate(ports):
        name, at = port.get("name", ""), f"{path}[{index}]"
        whys = port_name_errors(name) if name else []
        errors += [invalid_value(f"{at}.name", name, why) for why in whys]
        if name and not whys and name in taken:
            errors.append(duplicate(f"{at}.name", name))
        taken.add(name)
        errors += _port_errors(port, at)
    return errors


def _port_errors(port: JsonObject, path: str) -> list[FieldError]:
    number = port.get("containerPort", 0)
    if not number:
        return [required(f"{path}.containerPort")]
    errors: list[FieldError] = []
    if not 1 <= number <= 65535:
        errors.append(invalid_value(f"{path}.containerPort", number, PORT_RANGE))
    host_port = port.get("hostPort", 0)
    if host_port and not 1 <= host_port <= 65535:
        errors.append(invalid_value(f"{path}.hostPort", host_port, PORT_RANGE))
    return errors + choice_errors(port, path, "protocol", ("SCTP", "TCP", "UDP"))


def _env_errors(variable: JsonObject, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    name = variable.get("name", "")
    if not name:
        errors.append(required(f"{path}.name"))
    else:
        errors += rule_errors(f"{path}.name", name, env_name_errors)
    if "valueFrom" not in variable:
        return errors
    source, at = variable["valueFrom"], f"{path}.valueFrom"
    used = [field for field in _ENV_SOURCES if field in source]
    for field in used:
        errors += _ENV_SOURCES[field](source[field], f"{at}.{field}")
    if not used:
        why = (
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, "
            "`secretKeyRef` or `fileKeyRef`"
        )
        errors.append(invalid_value(at, "", why))
    elif variable.get("value"):
        errors.append(invalid_value(at, "", "may not be specified when `value` is not empty"))
    elif len(used) > 1:
        errors.append(invalid_value(at, "", "may not have more than one field specified at a time"))
    return errors


def _env_field_errors(ref: JsonObject, path: str) -> list[FieldError]:
    return field_ref_errors(ref, path, _ENV_FIELD_PATHS)


def _key_ref_errors(ref: JsonObject, path: str) -> list[FieldError]:
    errors = rule_errors(f"{path}.name", ref.get("name", ""), subdomain_errors)
    if not ref.get("key"):
        return [*errors, required(f"{path}.key")]
    return errors + rule_errors(f"{path}.key", ref["key"], config_key_errors)


def _file_key_ref_errors(ref: JsonObject, path: str) -> list[FieldError]:
    """Check a reference to a file of environment variables (validateFileKeySelector)."""
    errors: list[FieldError] = []
    for field, rule in (
        ("key", env_name_errors),
        ("volumeName", label_name_errors),
        ("path", _no_backsteps_errors),
    ):
        if not ref.get(field):
            errors.append(required(f"{path}.{field}"))
        else:
            errors += rule_errors(f"{path}.{field}", ref[field], rule)
    return errors


def _no_backsteps_errors(path: str) -> list[str]:
    return ["must not contain '..'"] if ".." in path.split("/") else []


# In upstream's order, which is that of its messages.
_ENV_SOURCES: dict[str, Callable[[JsonObject, str], list[FieldError]]] = {
    "fieldRef": _env_field_errors,
    "resourceFieldRef": resource_field_errors,
    "configMapKeyRef": _key_ref_errors,
    "secretKeyRef": _key_ref_errors,
    "fileKeyRef": _file_key_ref_errors,
}


def _env_from_errors(source: JsonObject, path: str, index: int) -> list[FieldError]:
    at = f"{path}[{index}]"
    errors: list[FieldError] = []
    if source.get("prefix"):
        errors += rule_errors(f"{at}.prefix", source["prefix"], env_name_errors)
    used = [field for field in ("configMapRef", "secretRef") if field in source]
    for field in used:
        name = source[field].get("name", "")
        if not name:
            errors.append(required(f"{at}.{field}.name"))
        else:
            errors += rule_errors(f"{at}.{field}.name", name, subdomain_errors)
    if not used:
        why = "must specify one of: `configMapRef` or `secretRef`"
        errors.append(invalid_value(path, "", why))
    elif len(used) > 1:
        why = "may not have more than one field specified at a time"
        errors.append(invalid_value(path, "", why))
    return errors


def _mount_errors(container: JsonObject, path: str, volumes: set[Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    taken: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts", ())):
        at, name = f"{path}[{index}]", mount.get("name", "")
        target = mount.get("mountPath", "")
        if not name:
            errors.append(required(f"{at}.name"))
        if name not in volumes:
            errors.append(not_found_value(f"{at}.name", name))
        if not target:
            errors.append(required(f"{at}.mountPath"))
        elif target in taken:
            errors.append(invalid_value(f"{at}.mountPath", target, "must be unique"))
        taken.add(target)
        # Upstream's paths have no index here.
        if mount.get("subPath"):
            errors += rule_errors(f"{path}.subPath", mount["subPath"], relative_path_errors)
        if mount.get("subPathExpr"):
            if mount.get("subPath"):
                why = "subPathExpr and subPath are mutually exclusive"
                errors.append(invalid_value(f"{at}.subPathExpr", mount["subPathExpr"], why))
            errors += rule_errors(f"{path}.subPathExpr", mount["subPathExpr"], relative_path_errors)
        errors += _propagation_errors(container, mount, path)
    return errors


def _propagation_errors(container: JsonObject, mount: JsonObject, path: str) -> list[FieldError]:
    """Check what is mounted below (validateMountPropagation, validateMountRecursiveReadOnly)."""
    errors: list[FieldError] = []
    is_privileged = container.get("securityContext", {}).get("privileged")
    propagation, recursive = mount.get("mountPropagation"), mount.get("recursiveReadOnly")
    at = f"{path}.mountPropagation"
    if propagation not in (None, *_PROPAGATIONS):
        errors.append(unsupported(at, propagation, _PROPAGATIONS))
    elif propagation == "Bidirectional" and not is_privileged:
        why = "Bidirectional mount propagation is available only to privileged containers"
        errors.append(forbidden_field(at, why))
    at = f"{path}.recursiveReadOnly"
    if recursive not in (None, *_RECURSIVE):
        return [*errors, unsupported(at, recursive, _RECURSIVE)]
    if recursive in ("Enabled", "IfPossible"):
        if not mount.get("readOnly"):
            errors.append(forbidden_field(at, "may only be specified when readOnly is true"))
        if propagation not in (None, "None"):
            why = "may only be specified when mountPropagation is None or not specified"
            errors.append(forbidden_field(at, why))
    return errors
