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
from hotmap.local.names import label_name_errors
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
        policy = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
        policy.setdefault("whenDeleted", "Retain")
        policy.setdefault("whenScaled", "Retain")
        for claim in spec.get("volumeClaimTemplates") or ():
            claim.setdefault("kind", "PersistentVolumeClaim")
            claim.setdefault("apiVersion", "v1")
            claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
            claim["status"] = {"phase": "Pending"}

    def initial_status(self, obj: JsonObject) -> JsonObject | None:
        return {"replicas": 0, "availableReplicas": 0}

    def name_errors(self, name: str) -> list[str]:
        return label_name_errors(name)


STATEFULSETS = Kind(
    "apps",
    ("v1",),
    Names("statefulsets", "StatefulSet", ("sts",), ("all",), storage="statefulsets"),
    subresources=(STATUS, SCALE),
    strategy=StatefulSetStrategy(),
)
