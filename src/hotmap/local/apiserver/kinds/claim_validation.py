"""The rules of PersistentVolumeClaims (pkg/apis/core/validation)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotmap.local.apiserver.selector_validation import selector_errors
from hotmap.local.field_errors import forbidden_field, invalid_value, required, unsupported
from hotmap.local.names import subdomain_errors
from hotmap.local.quantity import parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotmap.local.field_errors import FieldError

JsonObject = dict[str, Any]

_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")


def claim_errors(claim: JsonObject) -> Iterator[FieldError]:
    """Check a PersistentVolumeClaim."""
    yield from claim_spec_errors(claim.get("spec") or {}, "spec")


def claim_spec_errors(spec: JsonObject, path: str) -> Iterator[FieldError]:
    """Check the spec of a claim (ValidatePersistentVolumeClaimSpec)."""
    modes = spec.get("accessModes") or ()
    if not modes:
        yield required(f"{path}.accessModes", "at least 1 access mode is required")
    yield from selector_errors(spec.get("selector") or {}, f"{path}.selector")
    for mode in modes:
        if mode not in _ACCESS_MODES:
            yield unsupported(f"{path}.accessModes", mode, _ACCESS_MODES)
    if "ReadWriteOncePod" in modes and len(set(modes)) > 1:
        why = "may not use ReadWriteOncePod with other access modes"
        yield forbidden_field(f"{path}.accessModes", why)
    at = f"{path}.resources[storage]"
    storage = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if storage is None:
        yield required(at)
    elif _amount(storage) <= 0:
        yield invalid_value(at, storage, "must be greater than zero")
    name = spec.get("storageClassName")
    for why in subdomain_errors(name) if name else ():
        yield invalid_value(f"{path}.storageClassName", name, why)
    mode = spec.get("volumeMode")
    if mode not in (None, "Block", "Filesystem"):
        yield unsupported(f"{path}.volumeMode", mode, ("Block", "Filesystem"))


_CLAIM_TEXT = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for "
    "bound claims"
)


def claim_update_errors(old: JsonObject, new: JsonObject) -> Iterator[FieldError]:
    """Only what a bound claim requests may change."""
    before, after = dict(old.get("spec") or {}), dict(new.get("spec") or {})
    if (old.get("status") or {}).get("phase") == "Bound":
        for spec in (before, after):
            spec.pop("resources", None)
            spec.pop("volumeAttributesClassName", None)
    if not before.get("volumeName"):
        # Whoever binds the claim sets it once.
        before.pop("volumeName", None)
        after.pop("volumeName", None)
    if "storageClassName" not in before:
        # So that it may get the default class later on.
        after.pop("storageClassName", None)
    if before != after:
        yield forbidden_field("spec", _CLAIM_TEXT)


def _amount(text: object) -> float:
    try:
        return float(parse_quantity(str(text)))
    except ValueError:
        return 0.0
