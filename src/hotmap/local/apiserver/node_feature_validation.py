"""Fields of pods that only other nodes act on: validation.

pkg/apis/core/validation/validation.go. They are checked all the same, so that a manifest that is
taken here is taken by Kubernetes. Paths and texts are upstream's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotmap.local.apiserver.probe_validation import resource_errors
from hotmap.local.field_errors import (
    FieldError,
    duplicate,
    invalid_value,
    required,
    rule_errors,
    too_long,
    unsupported,
)
from hotmap.local.json_object import JsonObject
from hotmap.local.names import qualified_name_errors, subdomain_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["node_feature_errors", "resize_errors"]


_SYSTEMS = ("linux", "windows")
_PREEMPTION = ("PreemptLowerPriority", "Never")
_RESIZED = ("cpu", "memory")
_RESIZE_POLICIES = ("NotRequired", "RestartContainer")
_MAX_HOSTNAME = 64


def node_feature_errors(spec: JsonObject, path: str) -> Iterator[FieldError]:
    """Find everything wrong with these fields of the spec of a pod or a template."""
    if (system := spec.get("os")) is not None:
        name = system.get("name", "")
        if not name:
            yield required(f"{path}.os.name")
        elif name not in _SYSTEMS:
            yield unsupported(f"{path}.os", name, _SYSTEMS)
    for field in ("runtimeClassName", "hostnameOverride"):
        name = spec.get(field)
        if field == "hostnameOverride" and len(name or "") > _MAX_HOSTNAME:
            yield too_long(f"{path}.{field}", _MAX_HOSTNAME)
        elif name is not None:
            yield from rule_errors(f"{path}.{field}", name, subdomain_errors)
    if spec.get("priorityClassName"):
        at = f"{path}.priorityClassName"
        yield from rule_errors(at, spec["priorityClassName"], subdomain_errors)
    yield from _preemption_errors(spec.get("preemptionPolicy"), f"{path}.preemptionPolicy")
    yield from _gate_errors(spec, f"{path}.schedulingGates")
    yield from resource_errors(spec, path)


def _preemption_errors(policy: str | None, path: str) -> Iterator[FieldError]:
    if policy == "":
        yield required(path)
    elif policy is not None and policy not in _PREEMPTION:
        yield unsupported(path, policy, _PREEMPTION)


def _gate_errors(spec: JsonObject, path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        name = gate.get("name", "")
        yield from rule_errors(f"{path}[{index}]", name, qualified_name_errors)
        if name in seen:
            yield duplicate(f"{path}[{index}]", name)
        seen.add(name)


def resize_errors(
    container: JsonObject, path: str, pod_restart: str, *, is_initial: bool
) -> Iterator[FieldError]:
    """Check what a resize of a container restarts (validateResizePolicy)."""
    at = f"{path}.resizePolicy"
    seen: set[str] = set()
    for index, policy in enumerate(container.get("resizePolicy") or ()):
        name = policy.get("resourceName", "")
        known = ((name, _RESIZED), (policy.get("restartPolicy", ""), _RESIZE_POLICIES))
        if name in seen:
            yield duplicate(f"{at}[{index}]", name)
        seen.add(name)
        for value, supported in known:
            if not value:
                yield required(at)
            elif value not in supported:
                yield unsupported(at, value, supported)
        restart = policy.get("restartPolicy", "")
        if pod_restart == "Never" and restart != "NotRequired":
            why = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            yield invalid_value(at, restart, why)
    if is_initial and container.get("restartPolicy") != "Always":
        why = "must not be set to 'RestartContainer' for non-sidecar initContainers"
        for index, policy in enumerate(container.get("resizePolicy") or ()):
            if policy.get("restartPolicy") == "RestartContainer":
                yield invalid_value(f"{at}[{index}].restartPolicy", "RestartContainer", why)
