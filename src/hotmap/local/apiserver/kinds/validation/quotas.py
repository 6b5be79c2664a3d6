"""ResourceQuotas (pkg/apis/core/validation, ValidateResourceQuota)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotmap.local.apiserver.resource_names import (
    is_counted,
    is_quota_resource,
    quota_resource_errors,
)
from hotmap.local.field_errors import IMMUTABLE, NOT_NEGATIVE, FieldError, invalid_value, required
from hotmap.local.json_object import JsonObject
from hotmap.local.quantity import quantity_or_zero

if TYPE_CHECKING:
    from collections.abc import Iterator

_SCOPES = (
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
)
_UNKNOWN = "unsupported scope"
_BEYOND = "unsupported scope applied to resource"
_WHOLE = "must be an integer"
_EXCLUSIVE_SCOPES = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))
# Scopes that have no values to select.
_PLAIN_SCOPES = (*_SCOPES[:4], "Terminating")
_NEEDS_EXISTS = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
    "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "
    "ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)
_OF_PODS = (
    "pods",
    *(f"{prefix}{name}" for prefix in ("", "limits.", "requests.") for name in ("cpu", "memory")),
)


def quota_errors(quota: JsonObject) -> Iterator[FieldError]:
    """Check a ResourceQuota."""
    spec = quota["spec"]
    for name, amount in sorted((spec.get("hard") or {}).items()):
        path, value = f"spec.hard[{name}]", quantity_or_zero(amount)
        yield from quota_resource_errors(name, path)
        if value < 0:
            yield invalid_value(path, str(amount), NOT_NEGATIVE)
        if is_counted(name) and value != value.to_integral_value():
            yield invalid_value(path, str(amount), _WHOLE)
    yield from _scope_errors(spec)


def _scope_errors(spec: JsonObject) -> Iterator[FieldError]:
    scopes, selector = spec.get("scopes") or [], spec.get("scopeSelector") or {}
    path, at = "spec.scopes", "spec.scopeSelector.matchExpressions"
    for scope in scopes:
        if scope not in _SCOPES:
            yield invalid_value(path, scopes, _UNKNOWN)
        for _ in _resources_beyond(spec, scope):
            yield invalid_value(path, scopes, _BEYOND)
    expressions = selector.get("matchExpressions") or ()
    for expression in expressions:
        if expression["scopeName"] not in _SCOPES:
            yield invalid_value(f"{at}.scopeName", expression["scopeName"], _UNKNOWN)
        for _ in _resources_beyond(spec, expression["scopeName"]):
            yield invalid_value(at, selector, _BEYOND)
        yield from _expression_errors(expression, at)
    for pair in _EXCLUSIVE_SCOPES:
        for used in (scopes, [expression["scopeName"] for expression in expressions]):
            if set(pair) <= set(used):
                yield invalid_value(path, scopes, "conflicting scopes")


def quota_update_errors(old: JsonObject, new: JsonObject) -> Iterator[FieldError]:
    """What a quota counts never changes."""
    before, after = (obj["spec"].get("scopes") or [] for obj in (old, new))
    if set(before) != set(after):
        yield invalid_value("spec.scopes", after, IMMUTABLE)


def _resources_beyond(spec: JsonObject, scope: str) -> list[str]:
    hard = spec.get("hard") or ()
    return [name for name in hard if is_quota_resource(name) and not _is_in_scope(name, scope)]


def _expression_errors(expression: JsonObject, path: str) -> Iterator[FieldError]:
    operator, values = expression["operator"], expression.get("values") or []
    if expression["scopeName"] in _PLAIN_SCOPES and operator != "Exists":
        yield invalid_value(f"{path}.operator", operator, _NEEDS_EXISTS)
    if operator in ("In", "NotIn"):
        if not values:
            why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            yield required(f"{path}.values", why)
    elif operator not in ("Exists", "DoesNotExist"):
        yield invalid_value(f"{path}.operator", operator, "not a valid selector operator")
    elif values:
        why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
        yield invalid_value(f"{path}.values", values, why)


def _is_in_scope(name: str, scope: str) -> bool:
    """Return whether a scope can narrow what is counted (IsResourceQuotaScopeValidForResource)."""
    if scope == "VolumeAttributesClass":
        return name in ("persistentvolumeclaims", "requests.storage")
    if scope == "BestEffort":
        return name == "pods"
    return scope not in _SCOPES or name in _OF_PODS
