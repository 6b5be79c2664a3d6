"""ResourceQuotas (pkg/apis/core/validation, ValidateResourceQuota)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotmap.local.field_errors import NOT_NEGATIVE, FieldError, invalid_value
from hotmap.local.names import qualified_name_errors
from hotmap.local.quantity import quantity_or_zero

if TYPE_CHECKING:
    from collections.abc import Iterator

JsonObject = dict[str, Any]


_COUNTED = ("pods", "services", "secrets", "configmaps", "persistentvolumeclaims")


_STANDARD_QUOTA = (
    *_COUNTED,
    "cpu",
    "memory",
    "storage",
    "ephemeral-storage",
    "replicationcontrollers",
    "resourcequotas",
    "services.nodeports",
    "services.loadbalancers",
)


_SCOPES = (
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
)


_WHOLE = "must be an integer"


def quota_errors(quota: JsonObject) -> Iterator[FieldError]:
    """Check a ResourceQuota."""
    spec = quota.get("spec") or {}
    for name, amount in sorted((spec.get("hard") or {}).items()):
        path = f"spec.hard[{name}]"
        for why in qualified_name_errors(name):
            yield invalid_value(path, name, why.replace("a qualified name", "a valid label key"))
        if "/" not in name and not _is_quota_resource(name):
            why = "must be a standard resource type or fully qualified"
            yield invalid_value(path, name, why)
            yield invalid_value(path, name, "must be a standard resource for quota")
        value = quantity_or_zero(amount)
        if value < 0:
            yield invalid_value(path, str(amount), NOT_NEGATIVE)
        if (name in _COUNTED or name.startswith("count/")) and value % 1:
            yield invalid_value(path, str(amount), _WHOLE)
    yield from _scope_errors(spec)


_EXCLUSIVE_SCOPES = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))


_OF_PODS = ("cpu", "limits.cpu", "limits.memory", "memory", "pods", "requests.cpu")


def _scope_errors(spec: JsonObject) -> Iterator[FieldError]:
    scopes, path = spec.get("scopes") or [], "spec.scopes"
    for scope in scopes:
        if scope not in _SCOPES:
            yield invalid_value(path, scopes, "unsupported scope")
            continue
        for name in spec.get("hard") or ():
            if _is_quota_resource(name) and not _is_in_scope(name, scope):
                yield invalid_value(path, scopes, "unsupported scope applied to resource")
    for pair in _EXCLUSIVE_SCOPES:
        if set(pair) <= set(scopes):
            yield invalid_value(path, scopes, "conflicting scopes")


def _is_in_scope(name: str, scope: str) -> bool:
    """Return whether a scope can narrow what is counted (IsResourceQuotaScopeValidForResource)."""
    if scope == "VolumeAttributesClass":
        return "storage" in name or name == "persistentvolumeclaims"
    if scope == "BestEffort":
        return name == "pods"
    return name in _OF_PODS or name == "requests.memory"


def _is_quota_resource(name: str) -> bool:
    prefix, _, rest = name.partition(".")
    return (
        name in _STANDARD_QUOTA
        or name.startswith("hugepages-")
        or (prefix in ("requests", "limits") and bool(rest))
        or name.endswith(".storage")
    )
