"""Endpoints (pkg/registry/core/endpoint/strategy.go)."""

from __future__ import annotations

from hotmap.local.scheme import Kind, Names
from hotmap.local.strategy import Strategy


class EndpointsStrategy(Strategy):
    create_on_update = True


ENDPOINTS = Kind(
    "",
    ("v1",),
    Names("endpoints", "Endpoints", ("ep",), storage="services/endpoints"),
    strategy=EndpointsStrategy(),
)
