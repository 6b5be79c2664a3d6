"""HorizontalPodAutoscalers (pkg/apis/autoscaling/validation)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotmap.local.apiserver.resource_names import container_resource_errors
from hotmap.local.field_errors import (
    NOT_NEGATIVE,
    FieldError,
    choice_errors,
    forbidden_field,
    invalid_value,
    name_errors,
    required,
    unsupported,
)
from hotmap.local.json_object import JsonObject
from hotmap.local.names import label_name_errors, path_segment_errors
from hotmap.local.quantity import quantity_or_zero

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST_WINDOW = 3600
_LONGEST_PERIOD = 1800
_POSITIVE = "must be greater than zero"
_TARGETS = ("Utilization", "Value", "AverageValue")
# In the order in which upstream looks at them.
_SOURCES = ("object", "external", "pods", "resource", "containerResource")
_METRICS = tuple(sorted(f"{source[:1].upper()}{source[1:]}" for source in _SOURCES))
# The amount in the target of each source: the field that is reported as missing, the fields of
# which one has to be given, and the message if none is; then the field that is refused if both are
# given, and the message for that.
_AMOUNTS = {
    "object": (
        "averageValue",
        ("value", "averageValue"),
        "must set either a target value or averageValue",
        "",
        "",
    ),
    "external": (
        "averageValue",
        ("value", "averageValue"),
        "must set either a target value for metric or a per-pod target",
        "value",
        "may not set both a target value for metric and a per-pod target",
    ),
    "pods": (
        "averageValue",
        ("averageValue",),
        "must specify a positive target averageValue",
        "",
        "",
    ),
    "resource": (
        "averageUtilization",
        ("averageUtilization", "averageValue"),
        "must set either a target raw value or a target utilization",
        "averageValue",
        "may not set both a target raw value and a target utilization",
    ),
}


def autoscaler_errors(autoscaler: JsonObject) -> Iterator[FieldError]:
    """Check a HorizontalPodAutoscaler."""
    spec = autoscaler["spec"]
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
    yield from _reference_errors(spec["scaleTargetRef"], "spec.scaleTargetRef", needs_group=True)
    metrics = spec.get("metrics") or ()
    for index, metric in enumerate(metrics):
        yield from _metric_errors(metric, f"spec.metrics[{index}]")
    if least == 0 and not {metric["type"] for metric in metrics} & {"External", "Object"}:
        why = "must specify at least one Object or External metric to support scaling to zero "
        yield forbidden_field("spec.metrics", f"{why}replicas")
    for direction in ("scaleUp", "scaleDown"):
        rules = (spec.get("behavior") or {}).get(direction)
        if rules is not None:
            yield from _rules_errors(rules, f"spec.behavior.{direction}")


def _reference_errors(
    reference: JsonObject, path: str, *, needs_group: bool
) -> Iterator[FieldError]:
    """Check a reference to what is scaled or measured (ValidateCrossVersionObjectReference)."""
    for field in ("kind", "name"):
        yield from name_errors(reference[field], f"{path}.{field}", path_segment_errors)
    version = reference.get("apiVersion", "")
    if version.count("/") > 1:
        why = f"unexpected GroupVersion string: {version}"
        yield invalid_value(f"{path}.apiVersion", version, why)
    elif needs_group and not version.rpartition("/")[0]:
        yield invalid_value(f"{path}.apiVersion", version, "apiVersion must specify API group")


def _metric_errors(metric: JsonObject, path: str) -> Iterator[FieldError]:
    kind = metric["type"]
    if not kind:
        yield required(f"{path}.type", "must specify a metric source type")
    if kind not in _METRICS:
        yield unsupported(f"{path}.type", kind, _METRICS)
    present = [source for source in _SOURCES if metric.get(source) is not None]
    if present:
        yield from _source_errors(present[0], metric[present[0]], f"{path}.{present[0]}")
    expected = f"{kind[:1].lower()}{kind[1:]}"
    if kind not in _METRICS:
        yield unsupported(f"{path}.type", kind, _METRICS)
    elif expected not in present:
        why = "must populate information for the given metric source"
        yield required(f"{path}.{expected}", why)
    if len(present) > 1:
        for source in present:
            if source != expected:
                why = "must populate the given metric source only"
                yield forbidden_field(f"{path}.{source}", why)


def _source_errors(source: str, value: JsonObject, path: str) -> Iterator[FieldError]:
    if source == "object":
        at = f"{path}.describedObject"
        yield from _reference_errors(value["describedObject"], at, needs_group=False)
    if "metric" in value:
        name = value["metric"]["name"]
        why = "must specify a metric name"
        yield from name_errors(name, f"{path}.metric.name", path_segment_errors, why)
    elif not value["name"]:
        yield required(f"{path}.name", "must specify a resource name")
    elif source == "containerResource":
        yield from container_resource_errors(value["name"], f"{path}.name")
    if source == "containerResource":
        why = "must specify a container"
        yield from name_errors(value["container"], f"{path}.container", label_name_errors, why)
    target, at = value["target"], f"{path}.target"
    yield from _target_errors(target, at)
    field, alternatives, missing, refused, why = _AMOUNTS[
        "resource" if source == "containerResource" else source
    ]
    given = [name for name in alternatives if target.get(name) is not None]
    if not given:
        yield required(f"{at}.{field}", missing)
    elif refused and len(given) > 1:
        yield forbidden_field(f"{at}.{refused}", why)


def _target_errors(target: JsonObject, path: str) -> Iterator[FieldError]:
    kind = target["type"]
    if not kind:
        yield required(f"{path}.type", "must specify a metric target type")
    if kind not in _TARGETS:
        why = "must be either Utilization, Value, or AverageValue"
        yield invalid_value(f"{path}.type", kind, why)
    for field in ("value", "averageValue"):
        amount = target.get(field)
        if amount is not None and quantity_or_zero(amount) <= 0:
            yield invalid_value(f"{path}.{field}", amount, "must be positive")
    share = target.get("averageUtilization")
    if share is not None and share < 1:
        yield invalid_value(f"{path}.averageUtilization", share, "must be greater than 0")


def _rules_errors(rules: JsonObject, path: str) -> Iterator[FieldError]:
    """Check how fast replicas are added or removed (validateScalingRules)."""
    at, window = f"{path}.stabilizationWindowSeconds", rules.get("stabilizationWindowSeconds")
    if window is not None and window < 0:
        yield invalid_value(at, window, "must be greater than or equal to zero")
    if window is not None and window > _LONGEST_WINDOW:
        yield invalid_value(at, window, f"must be less than or equal to {_LONGEST_WINDOW}")
    yield from choice_errors(rules, path, "selectPolicy", ("Disabled", "Max", "Min"))
    policies = rules.get("policies") or ()
    if not policies:
        yield required(f"{path}.policies", "must specify at least one Policy")
    for index, policy in enumerate(policies):
        at, period = f"{path}.policies[{index}]", policy["periodSeconds"]
        yield from choice_errors(policy, at, "type", ("Percent", "Pods"))
        for field in ("value", "periodSeconds"):
            if policy[field] <= 0:
                yield invalid_value(f"{at}.{field}", policy[field], _POSITIVE)
        if period > _LONGEST_PERIOD:
            why = f"must be less than or equal to {_LONGEST_PERIOD}"
            yield invalid_value(f"{at}.periodSeconds", period, why)
    tolerance = rules.get("tolerance")
    if tolerance is not None and quantity_or_zero(tolerance) < 0:
        yield invalid_value(f"{path}.tolerance", tolerance, NOT_NEGATIVE)
