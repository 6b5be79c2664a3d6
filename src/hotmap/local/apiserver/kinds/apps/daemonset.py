"""DaemonSets (pkg/registry/apps/daemonset/strategy.go)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotmap.local.apiserver.columns import AGE, NAME, field_cell, labels_text, template_columns
from hotmap.local.apiserver.kinds.workload import (
    SelectingStrategy,
    bound_errors,
    default_rolling_update,
    go_strategy,
    is_zero_bound,
    share_errors,
)
from hotmap.local.field_errors import FieldError, invalid_value, required, unsupported
from hotmap.local.json_object import JsonObject
from hotmap.local.scheme import STATUS, Kind, Names
from hotmap.local.strategy import Column

if TYPE_CHECKING:
    from hotmap.local.strategy import Cell

_GENERATION = "deprecated.daemonset.template.generation"


def _node_selector(obj: JsonObject, _: float) -> Cell:
    return labels_text(obj["spec"].get("template", {}).get("spec", {}).get("nodeSelector"))


def _rolling_errors(rolling: JsonObject) -> list[FieldError]:
    """One of the two amounts is zero, and only one (validateRollingUpdateDaemonSet)."""
    path = "spec.updateStrategy.rollingUpdate"
    bounds = {field: rolling.get(field, 0) for field in ("maxUnavailable", "maxSurge")}
    errors: list[FieldError] = []
    for check in (bound_errors, share_errors):
        for field, bound in bounds.items():
            errors += check(bound, f"{path}.{field}")
    unavailable, surge = (not is_zero_bound(bound) for bound in bounds.values())
    if unavailable and surge:
        why = "may not be set when maxUnavailable is non-zero"
        errors.append(invalid_value(f"{path}.maxSurge", rolling["maxSurge"], why))
    elif not unavailable and not surge:
        errors.append(required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return errors


class DaemonSetStrategy(SelectingStrategy):
    selector_owner = "daemonset"
    deadline_owner = "DaemonSet"
    needs_selector = False
    invalid_selector = None
    hidden_annotations = (_GENERATION,)
    columns = (
        NAME,
        Column("Desired", field_cell("status.desiredNumberScheduled", 0), type="integer"),
        Column("Current", field_cell("status.currentNumberScheduled", 0), type="integer"),
        Column("Ready", field_cell("status.numberReady", 0), type="integer"),
        Column("Up-to-date", field_cell("status.updatedNumberScheduled", 0), type="integer"),
        Column("Available", field_cell("status.numberAvailable", 0), type="integer"),
        Column("Node Selector", _node_selector),
        AGE,
        *template_columns("spec.template", "spec.selector"),
    )

    def default_spec(self, spec: JsonObject) -> None:
        spec.setdefault("revisionHistoryLimit", 10)
        strategy = spec.setdefault("updateStrategy", {})
        default_rolling_update(strategy, maxUnavailable=1, maxSurge=0)

    def spec_errors(self, spec: JsonObject) -> list[FieldError]:
        strategy = spec["updateStrategy"]
        known = ("RollingUpdate", "OnDelete")
        if strategy["type"] == "RollingUpdate":
            return _rolling_errors(strategy["rollingUpdate"])
        if strategy["type"] in known:
            return []
        return [unsupported("spec.updateStrategy", go_strategy(strategy), known)]

    def default(self, obj: JsonObject) -> None:
        """The generation of the template is in an annotation (SetDefaults_DaemonSet)."""
        super().default(obj)
        annotations = obj["metadata"].setdefault("annotations", {})
        generation = obj["spec"].pop("templateGeneration", None)
        annotations.setdefault(_GENERATION, str(generation or 0))

    def prepare_create(self, obj: JsonObject) -> None:
        obj["metadata"]["annotations"][_GENERATION] = "1"

    def prepare_update(self, old: JsonObject, new: JsonObject) -> None:
        self.default(new)
        known = int(old["metadata"].get("annotations", {}).get(_GENERATION, 0))
        changed = old["spec"].get("template") != new["spec"].get("template")
        annotations = new["metadata"].setdefault("annotations", {})
        annotations[_GENERATION] = str(known + changed)

    def initial_status(self, obj: JsonObject) -> JsonObject | None:
        counts = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled")
        return dict.fromkeys((*counts, "numberReady"), 0)


DAEMONSETS = Kind(
    "apps",
    ("v1",),
    Names("daemonsets", "DaemonSet", ("ds",), ("all",), storage="daemonsets"),
    subresources=(STATUS,),
    strategy=DaemonSetStrategy(),
)
