"""ReplicaSets (pkg/registry/apps/replicaset/strategy.go)."""

from __future__ import annotations

from hotmap.local.apiserver.columns import AGE, NAME, field_cell, template_columns
from hotmap.local.apiserver.kinds.workload import SelectingStrategy, status_errors
from hotmap.local.field_errors import FieldError
from hotmap.local.json_object import JsonObject
from hotmap.local.scheme import SCALE, STATUS, Kind, Names
from hotmap.local.strategy import Column


class ReplicaSetStrategy(SelectingStrategy):
    # Upstream's message says deployment here, too.
    selector_owner = "deployment"
    deadline_owner = "ReplicaSet"

    def validate_status(self, obj: JsonObject) -> list[FieldError]:
        return status_errors(obj.get("status") or {}, "fullyLabeledReplicas")

    columns = (
        NAME,
        Column("Desired", field_cell("spec.replicas", 0), type="integer"),
        Column("Current", field_cell("status.replicas", 0), type="integer"),
        Column("Ready", field_cell("status.readyReplicas", 0), type="integer"),
        AGE,
        *template_columns("spec.template", "spec.selector"),
    )

    def default_spec(self, spec: JsonObject) -> None:
        spec.setdefault("replicas", 1)

    def initial_status(self, obj: JsonObject) -> JsonObject | None:
        return {"replicas": 0}


REPLICASETS = Kind(
    "apps",
    ("v1",),
    Names("replicasets", "ReplicaSet", ("rs",), ("all",), storage="replicasets"),
    subresources=(STATUS, SCALE),
    strategy=ReplicaSetStrategy(),
)
