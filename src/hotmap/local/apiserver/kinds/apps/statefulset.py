"""StatefulSets (pkg/registry/apps/statefulset/strategy.go)."""

from __future__ import annotations

from hotmap.local.apiserver.claim_validation import claim_spec_errors
from hotmap.local.apiserver.columns import AGE, NAME, template_columns
from hotmap.local.apiserver.kinds.workload import (
    SelectingStrategy,
    bound_errors,
    default_rolling_update,
    is_zero_bound,
    ready_replicas,
    share_errors,
)
from hotmap.local.field_errors import (
    NOT_NEGATIVE,
    FieldError,
    forbidden_field,
    invalid_value,
    unsupported,
)
from hotmap.local.json_object import JsonObject
from hotmap.local.names import label_name_errors
from hotmap.local.scheme import SCALE, STATUS, Kind, Names
from hotmap.local.strategy import Column

_MUTABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
_CREATED = ("spec.volumeClaimTemplates", "spec.serviceName")
_HISTORY = (
    "spec.revisionHistoryLimit: a negative value retains all historical revisions; "
    "a value >= 0 is recommended"
)
_FROZEN = (
    "updates to statefulset spec for fields other than "
    f"{', '.join(repr(field) for field in _MUTABLE[:-1])} and 'minReadySeconds' are forbidden"
)


class StatefulSetStrategy(SelectingStrategy):
    selector_owner = "statefulset"
    deadline_owner = "StatefulSet"
    counts = ("replicas", "minReadySeconds")
    invalid_selector = ""
    columns = (
        NAME,
        Column("Ready", ready_replicas),
        AGE,
        *template_columns("spec.template"),
    )

    def default_spec(self, spec: JsonObject) -> None:
        spec.setdefault("replicas", 1)
        # Go writes it whatever it holds.
        spec.setdefault("serviceName", "")
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("podManagementPolicy", "OrderedReady")
        strategy = spec.setdefault("updateStrategy", {})
        if "type" not in strategy or "rollingUpdate" in strategy:
            # With the type alone there is none, and kubectl tells no partition.
            default_rolling_update(strategy, partition=0)
        policy = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
        policy.setdefault("whenDeleted", "Retain")
        policy.setdefault("whenScaled", "Retain")
        for claim in spec.get("volumeClaimTemplates") or ():
            claim.setdefault("kind", "PersistentVolumeClaim")
            claim.setdefault("apiVersion", "v1")
            claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
            claim["status"] = {"phase": "Pending"}

    def count_errors(self, spec: JsonObject) -> list[FieldError]:
        errors: list[FieldError] = []
        policy, strategy = spec["podManagementPolicy"], spec["updateStrategy"]
        if policy not in ("OrderedReady", "Parallel"):
            why = "must be 'OrderedReady' or 'Parallel'"
            errors.append(invalid_value("spec.podManagementPolicy", policy, why))
        path = "spec.updateStrategy"
        if strategy["type"] not in ("RollingUpdate", "OnDelete"):
            why = "must be 'RollingUpdate' or 'OnDelete'"
            shown = _shown_update(strategy.get("rollingUpdate"))
            value = {"Type": strategy["type"], "RollingUpdate": shown}
            errors.append(invalid_value(path, value, why))
        elif strategy["type"] == "OnDelete" and "rollingUpdate" in strategy:
            why = "only allowed for updateStrategy 'RollingUpdate'"
            shown = _shown_update(strategy["rollingUpdate"])
            errors.append(invalid_value(f"{path}.rollingUpdate", shown, why))
        else:
            errors += _rolling_errors(strategy.get("rollingUpdate") or {})
        errors += _claim_errors(spec)
        errors += super().count_errors(spec)
        start = (spec.get("ordinals") or {}).get("start", 0)
        if start < 0:
            errors.append(invalid_value("spec.ordinals.start", start, NOT_NEGATIVE))
        name = spec.get("serviceName")
        if name:
            errors += [invalid_value("spec.serviceName", name, w) for w in label_name_errors(name)]
        return errors

    def validate(self, obj: JsonObject) -> list[FieldError]:
        return super().validate({**obj, "spec": _with_controller_fields(obj["spec"])})

    def validate_update(self, old: JsonObject, new: JsonObject) -> list[FieldError]:
        before, after = (
            {field: value for field, value in obj["spec"].items() if field not in _MUTABLE}
            for obj in (old, new)
        )
        # What cannot change is not checked again.
        errors = [error for error in self.validate(new) if not error.path.startswith(_CREATED)]
        return [*errors, forbidden_field("spec", _FROZEN)] if before != after else errors

    def warnings(self, obj: JsonObject) -> list[str]:
        return [*super().warnings(obj), *_history_warnings(obj)]

    def update_warnings(self, old: JsonObject, new: JsonObject) -> list[str]:
        return super().update_warnings(old, new) or _history_warnings(new)

    def initial_status(self, obj: JsonObject) -> JsonObject | None:
        return {"replicas": 0, "availableReplicas": 0}

    def name_errors(self, name: str) -> list[str]:
        return label_name_errors(name)


def _history_warnings(obj: JsonObject) -> list[str]:
    return [_HISTORY] if (obj["spec"].get("revisionHistoryLimit") or 0) < 0 else []


def _shown_update(rolling: JsonObject | None) -> JsonObject | None:
    """Show a rolling update as Go's messages do."""
    fields = (("Partition", "partition"), ("MaxUnavailable", "maxUnavailable"))
    return rolling and {go: rolling.get(field) for go, field in fields}


def _rolling_errors(rolling: JsonObject) -> list[FieldError]:
    path = "spec.updateStrategy.rollingUpdate"
    errors: list[FieldError] = []
    if rolling.get("partition", 0) < 0:
        errors.append(invalid_value(f"{path}.partition", rolling["partition"], NOT_NEGATIVE))
    if rolling.get("maxUnavailable") is not None:
        at, bound = f"{path}.maxUnavailable", rolling["maxUnavailable"]
        errors += bound_errors(bound, at)
        if is_zero_bound(bound):
            errors.append(invalid_value(at, bound, "cannot be 0"))
        errors += share_errors(bound, at)
    return errors


def _claim_errors(spec: JsonObject) -> list[FieldError]:
    policy, known = spec["persistentVolumeClaimRetentionPolicy"], ("Retain", "Delete")
    errors = [
        unsupported(f"spec.persistentVolumeClaimRetentionPolicy.{field}", policy[field], known)
        for field in ("whenDeleted", "whenScaled")
        if policy[field] not in known
    ]
    for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        at = f"spec.volumeClaimTemplates[{index}].spec"
        errors += claim_spec_errors(claim.get("spec") or {}, at)
    return errors


def _with_controller_fields(spec: JsonObject) -> JsonObject:
    """Return a spec whose template is as pods will be: with the volumes of the claims.

    The controller sets hostname and subdomain as well, so their values are not checked.
    """
    template = spec.get("template") or {}
    pod = template.get("spec")
    names = [
        claim.get("metadata", {}).get("name") for claim in spec.get("volumeClaimTemplates", ())
    ]
    if pod is None or not (names or "hostname" in pod or "subdomain" in pod):
        return spec
    claimed = [
        {"name": name, "persistentVolumeClaim": {"claimName": name}}
        for name in dict.fromkeys(names)
    ]
    others = [volume for volume in pod.get("volumes", ()) if volume.get("name") not in names]
    pod = {name: value for name, value in pod.items() if name not in ("hostname", "subdomain")}
    if names:
        pod["volumes"] = [*claimed, *others]
    return {**spec, "template": {**template, "spec": pod}}


STATEFULSETS = Kind(
    "apps",
    ("v1",),
    Names("statefulsets", "StatefulSet", ("sts",), ("all",), storage="statefulsets"),
    subresources=(STATUS, SCALE),
    strategy=StatefulSetStrategy(),
)
