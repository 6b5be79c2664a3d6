"""Namespaces (pkg/registry/core/namespace/strategy.go)."""

from __future__ import annotations

from hotmap.local.apiserver.columns import AGE, NAME, field_cell
from hotmap.local.json_object import JsonObject
from hotmap.local.names import label_name_errors
from hotmap.local.scheme import ALL_VERBS, STATUS, Kind, Names, Subresource
from hotmap.local.strategy import Column, Strategy, field_labels

_FINALIZE = Subresource("finalize", ("update",), field="spec")


class NamespaceStrategy(Strategy):
    tells_grace = False
    selectable_fields = field_labels("status.phase")
    columns = (NAME, Column("Status", field_cell("status.phase")), AGE)

    def name_errors(self, name: str) -> list[str]:
        return label_name_errors(name)

    def prepare_create(self, obj: JsonObject) -> None:
        obj["spec"] = {"finalizers": ["kubernetes"]}

    def initial_status(self, obj: JsonObject) -> JsonObject | None:
        return {"phase": "Active"}

    def default(self, obj: JsonObject) -> None:
        """Label every namespace with its name (pkg/apis/core/v1: SetDefaults_Namespace)."""
        metadata = obj["metadata"]
        own = {"kubernetes.io/metadata.name": metadata.get("name", "")}
        metadata["labels"] = {**metadata.get("labels", {}), **own}

    def prepare_update(self, old: JsonObject, new: JsonObject) -> None:
        new["spec"] = old["spec"]

    def prepare_delete(self, obj: JsonObject) -> None:
        obj["status"] = {**obj.get("status", {}), "phase": "Terminating"}

    def has_finalizers(self, obj: JsonObject) -> bool:
        return bool(obj.get("spec", {}).get("finalizers"))


NAMESPACES = Kind(
    "",
    ("v1",),
    Names("namespaces", "Namespace", ("ns",), storage="namespaces"),
    namespaced=False,
    subresources=(STATUS, _FINALIZE),
    strategy=NamespaceStrategy(),
    # All namespaces at once cannot be deleted.
    verbs=tuple(verb for verb in ALL_VERBS if verb != "deletecollection"),
)
