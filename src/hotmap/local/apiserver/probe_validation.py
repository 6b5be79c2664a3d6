"""Probes, lifecycle handlers and resources of a container (pkg/apis/core/validation)."""

from __future__ import annotations

from hotmap.local.apiserver.resource_names import container_resource_errors
from hotmap.local.field_errors import (
    NOT_NEGATIVE,
    PORT_RANGE,
    FieldError,
    forbidden_field,
    invalid_value,
    required,
    rule_errors,
    unsupported,
)
from hotmap.local.json_object import JsonObject
from hotmap.local.names import header_name_errors, port_name_errors
from hotmap.local.quantity import parse_quantity

_SCHEMES = ("HTTP", "HTTPS")
_NATIVE_DOMAIN, _HUGE_PAGES, _COMPUTE = "kubernetes.io/", "hugepages-", ("cpu", "memory")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_COUNTS = (
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
)


def probe_errors(container: JsonObject, path: str, *, grace: int | None) -> list[FieldError]:
    """Find everything wrong with probes and hooks; `grace` is the pod's grace period in seconds."""
    errors: list[FieldError] = []
    lifecycle = container.get("lifecycle") or {}
    for field in ("postStart", "preStop"):
        if field in lifecycle:
            at = f"{path}.lifecycle.{field}"
            errors += _handler_errors(lifecycle[field], at)
            errors += _sleep_errors(lifecycle[field], f"{at}.sleep", grace)
    for field in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe, at = container.get(field), f"{path}.{field}"
        if probe is None:
            continue
        errors += _handler_errors(probe, at)
        errors += [
            invalid_value(f"{at}.{count}", probe[count], NOT_NEGATIVE)
            for count in _COUNTS
            if probe.get(count, 0) < 0
        ]
        if field != "readinessProbe" and probe.get("successThreshold", 1) != 1:
            threshold = probe["successThreshold"]
            errors.append(invalid_value(f"{at}.successThreshold", threshold, "must be 1"))
        errors += _grace_errors(field, probe, at)
    return errors


def _sleep_errors(handler: JsonObject, path: str, grace: int | None) -> list[FieldError]:
    """Check a sleep where it is the hook (validateSleepAction)."""
    if [field for field in _HANDLERS if field in handler] != ["sleep"] or grace is None:
        return []
    seconds = handler["sleep"].get("seconds", 0)
    if 0 <= seconds <= grace:
        return []
    why = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
    return [invalid_value(path, seconds, why)]


def _grace_errors(field: str, probe: JsonObject, path: str) -> list[FieldError]:
    """Check the grace period of a probe, which a readiness probe does not have."""
    grace, at = probe.get("terminationGracePeriodSeconds"), f"{path}.terminationGracePeriodSeconds"
    if grace is None:
        return []
    if field == "readinessProbe":
        return [invalid_value(at, grace, "must not be set for readinessProbes")]
    return [] if grace > 0 else [invalid_value(at, grace, "must be greater than 0")]


def _handler_errors(handler: JsonObject, path: str) -> list[FieldError]:
    used = [field for field in _HANDLERS if field in handler]
    if not used:
        return [required(path, "must specify a handler type")]
    errors = [
        forbidden_field(f"{path}.{field}", "may not specify more than 1 handler type")
        for field in used[1:]
    ]
    first = handler[used[0]]
    if used[0] in ("httpGet", "tcpSocket", "grpc"):
        errors = [*_port_errors(first.get("port", 0), f"{path}.{used[0]}.port"), *errors]
    if used[0] == "httpGet":
        if first.get("scheme", "HTTP") not in _SCHEMES:
            errors.append(unsupported(f"{path}.httpGet.scheme", first["scheme"], _SCHEMES))
        for header in first.get("httpHeaders") or ():
            errors += rule_errors(
                f"{path}.httpGet.httpHeaders", header.get("name", ""), header_name_errors
            )
    if used[0] == "exec" and not first.get("command"):
        errors.insert(0, required(f"{path}.exec.command"))
    return errors


def _port_errors(port: int | str, path: str) -> list[FieldError]:
    """Check a number or the name of a port (ValidatePortNumOrName)."""
    if isinstance(port, str):
        return rule_errors(path, port, port_name_errors)
    return [] if 1 <= port <= 65535 else [invalid_value(path, port, PORT_RANGE)]


def resource_errors(container: JsonObject, path: str) -> list[FieldError]:
    """Find unknown names, negative amounts, and requests beyond their limits.

    ValidateResourceRequirements.
    """
    resources, at = container.get("resources") or {}, f"{path}.resources"
    errors: list[FieldError] = []
    for field in ("limits", "requests"):
        for name in sorted(resources.get(field) or {}):
            errors += container_resource_errors(name, f"{at}.{field}[{name}]")
        errors += [
            invalid_value(f"{at}.{field}[{name}]", str(amount), NOT_NEGATIVE)
            for name, amount in sorted((resources.get(field) or {}).items())
            if parse_quantity(str(amount)) < 0
        ]
        errors += [
            invalid_value(f"{at}.{field}[{name}]", str(amount), "must be an integer")
            for name, amount in sorted((resources.get(field) or {}).items())
            if _is_extended(name) and parse_quantity(str(amount)) % 1
        ]
    limits = resources.get("limits") or {}
    for name, amount in sorted((resources.get("requests") or {}).items()):
        limit = limits.get(name)
        if limit is None:
            if not _is_overcommitted(name):
                why = "Limit must be set for non overcommitable resources"
                errors.append(required(f"{at}.limits", why))
            continue
        wanted, allowed = parse_quantity(str(amount)), parse_quantity(str(limit))
        why = ""
        if wanted != allowed and not _is_overcommitted(name):
            why = f"must be equal to {name} limit of {limit}"
        elif wanted > allowed:
            why = f"must be less than or equal to {name} limit of {limit}"
        if why:
            errors.append(invalid_value(f"{at}.requests", str(amount), why))
    names = {*limits, *(resources.get("requests") or {})}
    if any(name.startswith(_HUGE_PAGES) for name in names) and names.isdisjoint(_COMPUTE):
        errors.append(forbidden_field(at, "HugePages require cpu or memory"))
    return errors


def _is_extended(name: str) -> bool:
    """Return whether a resource is counted in whole units (IsExtendedResourceName)."""
    return "/" in name and _NATIVE_DOMAIN not in name


def _is_overcommitted(name: str) -> bool:
    """Return whether a node may promise more of a resource than it has (IsOvercommitAllowed)."""
    return not (_is_extended(name) or name.startswith(_HUGE_PAGES))
