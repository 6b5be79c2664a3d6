"""What ResourceQuotas count: the usage of objects, and which of them a quota is about.

kubernetes: pkg/quota/v1/evaluator/core. Decides on objects alone.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from hotmap.local.json_object import JsonObject
from hotmap.local.quantity import format_quantity, is_binary, quantity_or_zero

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hotmap.local.scheme import Kind

__all__ = [
    "counts",
    "format_usage",
    "is_in_scope",
    "missing_requests",
    "pod_resources",
    "total",
    "usage_of",
]

Usage = dict[str, Decimal]

# Kinds whose number has a name of its own beside `count/<resource>`.
_NAMED = (
    "configmaps",
    "persistentvolumeclaims",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
)
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_OUTSIDE = ("NodePort", "LoadBalancer")


def counts(kind: Kind, resource: str) -> bool:
    """Return whether objects of a kind may use a resource of a quota."""
    if resource == f"count/{kind.resource}":
        return True
    if kind.group:
        return False
    match kind.plural:
        case "pods":
            # The name of an extended resource has dots of its own.
            prefix, _, name = resource.partition(".")
            is_compute = prefix in ("requests", "limits") or resource in _COMPUTE
            return resource == "pods" or (is_compute and name != "storage")
        case "services":
            return resource in ("services", "services.nodeports", "services.loadbalancers")
        case "persistentvolumeclaims":
            name = resource.rpartition("/")[2]
            return name in ("persistentvolumeclaims", "requests.storage")
    return kind.plural in _NAMED and resource == kind.plural


def usage_of(kind: Kind, obj: JsonObject) -> Usage:
    """Return what one object uses."""
    used: Usage = {f"count/{kind.resource}": Decimal(1)}
    if kind.group:
        return used
    spec = obj.get("spec") or {}
    match kind.plural:
        case "pods":
            if (obj.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
                used |= _pod_usage(spec)
        case "services":
            used |= _service_usage(spec)
        case "persistentvolumeclaims":
            used |= _claim_usage(spec)
        case plural if plural in _NAMED:
            used[plural] = Decimal(1)
    return used


def _pod_usage(spec: JsonObject) -> Usage:
    used: Usage = {"pods": Decimal(1)}
    for part in ("requests", "limits"):
        for name, amount in pod_resources(spec, part).items():
            used[f"{part}.{name}"] = amount
            if part == "requests" and name in _COMPUTE:
                used[name] = amount
    return used


def _service_usage(spec: JsonObject) -> Usage:
    used: Usage = {"services": Decimal(1)}
    if spec.get("type") in _OUTSIDE:
        ports = [port for port in spec.get("ports") or () if port.get("nodePort")]
        used["services.nodeports"] = Decimal(len(ports))
    if spec.get("type") == "LoadBalancer":
        used["services.loadbalancers"] = Decimal(1)
    return used


def _claim_usage(spec: JsonObject) -> Usage:
    requests = (spec.get("resources") or {}).get("requests") or {}
    storage = quantity_or_zero(requests.get("storage", "0"))
    used: Usage = {"persistentvolumeclaims": Decimal(1), "requests.storage": storage}
    if spec.get("storageClassName"):
        prefix = f"{spec['storageClassName']}.storageclass.storage.k8s.io"
        used[f"{prefix}/requests.storage"] = storage
        used[f"{prefix}/persistentvolumeclaims"] = Decimal(1)
    return used


def pod_resources(spec: Mapping[str, Any], part: str) -> Usage:
    """Add up the requests or limits of a pod; an init container counts where it needs more."""
    found: Usage = {}
    for container in spec.get("containers") or ():
        for name, amount in ((container.get("resources") or {}).get(part) or {}).items():
            found[name] = found.get(name, Decimal(0)) + quantity_or_zero(amount)
    for container in spec.get("initContainers") or ():
        for name, amount in ((container.get("resources") or {}).get(part) or {}).items():
            found[name] = max(found.get(name, Decimal(0)), quantity_or_zero(amount))
    return found


def total(usages: Iterable[Usage]) -> Usage:
    """Add up what several objects use."""
    found: Usage = {}
    for usage in usages:
        for name, amount in usage.items():
            found[name] = found.get(name, Decimal(0)) + amount
    return found


def is_in_scope(quota: JsonObject, kind: Kind, obj: JsonObject) -> bool:
    """Return whether a quota is about an object; only pods can be outside of its scopes."""
    spec = quota.get("spec") or {}
    selected = (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    scopes = [{"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ()]
    if not scopes and not selected:
        return True
    if (kind.group, kind.plural) != ("", "pods"):
        return False
    return all(_matches(expression, obj["spec"]) for expression in [*scopes, *selected])


def _matches(expression: JsonObject, spec: JsonObject) -> bool:
    amounts = [pod_resources(spec, part) for part in ("requests", "limits")]
    best_effort = not any(each.get(name) for each in amounts for name in ("cpu", "memory"))
    terminating = spec.get("activeDeadlineSeconds") is not None
    match expression.get("scopeName"):
        case "BestEffort":
            return best_effort
        case "NotBestEffort":
            return not best_effort
        case "Terminating":
            return terminating
        case "NotTerminating":
            return not terminating
        case "PriorityClass":
            name, values = spec.get("priorityClassName"), expression.get("values") or ()
            match expression.get("operator"):
                case "In":
                    return name in values
                case "NotIn":
                    return name not in values
                case "DoesNotExist":
                    return not name
            return bool(name)
        case "CrossNamespacePodAffinity":
            return _reaches_other_namespaces(spec.get("affinity") or {})
    return False


def _reaches_other_namespaces(affinity: JsonObject) -> bool:
    """Return whether a term of pods' (anti-)affinity names namespaces or selects them."""
    terms: list[JsonObject] = []
    for field in ("podAffinity", "podAntiAffinity"):
        part = affinity.get(field) or {}
        terms += part.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        weighted = part.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [term.get("podAffinityTerm") or {} for term in weighted]
    return any(term.get("namespaces") or "namespaceSelector" in term for term in terms)


def missing_requests(hard: JsonObject, spec: JsonObject) -> str:
    """Return the fields that a pod lacks, "" if none (enforcePodContainerConstraints)."""
    missing: dict[str, list[str]] = {}
    for container in spec.get("containers") or ():
        resources = container.get("resources") or {}
        for resource in hard:
            part, _, name = resource.rpartition(".")
            if resource not in _COMPUTE and part not in ("requests", "limits"):
                continue
            if name not in _COMPUTE and resource not in _COMPUTE:
                continue
            if (name or resource) not in (resources.get(part or "requests") or {}):
                missing.setdefault(resource, []).append(container["name"])
    return "; ".join(f"{name} for: {','.join(missing[name])}" for name in sorted(missing))


def format_usage(amounts: Usage, hard: JsonObject) -> dict[str, str]:
    """Write amounts of a quota's resources in the units of their limits."""
    return {
        name: format_quantity(amounts.get(name, Decimal(0)), binary=is_binary(str(hard[name])))
        for name in sorted(hard)
    }
