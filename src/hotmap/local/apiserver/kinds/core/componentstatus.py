"""ComponentStatus (pkg/registry/core/componentstatus), and Binding, which is answered only.

The parts of the plane run in one process with the API server: when it answers, they are healthy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotmap.local.apiserver.columns import NAME
from hotmap.local.json_object import JsonObject
from hotmap.local.scheme import Kind, Names
from hotmap.local.strategy import Column, Strategy

if TYPE_CHECKING:
    from hotmap.local.strategy import Cell

#: The parts of a control plane beside the API server, in the order of their names.
COMPONENTS = ("controller-manager", "etcd-0", "scheduler")


def component_status(name: str) -> JsonObject:
    """Make the object of a part that is healthy."""
    condition = {"type": "Healthy", "status": "True", "message": "ok"}
    return {
        "kind": "ComponentStatus",
        "apiVersion": "v1",
        "metadata": {"name": name},
        "conditions": [condition],
    }


def _condition(obj: JsonObject) -> JsonObject:
    found = (each for each in obj.get("conditions") or () if each.get("type") == "Healthy")
    return next(found, {})


def _health(obj: JsonObject, _: float) -> Cell:
    return "Healthy" if _condition(obj).get("status") == "True" else "Unhealthy"


def _message(obj: JsonObject, _: float) -> Cell:
    return str(_condition(obj).get("message", ""))


def _error(obj: JsonObject, _: float) -> Cell:
    return str(_condition(obj).get("error", ""))


class ComponentStatusStrategy(Strategy):
    """Read only."""

    deprecation = "v1 ComponentStatus is deprecated in v1.19+"
    columns = (
        NAME,
        Column("Status", _health),
        Column("Message", _message),
        Column("Error", _error),
    )


COMPONENT_STATUSES = Kind(
    "",
    ("v1",),
    Names("componentstatuses", "ComponentStatus", ("cs",), storage="componentstatuses"),
    namespaced=False,
    strategy=ComponentStatusStrategy(),
    verbs=("get", "list"),
)

BINDINGS = Kind("", ("v1",), Names("bindings", "Binding"), verbs=("create",))
