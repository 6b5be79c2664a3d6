"""Security contexts of pods and their containers (pkg/apis/core/validation/validation.go)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotmap.local.field_errors import (
    FieldError,
    forbidden_field,
    invalid_value,
    required,
    rule_errors,
    unsupported,
)
from hotmap.local.json_object import JsonObject
from hotmap.local.names import relative_path_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_INT32_MAX = (1 << 31) - 1
# The fields in the order of Go's type, which messages show.
_FIELDS = (
    "capabilities", "privileged", "seLinuxOptions", "windowsOptions", "runAsUser", "runAsGroup",
    "runAsNonRoot", "readOnlyRootFilesystem", "allowPrivilegeEscalation", "procMount",
    "seccompProfile", "appArmorProfile",
)  # fmt: skip
_HOST_NAMESPACES = {"hostNetwork": "hostNetwork", "hostPID": "HostPID", "hostIPC": "HostIPC"}
_GO_NAMES = {"seLinuxOptions": "SELinuxOptions"}


def pod_security_errors(spec: JsonObject, path: str) -> Iterator[FieldError]:
    """Check the security context of a pod or a template."""
    context, at = spec.get("securityContext") or {}, f"{path}.securityContext"
    yield from _identity_errors(context, at, ("fsGroup", "runAsUser", "runAsGroup"))
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        yield from _id_errors(f"{at}.supplementalGroups[{index}]", group)
    yield from _profile_errors(context, at)
    if spec.get("hostPID") and spec.get("shareProcessNamespace"):
        why = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield invalid_value(f"{at}.shareProcessNamespace", True, why)


def host_user_errors(spec: JsonObject, path: str) -> Iterator[FieldError]:
    """Check what a pod with users of its own may not share with the host (validateHostUsers)."""
    if spec.get("hostUsers") is False:
        # Two of the paths have the names of Go's fields.
        for field, named in _HOST_NAMESPACES.items():
            if spec.get(field):
                yield forbidden_field(f"{path}.{named}", "when `hostUsers` is false")


def container_security_errors(container: JsonObject, path: str) -> Iterator[FieldError]:
    """Check the security context of a container (ValidateSecurityContext)."""
    context, at = container.get("securityContext") or {}, f"{path}.securityContext"
    yield from _identity_errors(context, at, ("runAsUser", "runAsGroup"))
    mount = context.get("procMount")
    if mount not in (None, "Default", "Unmasked"):
        yield unsupported(f"{at}.procMount", mount, ("Default", "Unmasked"))
    if context.get("allowPrivilegeEscalation") is False:
        why = "cannot set `allowPrivilegeEscalation` to false and "
        if context.get("privileged"):
            yield invalid_value(at, _go_context(context), f"{why}`privileged` to true")
        for capability in (context.get("capabilities") or {}).get("add") or ():
            if capability == "CAP_SYS_ADMIN":
                yield invalid_value(
                    at, _go_context(context), f"{why}`capabilities.Add` CAP_SYS_ADMIN"
                )
    yield from _profile_errors(context, at)


def _profile_errors(context: JsonObject, path: str) -> Iterator[FieldError]:
    """Check the profiles (validateSeccompProfileField, ValidateAppArmorProfileField)."""
    for field, name in (("seccompProfile", "seccomp"), ("appArmorProfile", "AppArmor")):
        profile, at = context.get(field), f"{path}.{field}"
        if profile is None:
            continue
        kind, local = profile.get("type", ""), profile.get("localhostProfile")
        is_seccomp = field == "seccompProfile"
        if not kind:
            yield required(f"{at}.type", f"type is required when {field} is set")
        elif kind not in _PROFILES:
            yield unsupported(f"{at}.type", kind, _PROFILES)
        if kind == "Localhost":
            yield from _local_profile_errors(local, f"{at}.localhostProfile", name)
        elif local is not None and (kind or is_seccomp):
            shown = {"Type": kind, "LocalhostProfile": local} if is_seccomp else local
            why = f"can only be set when {name} type is Localhost"
            yield invalid_value(f"{at}.localhostProfile", shown, why)


def _local_profile_errors(profile: str | None, path: str, name: str) -> Iterator[FieldError]:
    is_seccomp = name == "seccomp"
    if profile is None or not (profile or is_seccomp):
        yield required(path, f"must be set when {name} type is Localhost")
    elif is_seccomp:
        yield from rule_errors(path, profile, relative_path_errors)
    elif profile != profile.strip():
        yield invalid_value(path, profile, "must not be padded with whitespace")


def _identity_errors(
    context: JsonObject, path: str, fields: tuple[str, ...]
) -> Iterator[FieldError]:
    for field in fields:
        yield from _id_errors(f"{path}.{field}", context.get(field, 0))


def _id_errors(path: str, number: int) -> Iterator[FieldError]:
    if not 0 <= number <= _INT32_MAX:
        yield invalid_value(path, number, f"must be between 0 and {_INT32_MAX}, inclusive")


def _go_context(context: JsonObject) -> JsonObject:
    return {_GO_NAMES.get(f, f[0].upper() + f[1:]): _go_value(context.get(f)) for f in _FIELDS}


def _go_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {name[0].upper() + name[1:]: inner for name, inner in value.items()}
    return value
