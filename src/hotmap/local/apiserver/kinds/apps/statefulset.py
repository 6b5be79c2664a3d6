"""StatefulSets (pkg/registry/apps/statefulset/strategy.go)."""

from __future__ import annotations

from typing import Any

from hotmap.local.apiserver.columns import AGE, NAME
from hotmap.local.apiserver.kinds.workload import (
    TEMPLATE_COLUMNS,
    SelectingStrategy,
    default_rolling_update,
    ready_of,
)
from hotmap.local.scheme import SCALE, STATUS, Kind, Names
from hotmap.local.strategy import Column

JsonObject = dict[str, Any]


class StatefulSetStrategy(SelectingStrategy):
    selector_owner = "statefulset"
    columns = (NAME, Column("Ready", ready_of("spec.replicas")), AGE, *TEMPLATE_COLUMNS)

    def default_spec(self, spec: JsonObject) -> None:
        spec.setdefault("replicas", 1)
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("podManagementPolicy", "OrderedReady")
        default_rolling_update(spec.setdefault("updateStrategy", {}), partition=0)


STATEFULSETS = Kind(
    "apps",
    ("v1",),
    Names("statefulsets", "StatefulSet", ("sts",), ("all",), storage="statefulsets"),
    subresources=(STATUS, SCALE),
    strategy=StatefulSetStrategy(),
)
