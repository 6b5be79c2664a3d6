"""What the kinds that make pods from a template have in common.

pkg/apis/apps/v1/defaults.go, pkg/apis/apps/validation/validation.go, their siblings in batch, and
pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hotmap.local.apiserver.columns import field_cell
from hotmap.local.apiserver.metadata import annotation_errors, label_errors
from hotmap.local.apiserver.pod_defaults import default_pod_spec
from hotmap.local.apiserver.pod_validation import pod_spec_errors
from hotmap.local.apiserver.pod_warnings import pod_warnings
from hotmap.local.apiserver.selector_validation import selector_errors
from hotmap.local.field_errors import (
    IMMUTABLE,
    NOT_NEGATIVE,
    FieldError,
    forbidden_field,
    invalid_value,
    required,
    unsupported,
)
from hotmap.local.json_object import JsonObject
from hotmap.local.selectors import matches_label_selector
from hotmap.local.strategy import Strategy

if TYPE_CHECKING:
    from hotmap.local.strategy import Cell

_PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)
_COUNTS = ("replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")


class WorkloadStrategy(Strategy):
    """A kind with a pod template."""

    has_generation = True
    #: Where the template is, as paths of errors say it.
    template_path = "spec.template"
    #: The numbers of a spec that are not negative.
    counts: tuple[str, ...] = _COUNTS
    #: The restart policies that the template may have.
    restart_policies: tuple[str, ...] = ("Always",)

    #: What upstream calls the kind where its pods may not end by themselves.
    deadline_owner = ""

    def pod_template(self, spec: JsonObject) -> JsonObject | None:
        """Find the pod template in a spec, None where it has none."""
        template: JsonObject | None = spec.get("template")
        return template

    def default_spec(self, spec: JsonObject) -> None:
        """Fill in what the spec leaves out beside the template."""

    def spec_errors(self, spec: JsonObject) -> list[FieldError]:
        """Find everything wrong with the spec beside its counts and the template."""
        return []

    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        template = self.pod_template(spec)
        if template is not None:
            template.setdefault("metadata", {})
            default_pod_spec(template.setdefault("spec", {}))
        self.default_spec(spec)

    def validate(self, obj: JsonObject) -> list[FieldError]:
        spec = obj["spec"]
        errors = self.count_errors(spec)
        template = self.pod_template(spec) or {}
        wrong = self.template_selector_errors(spec, template)
        errors += wrong
        if not _is_unreadable(wrong):
            errors += template_errors(template, self.template_path, self.restart_policies)
            if self.deadline_owner and "activeDeadlineSeconds" in template.get("spec", {}):
                why = f"activeDeadlineSeconds in {self.deadline_owner} is not Supported"
                at = f"{self.template_path}.spec.activeDeadlineSeconds"
                errors.append(forbidden_field(at, why))
        return errors + self.spec_errors(spec)

    def warnings(self, obj: JsonObject) -> list[str]:
        template = self.pod_template(obj["spec"]) or {}
        return pod_warnings(template.get("spec") or {}, f"{self.template_path}.spec")

    def update_warnings(self, old: JsonObject, new: JsonObject) -> list[str]:
        return self.warnings(new) if is_new_generation(old, new) else []

    def count_errors(self, spec: JsonObject) -> list[FieldError]:
        """Find everything wrong with the fields that upstream checks first."""
        return [
            invalid_value(f"spec.{field}", spec[field], NOT_NEGATIVE)
            for field in self.counts
            if spec.get(field, 0) < 0
        ]

    def template_selector_errors(self, spec: JsonObject, template: JsonObject) -> list[FieldError]:
        """Find errors of the selector, also together with the template."""
        return []


def is_new_generation(old: JsonObject, new: JsonObject) -> bool:
    """Return whether an update counts, so that it is worth a warning."""
    return bool(old["metadata"].get("generation") != new["metadata"].get("generation"))


def template_errors(
    template: JsonObject, path: str, restart_policies: tuple[str, ...] = ("Always",)
) -> list[FieldError]:
    """Check a pod template (ValidatePodTemplateSpec) and its restart policy."""
    metadata, spec = template.get("metadata", {}), template.get("spec")
    if spec is None:
        return [required(f"{path}.spec.containers")]
    errors = label_errors(f"{path}.labels", metadata.get("labels", {}))
    errors += annotation_errors(f"{path}.annotations", metadata.get("annotations", {}))
    errors += pod_spec_errors(spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        why = "ephemeral containers not allowed in pod template"
        errors.append(forbidden_field(f"{path}.spec.ephemeralContainers", why))
    policy, at = spec["restartPolicy"], f"{path}.spec.restartPolicy"
    if policy == "Always" and "Always" not in restart_policies:
        # The default, so upstream calls it missing.
        valid = ", ".join(f'"{name}"' for name in restart_policies)
        errors.append(required(at, f"valid values: {valid}"))
    elif policy not in restart_policies:
        errors.append(unsupported(at, policy, restart_policies))
    return errors


def _is_unreadable(errors: list[FieldError]) -> bool:
    """Return whether upstream stops at the errors of a selector."""
    return len(errors) > 1 and errors[-1].path == "spec.selector"


class SelectingStrategy(WorkloadStrategy):
    """A workload whose selector is required, must match its template and never changes."""

    #: What upstream calls the kind when the selector is empty.
    selector_owner = ""
    #: Whether upstream says that a selector is missing, and not only that it matches nothing.
    needs_selector = True
    #: What upstream adds of a selector that it cannot read, and then does not look at the template;
    #: None where it does.
    invalid_selector: str | None = "invalid label selector"

    def template_selector_errors(self, spec: JsonObject, template: JsonObject) -> list[FieldError]:
        labels = template.get("metadata", {}).get("labels")
        selector = spec.get("selector")
        mismatch = invalid_value(
            "spec.template.metadata.labels", labels, "`selector` does not match template `labels`"
        )
        if selector is None:
            return [required("spec.selector"), mismatch] if self.needs_selector else [mismatch]
        errors = selector_errors(selector, "spec.selector")
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            why = f"empty selector is invalid for {self.selector_owner}"
            errors.append(invalid_value("spec.selector", selector, why))
        elif errors:
            if self.invalid_selector is not None:
                errors.append(invalid_value("spec.selector", selector, self.invalid_selector))
        elif not matches_label_selector(selector, labels or {}):
            errors.append(mismatch)
        return errors

    def validate_update(self, old: JsonObject, new: JsonObject) -> list[FieldError]:
        errors = self.validate(new)
        selector = new["spec"].get("selector")
        if old["spec"].get("selector") != selector:
            errors.append(invalid_value("spec.selector", selector, IMMUTABLE))
        return errors


def default_rolling_update(strategy: JsonObject, **rolling: object) -> None:
    """Fill in an update strategy, in place; `rolling` are the defaults of its rolling update."""
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        strategy["rollingUpdate"] = {**rolling, **strategy.get("rollingUpdate", {})}


def bound_errors(bound: int | str, path: str) -> list[FieldError]:
    """Check a number of pods or a share of them (ValidatePositiveIntOrPercent)."""
    if isinstance(bound, str):
        return [] if re.fullmatch("[0-9]+%", bound) else [invalid_value(path, bound, _PERCENT)]
    return [invalid_value(path, bound, NOT_NEGATIVE)] if bound < 0 else []


def share_errors(bound: int | str, path: str) -> list[FieldError]:
    """Check that a share is no more than everything (IsNotMoreThan100Percent)."""
    is_more = isinstance(bound, str) and re.fullmatch("[0-9]+%", bound) and int(bound[:-1]) > 100
    return [invalid_value(path, bound, "must not be greater than 100%")] if is_more else []


def is_zero_bound(bound: int | str) -> bool:
    """Return whether a number or percentage of pods is 0, or cannot be read."""
    if isinstance(bound, str):
        return not re.fullmatch("[0-9]+%", bound) or int(bound[:-1]) == 0
    return bound == 0


def go_strategy(strategy: JsonObject) -> JsonObject:
    """Show an update strategy of another type as Go's messages do."""
    return {"Type": strategy.get("type", ""), "RollingUpdate": strategy.get("rollingUpdate")}


def status_errors(status: JsonObject, second: str) -> list[FieldError]:
    """Check the counts of a Deployment's or a ReplicaSet's status."""
    total = status.get("replicas", 0)
    fields = ("observedGeneration", "replicas", second, "readyReplicas", "availableReplicas")
    errors = [
        invalid_value(f"status.{field}", status[field], NOT_NEGATIVE)
        for field in (*fields, "unavailableReplicas", "terminatingReplicas", "collisionCount")
        if status.get(field, 0) < 0
    ]
    for field in fields[2:]:
        if status.get(field, 0) > total:
            why = "cannot be greater than status.replicas"
            errors.append(invalid_value(f"status.{field}", status.get(field, 0), why))
    available = status.get("availableReplicas", 0)
    if available > status.get("readyReplicas", 0):
        why = "cannot be greater than readyReplicas"
        errors.append(invalid_value("status.availableReplicas", available, why))
    return errors


_READY, _WANTED = field_cell("status.readyReplicas", 0), field_cell("spec.replicas", 0)


def ready_replicas(obj: JsonObject, now: float) -> Cell:
    """Show how many of the wanted replicas are ready, such as 2/3."""
    return f"{_READY(obj, now)}/{_WANTED(obj, now)}"
