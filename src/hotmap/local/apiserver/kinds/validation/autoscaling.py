"""HorizontalPodAutoscalers (pkg/apis/autoscaling/validation)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotmap.local.field_errors import (
    FieldError,
    forbidden_field,
    invalid_value,
    required,
    unsupported,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

JsonObject = dict[str, Any]


def autoscaler_errors(autoscaler: JsonObject) -> Iterator[FieldError]:
    """Check a HorizontalPodAutoscaler."""
    spec = autoscaler.get("spec") or {}
    least, most = spec.get("minReplicas"), spec.get("maxReplicas", 0)
    if least is not None and least < 1:
        yield invalid_value("spec.minReplicas", least, "must be greater than or equal to 1")
    if most == 0:
        yield required("spec.maxReplicas", "must be set and greater than 0")
    elif most < 0:
        yield invalid_value("spec.maxReplicas", most, "must be greater than or equal to 1")
    if least is not None and most < least:
        why = "must be greater than or equal to `minReplicas`"
        yield invalid_value("spec.maxReplicas", most, why)
    target = spec.get("scaleTargetRef") or {}
    for field in ("kind", "name"):
        if not target.get(field):
            yield required(f"spec.scaleTargetRef.{field}")
    if not target.get("apiVersion"):
        why = "apiVersion must specify API group"
        yield invalid_value("spec.scaleTargetRef.apiVersion", "", why)
    kinds = {metric.get("type") for metric in spec.get("metrics") or ()}
    if least == 0 and not kinds & {"External", "Object"}:
        why = "must specify at least one Object or External metric to support scaling to zero "
        yield forbidden_field("spec.metrics", f"{why}replicas")
    for index, metric in enumerate(spec.get("metrics") or ()):
        yield from _metric_errors(metric, f"spec.metrics[{index}]")


_METRICS = ("ContainerResource", "External", "Object", "Pods", "Resource")


def _metric_errors(metric: JsonObject, path: str) -> Iterator[FieldError]:
    kind = metric.get("type", "")
    if not kind:
        yield required(f"{path}.type", "must specify a metric source type")
    if kind not in _METRICS:
        yield unsupported(f"{path}.type", kind, _METRICS)
        yield unsupported(f"{path}.type", kind, _METRICS)
        return
    field = kind[:1].lower() + kind[1:]
    if field not in metric:
        yield required(f"{path}.{field}", "must populate information for the given metric source")
