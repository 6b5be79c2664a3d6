"""Leases (pkg/registry/coordination/lease/strategy.go)."""

from __future__ import annotations

from hotmap.local.scheme import Kind, Names
from hotmap.local.strategy import Strategy


class LeaseStrategy(Strategy):
    unconditional_update = False
    create_on_update = True


LEASES = Kind(
    "coordination.k8s.io",
    ("v1",),
    Names("leases", "Lease", storage="leases"),
    strategy=LeaseStrategy(),
)
