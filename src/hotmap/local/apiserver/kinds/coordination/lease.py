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

    def prepare_create(self, obj: dict[str, Any]) -> None:
        """Drop what needs the feature gate CoordinatedLeaderElection, which is off."""
        for field in ("strategy", "preferredHolder"):
            obj.get("spec", {}).pop(field, None)

    def prepare_update(self, old: dict[str, Any], new: dict[str, Any]) -> None:
        self.prepare_create(new)

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
