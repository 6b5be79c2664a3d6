"""Names of resources that containers ask for and quotas count (core/helper/helpers.go)."""

from __future__ import annotations

from hotmap.local.field_errors import FieldError, invalid_value
from hotmap.local.names import qualified_name_errors

__all__ = [
    "container_resource_errors",
    "is_counted",
    "is_extended",
    "is_quota_resource",
    "quota_resource_errors",
    "resource_name_errors",
]

_OF_CONTAINERS = ("cpu", "memory", "ephemeral-storage")
_COUNTED = (
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
)
_OF_QUOTAS = (
    *_COUNTED,
    *(f"{prefix}{name}" for prefix in ("", "requests.", "limits.") for name in _OF_CONTAINERS),
    "requests.storage",
)


def resource_name_errors(name: str, path: str) -> list[FieldError]:
    """Check any name (validateResourceName)."""
    errors = [invalid_value(path, name, why) for why in qualified_name_errors(name)]
    if not errors and "/" not in name and name != "storage" and not is_quota_resource(name):
        why = "must be a standard resource type or fully qualified"
        errors.append(invalid_value(path, name, why))
    return errors


def container_resource_errors(name: str, path: str) -> list[FieldError]:
    """Check what a container asks for (validateContainerResourceName)."""
    errors = resource_name_errors(name, path)
    if "/" not in name and name not in _OF_CONTAINERS and not name.startswith("hugepages-"):
        errors.append(invalid_value(path, name, "must be a standard resource for containers"))
    return errors


def quota_resource_errors(name: str, path: str) -> list[FieldError]:
    """Check what a ResourceQuota bounds (ValidateResourceQuotaResourceName)."""
    errors = resource_name_errors(name, path)
    if "/" not in name and not is_quota_resource(name):
        errors.append(invalid_value(path, name, "must be a standard resource for quota"))
    return errors


def is_quota_resource(name: str) -> bool:
    """Return whether a quota bounds a resource (IsStandardQuotaResourceName)."""
    return name in _OF_QUOTAS or name.startswith(("hugepages-", "requests.hugepages-"))


def is_counted(name: str) -> bool:
    """Return whether there are only whole amounts of a resource (IsIntegerResourceName)."""
    return name in _COUNTED or is_extended(name)


def is_extended(name: str) -> bool:
    """Return whether a resource is that of a device (IsExtendedResourceName)."""
    is_native = "/" not in name or "kubernetes.io/" in name
    return not (
        is_native or name.startswith("requests.") or qualified_name_errors(f"requests.{name}")
    )
