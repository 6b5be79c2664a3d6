"""Fills in and enforces the limits of LimitRanges (plugin/pkg/admission/limitranger)."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec

from hotmap.local.apiserver.status import forbidden
from hotmap.local.json_object import JsonObject
from hotmap.local.quantity import format_quantity, is_binary, parse_quantity, quantity_or_zero

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotmap.local.apiserver.plugins import AdmissionRequest
    from hotmap.local.apiserver.reader import ObjectReader
    from hotmap.local.store import Store

_ANNOTATION = "kubernetes.io/limit-ranger"


class LimitRangePlugin:
    """Applies the LimitRanges of a namespace to pods and PersistentVolumeClaims."""

    def __init__(self, store: Store, reader: ObjectReader) -> None:
        self._store = store
        self._kind = reader.scheme.resource("limitranges")

    def admit(self, request: AdmissionRequest) -> None:
        if not _is_new(request, "pods"):
            return
        for limits in self._limits(request.namespace):
            _set_defaults(request.obj, limits)

    def validate(self, request: AdmissionRequest) -> None:
        errors: list[str] = []
        if _is_new(request, "pods"):
            for limits in self._limits(request.namespace):
                errors += _pod_errors(request.obj["spec"], limits)
        elif _is_new(request, "persistentvolumeclaims"):
            requests = (request.obj["spec"].get("resources") or {}).get("requests") or {}
            for limits in self._limits(request.namespace):
                if limits.get("type") == "PersistentVolumeClaim":
                    errors += _bound_errors(limits, requests, requests)
        if errors:
            text = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
            raise forbidden(request.kind, request.obj["metadata"].get("name", ""), text)

    def _limits(self, namespace: str) -> Iterator[JsonObject]:
        for entry in self._store.range(self._kind.prefix(namespace)).entries:
            yield from msgspec.json.decode(entry.value or b"").get("spec", {}).get("limits") or ()


def _is_new(request: AdmissionRequest, plural: str) -> bool:
    kind = request.kind
    return (
        (kind.group, kind.plural) == ("", plural)
        and request.old is None
        and not request.subresource
    )


def _set_defaults(pod: JsonObject, limits: JsonObject) -> None:
    """Set the default resources of containers (mergePodResourceRequirements)."""
    if limits.get("type") != "Container":
        return
    notes: list[str] = []
    for field, what in (("initContainers", "init container"), ("containers", "container")):
        for container in pod["spec"].get(field) or ():
            resources = container.setdefault("resources", {})
            for part, defaults in (("limits", "default"), ("requests", "defaultRequest")):
                given = resources.setdefault(part, {})
                added = []
                for name, amount in (limits.get(defaults) or {}).items():
                    # A limit that was sent is its own request.
                    if name not in given:
                        given[name] = amount
                        added.append(name)
                if not given:
                    del resources[part]
                if added:
                    names = ", ".join(sorted(added))
                    notes.append(f"{names} {part[:-1]} for {what} {container['name']}")
    if notes:
        annotations = pod["metadata"].setdefault("annotations", {})
        ordered = sorted(notes, key=lambda note: " limit for " in note)
        annotations[_ANNOTATION] = f"LimitRanger plugin set: {'; '.join(ordered)}"


def _pod_errors(spec: JsonObject, limits: JsonObject) -> Iterator[str]:
    if limits.get("type") == "Container":
        for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
            resources = container.get("resources") or {}
            yield from _bound_errors(
                limits, resources.get("requests") or {}, resources.get("limits") or {}
            )
    elif limits.get("type") == "Pod":
        requests, maxima = (_pod_total(spec, part) for part in ("requests", "limits"))
        yield from _bound_errors(limits, requests, maxima)


def _pod_total(spec: JsonObject, part: str) -> dict[str, str]:
    """Add up containers; an init container counts where it alone needs more."""
    total: dict[str, Decimal] = {}
    binary: dict[str, bool] = {}
    for container in spec.get("containers") or ():
        for name, amount in ((container.get("resources") or {}).get(part) or {}).items():
            total[name] = total.get(name, Decimal(0)) + parse_quantity(str(amount))
            binary[name] = binary.get(name, False) or is_binary(str(amount))
    for container in spec.get("initContainers") or ():
        for name, amount in ((container.get("resources") or {}).get(part) or {}).items():
            total[name] = max(total.get(name, Decimal(0)), parse_quantity(str(amount)))
            binary.setdefault(name, is_binary(str(amount)))
    return {name: format_quantity(n, binary=binary[name]) for name, n in total.items()}


def _bound_errors(limits: JsonObject, requests: JsonObject, maxima: JsonObject) -> Iterator[str]:
    kind = limits["type"]
    for name, bound in (limits.get("min") or {}).items():
        text = f"minimum {name} usage per {kind} is {bound}"
        if name not in requests:
            yield f"{text}.  No request is specified"
        elif quantity_or_zero(requests[name]) < quantity_or_zero(bound):
            yield f"{text}, but request is {requests[name]}"
        elif name in maxima and quantity_or_zero(maxima[name]) < quantity_or_zero(bound):
            yield f"{text}, but limit is {maxima[name]}"
    for name, bound in (limits.get("max") or {}).items():
        text = f"maximum {name} usage per {kind} is {bound}"
        if name not in maxima:
            yield f"{text}.  No limit is specified"
        elif quantity_or_zero(maxima[name]) > quantity_or_zero(bound):
            yield f"{text}, but limit is {maxima[name]}"
        elif name in requests and quantity_or_zero(requests[name]) > quantity_or_zero(bound):
            yield f"{text}, but request is {requests[name]}"
    for name, bound in (limits.get("maxLimitRequestRatio") or {}).items():
        yield from _ratio_errors(kind, name, bound, requests.get(name), maxima.get(name))


def _ratio_errors(kind: str, name: str, bound: Any, request: Any, limit: Any) -> Iterator[str]:
    text = f"{name} max limit to request ratio per {kind} is {bound}"
    if (request is None and limit is None) or request is None or not quantity_or_zero(request):
        yield f"{text}, but no request is specified or request is 0"
    elif limit is None:
        yield f"{text}, but no limit is specified"
    elif quantity_or_zero(limit) / quantity_or_zero(request) > quantity_or_zero(bound):
        ratio = float(quantity_or_zero(limit) / quantity_or_zero(request))
        yield f"{text}, but provided ratio is {ratio:.6f}"
