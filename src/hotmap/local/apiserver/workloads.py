"""Workloads, which make pods from a template: defaults and validation.

pkg/apis/apps/v1/defaults.go, pkg/apis/apps/validation/validation.go and their siblings in
batch.
"""

from __future__ import annotations

import re
from typing import Any

from hotmap.local.apiserver.metadata import annotation_errors, label_errors
from hotmap.local.apiserver.pods import default_pod_spec, pod_spec_errors
from hotmap.local.field_errors import (
    FieldError,
    forbidden_field,
    invalid_value,
    required,
    unsupported,
)
from hotmap.local.names import label_value_errors, qualified_name_errors
from hotmap.local.selectors import matches_label_selector

JsonObject = dict[str, Any]

WORKLOADS = ("deployments", "replicasets", "statefulsets", "daemonsets", "jobs", "cronjobs")
_WITH_SELECTOR = ("deployments", "replicasets", "statefulsets", "daemonsets")
_PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)
_NOT_NEGATIVE = "must be greater than or equal to 0"
_COUNTS = ("replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
_EMPTY_SELECTOR = {
    "deployments": "empty selector is invalid for deployment",
    "replicasets": "empty selector is invalid for deployment",
    "statefulsets": "empty selector is invalid for statefulset",
    "daemonsets": "empty selector is invalid for daemonset",
}


def default_workload(plural: str, obj: JsonObject) -> None:
    """Fill in what a workload leaves out, in place, its template included."""
    spec = obj.setdefault("spec", {})
    template = pod_template(plural, spec)
    if template is not None:
        template.setdefault("metadata", {})
        default_pod_spec(template.setdefault("spec", {}))
    if plural in ("deployments", "replicasets", "statefulsets"):
        spec.setdefault("replicas", 1)
    if plural in ("deployments", "statefulsets", "daemonsets"):
        spec.setdefault("revisionHistoryLimit", 10)
    match plural:
        case "deployments":
            spec.setdefault("progressDeadlineSeconds", 600)
            _default_strategy(spec.setdefault("strategy", {}), maxUnavailable="25%", maxSurge="25%")
        case "statefulsets":
            spec.setdefault("podManagementPolicy", "OrderedReady")
            _default_strategy(spec.setdefault("updateStrategy", {}), partition=0)
        case "daemonsets":
            strategy = spec.setdefault("updateStrategy", {})
            _default_strategy(strategy, maxUnavailable=1, maxSurge=0)
        case "jobs":
            _default_job(spec)
        case "cronjobs":
            spec.setdefault("concurrencyPolicy", "Allow")
            spec.setdefault("suspend", False)
            spec.setdefault("successfulJobsHistoryLimit", 3)
            spec.setdefault("failedJobsHistoryLimit", 1)


def _default_strategy(strategy: JsonObject, **rolling: object) -> None:
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        strategy["rollingUpdate"] = {**rolling, **strategy.get("rollingUpdate", {})}


def _default_job(spec: JsonObject) -> None:
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)


def pod_template(plural: str, spec: JsonObject) -> JsonObject | None:
    """Find the pod template of a workload, None where it has none."""
    if plural == "cronjobs":
        spec = spec.get("jobTemplate", {}).get("spec", {})
    template: JsonObject | None = spec.get("template")
    return template


def workload_errors(plural: str, obj: JsonObject) -> list[FieldError]:
    """Find everything wrong with a workload's spec, in upstream's order."""
    spec = obj["spec"]
    errors = [
        invalid_value(f"spec.{field}", spec[field], _NOT_NEGATIVE)
        for field in _COUNTS
        if spec.get(field, 0) < 0
    ]
    template = pod_template(plural, spec) or {}
    if plural in _WITH_SELECTOR:
        errors += _selector_errors(plural, spec, template)
    path = "spec.jobTemplate.spec.template" if plural == "cronjobs" else "spec.template"
    errors += _template_errors(plural, template, path)
    if plural == "deployments":
        errors += _strategy_errors(spec["strategy"])
        deadline = spec["progressDeadlineSeconds"]
        if deadline <= spec.get("minReadySeconds", 0):
            why = "must be greater than minReadySeconds"
            errors.append(invalid_value("spec.progressDeadlineSeconds", deadline, why))
    return errors


def _selector_errors(plural: str, spec: JsonObject, template: JsonObject) -> list[FieldError]:
    labels = template.get("metadata", {}).get("labels")
    selector = spec.get("selector")
    mismatch = invalid_value(
        "spec.template.metadata.labels", labels, "`selector` does not match template `labels`"
    )
    if selector is None:
        return [required("spec.selector"), mismatch]
    errors = selector_errors(selector, "spec.selector")
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        errors.append(invalid_value("spec.selector", selector, _EMPTY_SELECTOR[plural]))
    elif not errors and not matches_label_selector(selector, labels or {}):
        errors.append(mismatch)
    return errors


def selector_errors(selector: JsonObject, path: str) -> list[FieldError]:
    """Check a LabelSelector (apimachinery: ValidateLabelSelector)."""
    errors = []
    for key, value in selector.get("matchLabels", {}).items():
        at = f"{path}.matchLabels"
        errors += [invalid_value(at, key, why) for why in qualified_name_errors(key)]
        errors += [invalid_value(at, value, why) for why in label_value_errors(value)]
    for index, expression in enumerate(selector.get("matchExpressions", ())):
        errors += _expression_errors(expression, f"{path}.matchExpressions[{index}]")
    return errors


def _expression_errors(expression: JsonObject, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    operator, values = expression.get("operator", ""), expression.get("values", [])
    if operator in ("In", "NotIn"):
        if not values:
            why = "must be specified when `operator` is 'In' or 'NotIn'"
            errors.append(required(f"{path}.values", why))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden_field(f"{path}.values", why))
    else:
        why = "not a valid selector operator"
        errors.append(invalid_value(f"{path}.operator", operator, why))
    key = expression.get("key", "")
    return errors + [invalid_value(f"{path}.key", key, why) for why in qualified_name_errors(key)]


def _template_errors(plural: str, template: JsonObject, path: str) -> list[FieldError]:
    metadata, spec = template.get("metadata", {}), template.get("spec")
    if spec is None:
        return [required(f"{path}.spec.containers")]
    errors = label_errors(f"{path}.labels", metadata.get("labels", {}))
    errors += annotation_errors(f"{path}.annotations", metadata.get("annotations", {}))
    errors += pod_spec_errors(spec, f"{path}.spec")
    policies = ("OnFailure", "Never") if plural in ("jobs", "cronjobs") else ("Always",)
    if spec["restartPolicy"] not in policies:
        at = f"{path}.spec.restartPolicy"
        errors.append(unsupported(at, spec["restartPolicy"], policies))
    return errors


def _strategy_errors(strategy: JsonObject) -> list[FieldError]:
    path = "spec.strategy"
    if strategy["type"] == "Recreate":
        if "rollingUpdate" not in strategy:
            return []
        why = "may not be specified when strategy `type` is 'Recreate'"
        return [forbidden_field(f"{path}.rollingUpdate", why)]
    if strategy["type"] != "RollingUpdate":
        known = ("Recreate", "RollingUpdate")
        return [unsupported(f"{path}.type", strategy["type"], known)]
    rolling = strategy["rollingUpdate"]
    errors: list[FieldError] = []
    for field in ("maxUnavailable", "maxSurge"):
        errors += _bound_errors(rolling[field], f"{path}.rollingUpdate.{field}")
    unavailable = str(rolling["maxUnavailable"])
    if unavailable.endswith("%") and not errors and int(unavailable[:-1]) > 100:
        at = f"{path}.rollingUpdate.maxUnavailable"
        errors.append(invalid_value(at, unavailable, "must not be greater than 100%"))
    if not errors and rolling["maxUnavailable"] in (0, "0%") and rolling["maxSurge"] in (0, "0%"):
        at = f"{path}.rollingUpdate.maxUnavailable"
        why = "may not be 0 when `maxSurge` is 0"
        errors.append(invalid_value(at, rolling["maxUnavailable"], why))
    return errors


def _bound_errors(bound: int | str, path: str) -> list[FieldError]:
    if isinstance(bound, str):
        if not re.fullmatch("[0-9]+%", bound):
            return [invalid_value(path, bound, _PERCENT)]
        return []
    return [invalid_value(path, bound, _NOT_NEGATIVE)] if bound < 0 else []


def workload_update_errors(plural: str, old: JsonObject, new: JsonObject) -> list[FieldError]:
    """Find what an update of a workload may not change."""
    selector = new["spec"].get("selector")
    if plural in _WITH_SELECTOR and old["spec"].get("selector") != selector:
        return [invalid_value("spec.selector", selector, "field is immutable")]
    return []
