"""Endpoints (pkg/registry/core/endpoint/strategy.go)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotmap.local.apiserver.columns import AGE, NAME
from hotmap.local.apiserver.kinds.stored_defaults import default_endpoints
from hotmap.local.apiserver.kinds.validation.endpoints import endpoints_errors
from hotmap.local.json_object import JsonObject
from hotmap.local.scheme import Kind, Names
from hotmap.local.strategy import Column, Strategy

if TYPE_CHECKING:
    from hotmap.local.field_errors import FieldError
    from hotmap.local.strategy import Cell

# Addresses that a cell shows at most.
_SHOWN = 3


def _addresses(endpoints: JsonObject, _: float) -> Cell:
    """Show addresses with their ports (formatEndpoints)."""
    found: list[str] = []
    for subset in endpoints.get("subsets") or ():
        addresses = [address.get("ip", "") for address in subset.get("addresses") or ()]
        ports = [port.get("port") for port in subset.get("ports") or ()]
        found += [f"{ip}:{port}" for port in ports for ip in addresses] if ports else addresses
    if not found:
        return "<none>"
    shown = ",".join(found[:_SHOWN])
    return shown if len(found) <= _SHOWN else f"{shown} + {len(found) - _SHOWN} more..."


class EndpointsStrategy(Strategy):
    create_on_update = True

    def default(self, obj: JsonObject) -> None:
        default_endpoints(obj)

    columns = (NAME, Column("Endpoints", _addresses), AGE)

    def validate(self, obj: JsonObject) -> list[FieldError]:
        return list(endpoints_errors(obj))

    deprecation = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"


ENDPOINTS = Kind(
    "",
    ("v1",),
    Names("endpoints", "Endpoints", ("ep",), storage="services/endpoints"),
    strategy=EndpointsStrategy(),
)
