"""Leases (pkg/registry/coordination/lease/strategy.go)."""

from __future__ import annotations

from hotmap.local.apiserver.columns import AGE, NAME, field_cell
from hotmap.local.scheme import Kind, Names
from hotmap.local.strategy import Column, Strategy


class LeaseStrategy(Strategy):
    unconditional_update = False
    create_on_update = True
    columns = (NAME, Column("Holder", field_cell("spec.holderIdentity")), AGE)


LEASES = Kind(
    "coordination.k8s.io",
    ("v1",),
    Names("leases", "Lease", storage="leases"),
    strategy=LeaseStrategy(),
)
