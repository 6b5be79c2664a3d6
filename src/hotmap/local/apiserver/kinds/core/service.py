"""Services (pkg/registry/core/service/strategy.go); no address is given out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotmap.local.apiserver.columns import AGE, NAME, field_cell
from hotmap.local.apiserver.kinds.workload import selector_cell
from hotmap.local.names import label_1035_errors
from hotmap.local.scheme import STATUS, Kind, Names
from hotmap.local.strategy import Column, Strategy, field_labels

if TYPE_CHECKING:
    from hotmap.local.strategy import Cell

JsonObject = dict[str, Any]


def _ports(service: JsonObject, _: float) -> Cell:
    ports = service["spec"].get("ports") or ()
    shown = ",".join(f"{port.get('port')}/{port.get('protocol', 'TCP')}" for port in ports)
    return shown or "<none>"


class ServiceStrategy(Strategy):
    create_on_update = True
    selectable_fields = field_labels("spec.clusterIP", "spec.type")
    columns = (
        NAME,
        Column("Type", field_cell("spec.type", "ClusterIP")),
        Column("Cluster-IP", field_cell("spec.clusterIP", "<none>")),
        Column("External-IP", lambda *_: "<none>"),
        Column("Port(s)", _ports),
        AGE,
        Column("Selector", selector_cell, 1),
    )

    def name_errors(self, name: str) -> list[str]:
        return label_1035_errors(name)

    def initial_status(self, obj: JsonObject) -> JsonObject | None:
        return {"loadBalancer": {}}

    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("type", "ClusterIP")
        spec.setdefault("sessionAffinity", "None")
        for port in spec.get("ports", ()):
            port.setdefault("protocol", "TCP")
            if "port" in port:
                port.setdefault("targetPort", port["port"])


SERVICES = Kind(
    "",
    ("v1",),
    Names("services", "Service", ("svc",), ("all",), storage="services/specs"),
    subresources=(STATUS,),
    strategy=ServiceStrategy(),
)
