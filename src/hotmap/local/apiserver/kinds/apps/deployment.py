"""Deployments (pkg/registry/apps/deployment/strategy.go; validation: ValidateDeploymentSpec)."""

from __future__ import annotations

from types import MappingProxyType

from hotmap.local.apiserver.columns import AGE, NAME, field_cell, template_columns
from hotmap.local.apiserver.kinds.workload import (
    SelectingStrategy,
    bound_errors,
    default_rolling_update,
    go_strategy,
    ready_replicas,
    status_errors,
)
from hotmap.local.field_errors import FieldError, forbidden_field, invalid_value, unsupported
from hotmap.local.json_object import JsonObject
from hotmap.local.scheme import SCALE, STATUS, Kind, Names
from hotmap.local.strategy import Column


class DeploymentStrategy(SelectingStrategy):
    selector_owner = "deployment"
    deadline_owner = "ReplicaSet"
    kept_metadata = MappingProxyType({"status": ("labels",)})

    def validate_status(self, obj: JsonObject) -> list[FieldError]:
        return status_errors(obj.get("status") or {}, "updatedReplicas")

    columns = (
        NAME,
        Column("Ready", ready_replicas),
        Column("Up-to-date", field_cell("status.updatedReplicas", 0)),
        Column("Available", field_cell("status.availableReplicas", 0)),
        AGE,
        *template_columns("spec.template", "spec.selector"),
    )

    def default_spec(self, spec: JsonObject) -> None:
        spec.setdefault("replicas", 1)
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("progressDeadlineSeconds", 600)
        strategy = spec.setdefault("strategy", {})
        default_rolling_update(strategy, maxUnavailable="25%", maxSurge="25%")

    def spec_errors(self, spec: JsonObject) -> list[FieldError]:
        errors = _strategy_errors(spec["strategy"])
        deadline = spec["progressDeadlineSeconds"]
        if deadline <= spec.get("minReadySeconds", 0):
            why = "must be greater than minReadySeconds"
            errors.append(invalid_value("spec.progressDeadlineSeconds", deadline, why))
        return errors

    def changes_generation(self, old: JsonObject, new: JsonObject) -> bool:
        """Count changes of the annotations too, which go on to the ReplicaSets."""
        before, after = old["metadata"].get("annotations"), new["metadata"].get("annotations")
        return super().changes_generation(old, new) or before != after


def _strategy_errors(strategy: JsonObject) -> list[FieldError]:
    path = "spec.strategy"
    if strategy["type"] == "Recreate":
        if "rollingUpdate" not in strategy:
            return []
        why = "may not be specified when strategy `type` is 'Recreate'"
        return [forbidden_field(f"{path}.rollingUpdate", why)]
    if strategy["type"] != "RollingUpdate":
        known = ("Recreate", "RollingUpdate")
        return [unsupported(path, go_strategy(strategy), known)]
    rolling = strategy["rollingUpdate"]
    errors: list[FieldError] = []
    for field in ("maxUnavailable", "maxSurge"):
        errors += bound_errors(rolling[field], f"{path}.rollingUpdate.{field}")
    unavailable = str(rolling["maxUnavailable"])
    if unavailable.endswith("%") and not errors and int(unavailable[:-1]) > 100:
        at = f"{path}.rollingUpdate.maxUnavailable"
        errors.append(invalid_value(at, unavailable, "must not be greater than 100%"))
    if not errors and rolling["maxUnavailable"] in (0, "0%") and rolling["maxSurge"] in (0, "0%"):
        at = f"{path}.rollingUpdate.maxUnavailable"
        why = "may not be 0 when `maxSurge` is 0"
        errors.append(invalid_value(at, rolling["maxUnavailable"], why))
    return errors


DEPLOYMENTS = Kind(
    "apps",
    ("v1",),
    Names("deployments", "Deployment", ("deploy",), ("all",), storage="deployments"),
    subresources=(STATUS, SCALE),
    strategy=DeploymentStrategy(),
)
