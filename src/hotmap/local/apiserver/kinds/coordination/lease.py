"""Leases (pkg/registry/coordination/lease/strategy.go)."""

from __future__ import annotations

from typing import Any

from hotmap.local.apiserver.columns import AGE, NAME, field_cell
from hotmap.local.field_errors import NOT_NEGATIVE, FieldError, invalid_value
from hotmap.local.scheme import Kind, Names
from hotmap.local.strategy import Column, Strategy


class LeaseStrategy(Strategy):
    unconditional_update = False
    create_on_update = True
    columns = (NAME, Column("Holder", field_cell("spec.holderIdentity")), AGE)

    def validate(self, obj: dict[str, Any]) -> list[FieldError]:
        spec = obj.get("spec") or {}
        duration, changes = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        errors: list[FieldError] = []
        if duration is not None and duration <= 0:
            why = "must be greater than 0"
            errors.append(invalid_value("spec.leaseDurationSeconds", duration, why))
        if changes is not None and changes < 0:
            why = NOT_NEGATIVE
            errors.append(invalid_value("spec.leaseTransitions", changes, why))
        return errors


LEASES = Kind(
    "coordination.k8s.io",
    ("v1",),
    Names("leases", "Lease", storage="leases"),
    strategy=LeaseStrategy(),
)
