"""Jobs (pkg/registry/batch/job/strategy.go)."""

from __future__ import annotations

import re

from hotmap.local.apiserver.kinds.batch.failure_policy import (
    default_failure_policy,
    failure_policy_errors,
)
from hotmap.local.apiserver.kinds.batch.indexed import indexed_errors
from hotmap.local.apiserver.kinds.stored_columns import JOB_COLUMNS
from hotmap.local.apiserver.kinds.workload import (
    WorkloadStrategy,
)
from hotmap.local.apiserver.selector_validation import selector_errors
from hotmap.local.field_errors import (
    IMMUTABLE,
    NOT_NEGATIVE,
    FieldError,
    invalid_value,
    required,
    rule_errors,
    too_long,
    unsupported,
)
from hotmap.local.json_object import JsonObject
from hotmap.local.names import label_name_errors, subdomain_errors
from hotmap.local.scheme import STATUS, Kind, Names
from hotmap.local.selectors import matches_label_selector

_ORPHANED = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background "
    "to remove them or set propagationPolicy=Orphan to suppress this warning"
)
_MAX_MANAGER = 63
_MANAGER_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_COUNTS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_IMMUTABLE = (
    "completions",
    "selector",
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)
# What a suspended Job may change of its template, beside the resources of its containers; of the
# affinity only that to nodes (validatePodTemplateUpdate).
_SCHEDULING = ("nodeSelector", "affinity", "tolerations", "schedulingGates")


def _excludes(selector: JsonObject, labels: JsonObject) -> bool:
    """Return whether a selector does not meet labels; one that is invalid is told of elsewhere."""
    is_valid = not selector_errors(selector, "")
    return is_valid and not matches_label_selector(selector, labels)


def _is_template_mutable(job: JsonObject) -> bool:
    """Return whether a Job waits without pods (shouldAllowMutablePodTemplate)."""
    status = job.get("status") or {}
    is_suspended = any(
        condition["type"] == "Suspended" and condition["status"] == "True"
        for condition in status.get("conditions") or ()
    )
    waits = is_suspended or "startTime" not in status
    return bool(job["spec"].get("suspend")) and waits and not status.get("active")


def _frozen(pod: JsonObject) -> JsonObject:
    """Return what never changes of the pods of a suspended Job."""
    kept = {field: value for field, value in pod.items() if field not in _SCHEDULING}
    affinity = pod.get("affinity") or {}
    kept["affinity"] = {name: rule for name, rule in affinity.items() if name != "nodeAffinity"}
    for field in ("containers", "initContainers"):
        kept[field] = [
            {name: value for name, value in container.items() if name != "resources"}
            for container in pod.get(field) or ()
        ]
    return kept


def job_spec_errors(spec: JsonObject, path: str) -> list[FieldError]:
    """Check the counts and modes of a Job (validateJobSpec)."""
    errors = [
        invalid_value(f"{path}.{field}", spec[field], NOT_NEGATIVE)
        for field in _COUNTS
        if spec.get(field, 0) < 0
    ]
    mode = spec.get("completionMode", "NonIndexed")
    if mode not in ("NonIndexed", "Indexed"):
        known = ("NonIndexed", "Indexed")
        errors.append(unsupported(f"{path}.completionMode", mode, known))
    if mode == "Indexed" and "completions" not in spec:
        why = "when completion mode is Indexed"
        errors.append(required(f"{path}.completions", why))
    policy = spec.get("podReplacementPolicy")
    has_policy = spec.get("podFailurePolicy") is not None
    policies = ("Failed", "TerminatingOrFailed")[: 1 if has_policy else 2]
    if policy is not None and policy not in policies:
        errors.append(unsupported(f"{path}.podReplacementPolicy", policy, policies))
    if spec.get("managedBy") is not None:
        errors += _manager_errors(spec["managedBy"], f"{path}.managedBy")
    return errors


def _manager_errors(manager: str, path: str) -> list[FieldError]:
    """Check who manages a Job (IsDomainPrefixedPath)."""
    if not manager:
        return [required(path)]
    if len(manager) > _MAX_MANAGER:
        return [too_long(path, _MAX_MANAGER)]
    domain, _, rest = manager.partition("/")
    if not domain or not rest:
        why = 'must be a domain-prefixed path (such as "acme.io/foo")'
        return [invalid_value(path, manager, why)]
    errors = rule_errors(path, domain, subdomain_errors)
    if not re.fullmatch(_MANAGER_PATH, rest):
        why = f"Invalid path (regex used for validation is '{_MANAGER_PATH}')"
        errors.append(invalid_value(path, rest, why))
    return errors


def _pod_name_errors(obj: JsonObject) -> list[FieldError]:
    """The host names of an Indexed Job's pods are labels, which end with their index."""
    name, spec = obj["metadata"].get("name", ""), obj["spec"]
    completions = spec.get("completions", 0)
    longest = f"{name}-{completions - 1}"
    if spec.get("completionMode") != "Indexed" or completions <= 0:
        return []
    if not label_name_errors(longest):
        return []
    why = f"will not able to create pod with invalid DNS label: {longest}"
    return [invalid_value("metadata.name", name, why)]


class JobStrategy(WorkloadStrategy):
    columns = JOB_COLUMNS
    default_propagation = "Orphan"
    restart_policies = ("OnFailure", "Never")
    selectable_fields = (("status.successful", ("status", "succeeded")),)

    def deletion_warning(self, propagation: str | None) -> str:
        return "" if propagation is not None else _ORPHANED

    def prepare_create(self, obj: JsonObject) -> None:
        """Select the pods of this Job by its uid, and label them (generateSelector)."""
        spec, metadata = obj["spec"], obj["metadata"]
        template = spec.get("template")
        if template is None or spec.get("manualSelector"):
            return
        names = {"controller-uid": metadata["uid"], "job-name": metadata.get("name", "")}
        labels = template["metadata"].setdefault("labels", {})
        # Upstream's Job shares the map of labels with its template where it has none of its own.
        shared = metadata.get("labels", {}) in ({}, labels)
        for label, value in names.items():
            labels[label] = labels[f"batch.kubernetes.io/{label}"] = value
        if shared:
            metadata["labels"] = dict(labels)
        selected = spec.setdefault("selector", {}).setdefault("matchLabels", {})
        selected["batch.kubernetes.io/controller-uid"] = metadata["uid"]

    def count_errors(self, spec: JsonObject) -> list[FieldError]:
        return job_spec_errors(spec, "spec")

    def spec_errors(self, spec: JsonObject) -> list[FieldError]:
        return [*failure_policy_errors(spec, "spec"), *indexed_errors(spec, "spec")]

    def validate(self, obj: JsonObject) -> list[FieldError]:
        return [
            *self._selector_errors(obj),
            *super().validate(obj),
            *self._match_errors(obj["spec"]),
            *_pod_name_errors(obj),
        ]

    def _selector_errors(self, obj: JsonObject) -> list[FieldError]:
        """Check the labels that a Job gives its pods (validateGeneratedSelector)."""
        spec, metadata = obj["spec"], obj["metadata"]
        selector = spec.get("selector")
        if spec.get("manualSelector") or selector is None:
            return []
        labels = (spec.get("template") or {}).get("metadata", {}).get("labels") or {}
        own = {"controller-uid": metadata.get("uid"), "job-name": metadata.get("name", "")}
        wanted = {f"{prefix}{label}": value for prefix in ("", "batch.kubernetes.io/")
                  for label, value in own.items()}  # fmt: skip
        errors: list[FieldError] = []
        for label, value in wanted.items():
            at = f"spec.template.metadata.labels[{label}]"
            if label not in labels:
                errors.append(required("spec.template.metadata.labels", f"must be '{value}'"))
            elif labels[label] != value:
                errors.append(invalid_value(at, labels[label], f"must be '{value}'"))
        if _excludes(selector, wanted):
            errors.append(invalid_value("spec.selector", selector, "`selector` not auto-generated"))
        return errors

    def _match_errors(self, spec: JsonObject) -> list[FieldError]:
        selector = spec.get("selector")
        labels = (spec.get("template") or {}).get("metadata", {}).get("labels") or {}
        if selector is None:
            errors = [required("spec.selector")]
        else:
            errors = selector_errors(selector, "spec.selector")
        if selector is None or _excludes(selector, labels):
            why = "`selector` does not match template `labels`"
            errors.append(
                invalid_value(
                    "spec.template.metadata.labels", dict(sorted(labels.items())) or None, why
                )
            )
        return errors

    def validate_update(self, old: JsonObject, new: JsonObject) -> list[FieldError]:
        before, after = old["spec"], new["spec"]
        # Upstream checks both twice here.
        errors = super().validate(new) + self._match_errors(after) * 2
        changed = [field for field in _IMMUTABLE if before.get(field) != after.get(field)]
        # An Indexed Job may grow and shrink as a whole.
        is_elastic = after.get("completionMode") == "Indexed" and (
            after.get("completions") == after.get("parallelism")
        )
        if after.get("completionMode") == "Indexed" and "completions" in changed:
            changed.remove("completions")
            if not is_elastic:
                why = "can only be modified in tandem with spec.parallelism"
                errors.append(invalid_value("spec.completions", after.get("completions"), why))
        for field in changed:
            errors.append(invalid_value(f"spec.{field}", after.get(field), IMMUTABLE))
        was, template = before.get("template") or {}, after.get("template") or {}
        if not _is_template_mutable(old):
            if was != template:
                errors.append(invalid_value("spec.template", template, IMMUTABLE))
        elif _frozen(was.get("spec") or {}) != _frozen(template.get("spec") or {}):
            errors.append(invalid_value("spec.template.spec", template.get("spec"), IMMUTABLE))
        return errors

    def default_spec(self, spec: JsonObject) -> None:
        if "completions" not in spec and "parallelism" not in spec:
            spec["completions"] = 1
        spec.setdefault("parallelism", 1)
        spec.setdefault("backoffLimit", 6 if "backoffLimitPerIndex" not in spec else (1 << 31) - 1)
        spec.setdefault("completionMode", "NonIndexed")
        spec.setdefault("suspend", False)
        has_policy = spec.get("podFailurePolicy") is not None
        spec.setdefault("podReplacementPolicy", "Failed" if has_policy else "TerminatingOrFailed")
        default_failure_policy(spec)
        spec.setdefault("manualSelector", False)

    def default(self, obj: JsonObject) -> None:
        super().default(obj)
        labels = (obj["spec"].get("template") or {}).get("metadata", {}).get("labels")
        if labels and not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)


JOBS = Kind(
    "batch",
    ("v1",),
    Names("jobs", "Job", (), ("all",), storage="jobs"),
    subresources=(STATUS,),
    strategy=JobStrategy(),
)
