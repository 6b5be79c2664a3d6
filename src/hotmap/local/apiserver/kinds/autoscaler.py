"""HorizontalPodAutoscalers (pkg/registry/autoscaling/horizontalpodautoscaler).

Stored as autoscaling/v2; autoscaling/v1 knows one metric, the utilization of the processor, and
carries all others in annotations (pkg/apis/autoscaling/v1/conversion.go).
"""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec

from hotmap.local.apiserver.columns import converted_columns
from hotmap.local.apiserver.kinds.stored_columns import COLUMNS
from hotmap.local.apiserver.kinds.stored_defaults import default_autoscaler
from hotmap.local.apiserver.kinds.stored_strategies import StoredStrategy
from hotmap.local.apiserver.kinds.validation import RULES, Rules
from hotmap.local.apiserver.type_checks import check_types
from hotmap.local.json_object import JsonObject
from hotmap.local.scheme import STATUS, Conversion, Kind, Names

_METRICS = "autoscaling.alpha.kubernetes.io/metrics"
_CURRENT = "autoscaling.alpha.kubernetes.io/current-metrics"
_CONDITIONS = "autoscaling.alpha.kubernetes.io/conditions"
_BEHAVIOR = "autoscaling.alpha.kubernetes.io/behavior"
#: The utilization of processors, in percent, at which v1 scales by default.
_SHARE = 80
_KEPT = ((_METRICS, "spec", "metrics"), (_BEHAVIOR, "spec", "behavior"),
         (_CURRENT, "status", "currentMetrics"), (_CONDITIONS, "status", "conditions"))  # fmt: skip


def _utilization(metrics: list[JsonObject] | None, amount: str) -> int | None:
    for metric in metrics or ():
        resource = metric.get("resource") or {}
        if metric.get("type") == "Resource" and resource.get("name") == "cpu":
            found = (resource.get(amount) or {}).get("averageUtilization")
            if found is not None:
                return int(found)
    return None


def _is_processor(metric: JsonObject, amount: str) -> bool:
    return _utilization([metric], amount) is not None


def _to_v1(obj: JsonObject) -> JsonObject:
    spec, status = dict(obj.get("spec") or {}), dict(obj.get("status") or {})
    annotations = dict(obj["metadata"].get("annotations") or {})
    wanted = _utilization(spec.get("metrics"), "target")
    current = _utilization(status.get("currentMetrics"), "current")
    for metrics, amount in (
        (spec.get("metrics"), "target"),
        (status.get("currentMetrics"), "current"),
    ):
        others = [metric for metric in metrics or () if not _is_processor(metric, amount)]
        if others:
            name = _METRICS if amount == "target" else _CURRENT
            annotations[name] = msgspec.json.encode(others).decode()
    for name, part, field in _KEPT:
        value = (spec if part == "spec" else status).pop(field, None)
        if value and name in (_BEHAVIOR, _CONDITIONS):
            annotations[name] = msgspec.json.encode(value).decode()
    if wanted is not None:
        spec["targetCPUUtilizationPercentage"] = wanted
    if current is not None:
        status["currentCPUUtilizationPercentage"] = current
    status.setdefault("currentReplicas", 0)
    status.setdefault("desiredReplicas", 0)
    metadata = {**obj["metadata"], "annotations": annotations}
    if not annotations:
        del metadata["annotations"]
    return {
        **obj,
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }


def _from_v1(obj: JsonObject) -> JsonObject:
    spec, status = dict(obj.get("spec") or {}), dict(obj.get("status") or {})
    annotations = dict(obj["metadata"].get("annotations") or {})
    for name, part, field in _KEPT:
        text = annotations.pop(name, None)
        if text is not None:
            # Upstream ignores what it cannot read.
            form = JsonObject if field == "behavior" else list[JsonObject]
            with contextlib.suppress(msgspec.DecodeError):
                (spec if part == "spec" else status)[field] = msgspec.json.decode(text, type=form)
    wanted = spec.pop("targetCPUUtilizationPercentage", None)
    if wanted is not None:
        target = {"type": "Utilization", "averageUtilization": wanted}
        metric = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
        spec["metrics"] = [*(spec.get("metrics") or ()), metric]
    current = status.pop("currentCPUUtilizationPercentage", None)
    if current is not None:
        amount = {"averageUtilization": current}
        found = {"type": "Resource", "resource": {"name": "cpu", "current": amount}}
        status["currentMetrics"] = [found, *(status.get("currentMetrics") or ())]
    status.setdefault("currentMetrics", None)
    metadata = {**obj["metadata"], "annotations": annotations}
    if not annotations:
        del metadata["annotations"]
    made = {
        **obj,
        "apiVersion": "autoscaling/v2",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }
    default_autoscaler(made)
    return made


class AutoscalerStrategy(StoredStrategy):
    columns = COLUMNS["HorizontalPodAutoscaler"]
    fill_in = staticmethod(default_autoscaler)
    rules = RULES["HorizontalPodAutoscaler"]


def _default_v1(obj: JsonObject) -> None:
    obj["spec"].setdefault("minReplicas", 1)
    if _METRICS not in (obj["metadata"].get("annotations") or ()):
        obj["spec"].setdefault("targetCPUUtilizationPercentage", _SHARE)


def _errors_of_v1(obj: JsonObject) -> Any:
    made = _from_v1(obj)
    check_types(AUTOSCALERS, made)
    return RULES["HorizontalPodAutoscaler"].check(made)


class _FirstVersionStrategy(AutoscalerStrategy):
    """Shows the columns of the stored form."""

    columns = converted_columns(COLUMNS["HorizontalPodAutoscaler"], _from_v1)
    fill_in = staticmethod(_default_v1)
    rules = Rules(_errors_of_v1)


AUTOSCALERS = Kind(
    "autoscaling",
    ("v2", "v1"),
    Names(
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        ("hpa",),
        ("all",),
        storage="horizontalpodautoscalers",
    ),
    subresources=(STATUS,),
    strategy=AutoscalerStrategy(
        status={"desiredReplicas": 0, "currentMetrics": None},
    ),
    version_strategies=(
        (
            "v1",
            _FirstVersionStrategy(
                status={"currentReplicas": 0, "desiredReplicas": 0},
            ),
        ),
    ),
    version_conversions=(("v1", Conversion(_from_v1, _to_v1)),),
)
