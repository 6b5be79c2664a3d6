"""Volumes of pods: validation.

pkg/apis/core/validation/validation.go, validateVolumes. Paths and texts are upstream's.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from hotmap.local.apiserver.claim_validation import claim_spec_errors
from hotmap.local.field_errors import (
    FieldError,
    forbidden_field,
    invalid_value,
    required,
    rule_errors,
    unsupported,
)
from hotmap.local.json_object import JsonObject
from hotmap.local.names import projected_path_errors, qualified_name_errors
from hotmap.local.quantity import format_quantity, is_binary, parse_quantity

_HOST_PATH_TYPES = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate",
    "Socket",
)  # fmt: skip
_MODE_TEXT = "must be a number between 0 and 0777 (octal), both inclusive"
_VOLUME_FIELD_PATHS = (
    "metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace",
    "metadata.uid",
)  # fmt: skip
# What a fieldRef may be converted from (pods/helpers.go: ConvertDownwardAPIFieldLabel).
_FIELD_PATHS = (
    "metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace",
    "metadata.uid", "spec.host", "spec.nodeName", "spec.restartPolicy", "spec.schedulerName",
    "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.phase", "status.podIP",
    "status.podIPs",
)  # fmt: skip
# fieldpath.SplitMaybeSubscriptedPath
_SUBSCRIPTED = re.compile(r"(.+?)\['(.*)'\]", re.DOTALL)
_HUGE_PAGES = ("limits.hugepages-", "requests.hugepages-")
_SHOWN_RESOURCES = {"ephemeral-storage": "local ephemeral storage"}
_BYTE_DIVISORS = (
    "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
)  # fmt: skip
_RESOURCES = (
    "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu",
    "requests.ephemeral-storage", "requests.memory",
)  # fmt: skip


def field_ref_errors(ref: JsonObject, path: str, known: tuple[str, ...]) -> list[FieldError]:
    """Check a fieldRef that may have the fields of `known` (validateObjectFieldSelector)."""
    field = ref.get("fieldPath", "")
    if not field:
        return [required(f"{path}.fieldPath")]
    subscripted = _SUBSCRIPTED.fullmatch(field)
    if subscripted is None and field in known:
        return []
    if subscripted is None and field in _FIELD_PATHS:
        return [unsupported(f"{path}.fieldPath", field, known)]
    if subscripted is not None and subscripted[1] in ("metadata.annotations", "metadata.labels"):
        key = subscripted[2]
        key = key.lower() if subscripted[1] == "metadata.annotations" else key
        return rule_errors(path, key, qualified_name_errors)
    problem = "not supported" if subscripted is None else "does not support subscript"
    why = f"error converting fieldPath: field label {problem}: {field}"
    return [invalid_value(f"{path}.fieldPath", field, why)]


def resource_field_errors(
    ref: JsonObject, path: str, *, of_volume: bool = False
) -> list[FieldError]:
    """Check a resourceFieldRef (validateContainerResourceFieldSelector)."""
    resource = ref.get("resource", "")
    errors: list[FieldError] = []
    if of_volume and not ref.get("containerName"):
        errors.append(required(f"{path}.containerName"))
    elif not resource:
        errors.append(required(f"{path}.resource"))
    elif resource not in _RESOURCES and not resource.startswith(_HUGE_PAGES):
        errors.append(unsupported(f"{path}.resource", resource, _RESOURCES))
    return [*errors, *_divisor_errors(resource, str(ref.get("divisor", "0")), path)]


def _divisor_errors(resource: str, divisor: str, path: str) -> list[FieldError]:
    amount = parse_quantity(divisor)
    name = resource.partition(".")[2]
    name = "hugepages" if resource.startswith(_HUGE_PAGES) else _SHOWN_RESOURCES.get(name, name)
    known = ("1m", "1") if name == "cpu" else _BYTE_DIVISORS
    written = format_quantity(amount, binary=is_binary(divisor))
    if amount == 0 or (resource not in _RESOURCES and name != "hugepages") or written in known:
        return []
    shown = "1m and 1" if name == "cpu" else ", ".join(known)
    why = f"only divisor's values {shown} are supported with the {name} resource"
    return [invalid_value(f"{path}.divisor", resource, why)]


def volume_errors(volume: JsonObject, path: str) -> list[FieldError]:
    """Check one volume of a pod (validateVolumeSource)."""
    used = [field for field in volume if field != "name"]
    # emptyDir comes first upstream; the others in the order of its checks.
    used.sort(key=lambda field: (field not in _VOLUME_ORDER, _VOLUME_ORDER.get(field, 0)))
    errors: list[FieldError] = []
    for count, field in enumerate(used):
        if count:
            why = "may not specify more than 1 volume type"
            errors.append(forbidden_field(f"{path}.{field}", why))
        elif field in _VOLUME_RULES:
            errors += _VOLUME_RULES[field](volume[field], f"{path}.{field}")
    return errors


def _configmap_volume_errors(source: JsonObject, path: str) -> list[FieldError]:
    errors = [] if source.get("name") else [required(f"{path}.name")]
    return errors + _mode_errors(source, path, "defaultMode") + _item_errors(source, path)


def _secret_volume_errors(source: JsonObject, path: str) -> list[FieldError]:
    errors = [] if source.get("secretName") else [required(f"{path}.secretName")]
    return errors + _mode_errors(source, path, "defaultMode") + _item_errors(source, path)


def _downward_volume_errors(source: JsonObject, path: str) -> list[FieldError]:
    errors = _mode_errors(source, path, "defaultMode")
    return errors + _downward_errors(source, path)


def _downward_errors(source: JsonObject, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for item in source.get("items", ()):
        if not item.get("path"):
            errors.append(required(f"{path}.path"))
        else:
            errors += rule_errors(f"{path}.path", item["path"], projected_path_errors)
        if "fieldRef" in item:
            errors += field_ref_errors(item["fieldRef"], f"{path}.fieldRef", _VOLUME_FIELD_PATHS)
            if "resourceFieldRef" in item:
                why = "fieldRef and resourceFieldRef can not be specified simultaneously"
                errors.append(invalid_value(path, "resource", why))
        elif "resourceFieldRef" in item:
            ref, at = item["resourceFieldRef"], f"{path}.resourceFieldRef"
            errors += resource_field_errors(ref, at, of_volume=True)
        else:
            errors.append(required(path, "one of fieldRef and resourceFieldRef is required"))
        errors += _mode_errors(item, path, "mode")
    return errors


def _projected_volume_errors(source: JsonObject, path: str) -> list[FieldError]:
    errors = _mode_errors(source, path, "defaultMode")
    taken: set[str] = set()
    for index, part in enumerate(source.get("sources", ())):
        at = f"{path}.sources[{index}]"
        for count, field in enumerate(f for f in _PROJECTION_RULES if f in part):
            if count:
                why = "may not specify more than 1 volume type per source"
                errors.append(forbidden_field(at, why))
            errors += _PROJECTION_RULES[field](part[field], f"{at}.{field}")
            # The path of a token may be taken, which is only warned of.
            for target in _known_paths(part[field]):
                if target in taken:
                    why = "conflicting duplicate paths"
                    errors.append(invalid_value(path, part[field].get("name", target), why))
                taken.add(target)
    return errors


def _known_paths(projection: JsonObject) -> list[str]:
    return [item["path"] for item in projection.get("items", ()) if item.get("path")]


def _source_projection_errors(projection: JsonObject, path: str) -> list[FieldError]:
    errors = [] if projection.get("name") else [required(f"{path}.name")]
    return errors + _item_errors(projection, path)


_LONGEST_TOKEN = 1 << 32


def _token_errors(projection: JsonObject, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if projection["expirationSeconds"] < 600:
        why = "may not specify a duration less than 10 minutes"
        errors.append(
            invalid_value(f"{path}.expirationSeconds", projection["expirationSeconds"], why)
        )
    elif projection["expirationSeconds"] > _LONGEST_TOKEN:
        why = "may not specify a duration larger than 2^32 seconds"
        errors.append(
            invalid_value(f"{path}.expirationSeconds", projection["expirationSeconds"], why)
        )
    # Upstream tells the path of the volume.
    at = f"{path.rpartition('.sources[')[0]}.path"
    if not projection.get("path"):
        return [*errors, required(at)]
    return errors + rule_errors(at, projection["path"], projected_path_errors)


def _item_errors(source: JsonObject, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, item in enumerate(source.get("items", ())):
        at = f"{path}.items[{index}]"
        if not item.get("key"):
            errors.append(required(f"{at}.key"))
        if not item.get("path"):
            errors.append(required(f"{at}.path"))
        else:
            errors += rule_errors(f"{at}.path", item["path"], projected_path_errors)
        errors += _mode_errors(item, at, "mode")
    return errors


def _mode_errors(obj: JsonObject, path: str, field: str) -> list[FieldError]:
    mode = obj.get(field)
    if mode is None or 0 <= mode <= 0o777:
        return []
    return [invalid_value(f"{path}.{field}", mode, _MODE_TEXT)]


def host_path_errors(source: JsonObject, path: str) -> list[FieldError]:
    """Check a directory or file of the node."""
    if not source.get("path"):
        return [required(f"{path}.path")]
    errors: list[FieldError] = []
    if ".." in source["path"].split("/"):
        errors.append(invalid_value(f"{path}.path", source["path"], "must not contain '..'"))
    if source.get("type", "") not in _HOST_PATH_TYPES:
        errors.append(unsupported(f"{path}.type", source["type"], _HOST_PATH_TYPES))
    return errors


def _empty_directory_errors(source: JsonObject, path: str) -> list[FieldError]:
    if parse_quantity(str(source.get("sizeLimit", 0))) >= 0:
        return []
    why = "SizeLimit field must be a valid resource quantity"
    return [forbidden_field(f"{path}.sizeLimit", why)]


def _claim_volume_errors(source: JsonObject, path: str) -> list[FieldError]:
    return [] if source.get("claimName") else [required(f"{path}.claimName")]


def _ephemeral_volume_errors(source: JsonObject, path: str) -> list[FieldError]:
    at = f"{path}.volumeClaimTemplate"
    if source.get("volumeClaimTemplate") is None:
        return [required(at)]
    return list(claim_spec_errors(source["volumeClaimTemplate"].get("spec") or {}, f"{at}.spec"))


_VOLUME_RULES: dict[str, Callable[[JsonObject, str], list[FieldError]]] = {
    "emptyDir": _empty_directory_errors,
    "hostPath": host_path_errors,
    "secret": _secret_volume_errors,
    "configMap": _configmap_volume_errors,
    "downwardAPI": _downward_volume_errors,
    "projected": _projected_volume_errors,
    "persistentVolumeClaim": _claim_volume_errors,
    "ephemeral": _ephemeral_volume_errors,
}
_VOLUME_ORDER = {name: index for index, name in enumerate(_VOLUME_RULES)}
_PROJECTION_RULES: dict[str, Callable[[JsonObject, str], list[FieldError]]] = {
    "secret": _source_projection_errors,
    "configMap": _source_projection_errors,
    "downwardAPI": _downward_errors,
    "serviceAccountToken": _token_errors,
}
