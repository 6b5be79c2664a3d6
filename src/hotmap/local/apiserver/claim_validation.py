"""The rules of PersistentVolumeClaims (pkg/apis/core/validation)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotmap.local.apiserver.selector_validation import selector_errors
from hotmap.local.field_errors import (
    IMMUTABLE,
    forbidden_field,
    invalid_value,
    required,
    rule_errors,
    unsupported,
)
from hotmap.local.json_object import JsonObject
from hotmap.local.names import subdomain_errors
from hotmap.local.quantity import quantity_or_zero

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from decimal import Decimal

    from hotmap.local.field_errors import FieldError

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
    yield from access_mode_errors(modes, f"{path}.accessModes")
    at = f"{path}.resources[storage]"
    storage = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if storage is None:
        yield required(at)
    elif quantity_or_zero(storage) <= 0:
        yield invalid_value(at, str(storage), "must be greater than zero")
    name = spec.get("storageClassName")
    for why in subdomain_errors(name) if name else ():
        yield invalid_value(f"{path}.storageClassName", name, why)
    mode = spec.get("volumeMode")
    if mode not in (None, "Block", "Filesystem"):
        yield unsupported(f"{path}.volumeMode", mode, ("Block", "Filesystem"))
    yield from _data_source_errors(spec, path)
    name = spec.get("volumeAttributesClassName")
    if name:
        yield from rule_errors(f"{path}.volumeAttributesClassName", name, subdomain_errors)


def _data_source_errors(spec: JsonObject, path: str) -> Iterator[FieldError]:
    """Check what a new volume is filled with (validateDataSource, validateDataSourceRef)."""
    sources = [spec.get(field) or {} for field in ("dataSource", "dataSourceRef")]
    for field, source in zip(("dataSource", "dataSourceRef"), sources, strict=True):
        at, group, kind = f"{path}.{field}", source.get("apiGroup"), source.get("kind")
        for name in ("name", "kind") if source else ():
            if not source.get(name):
                yield required(f"{at}.{name}")
        if source and not group and kind != "PersistentVolumeClaim":
            why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
            yield invalid_value(at, kind, why)
        if group:
            yield from rule_errors(f"{at}.apiGroup", group, subdomain_errors)
    before, after = ({**source, "apiGroup": source.get("apiGroup")} for source in sources)
    if all(sources) and before != after:
        # What Go shows of a path.
        yield invalid_value(path, {}, "must match dataSourceRef")


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
    wanted, asked = _request(new), _request(old)
    capacity = ((old.get("status") or {}).get("capacity") or {}).get("storage", 0)
    if wanted < asked and wanted <= quantity_or_zero(capacity):
        why = "field can not be less than status.capacity"
        yield forbidden_field("spec.resources.requests.storage", why)
    mode = (new.get("spec") or {}).get("volumeMode")
    if (old.get("spec") or {}).get("volumeMode") != mode:
        yield invalid_value("volumeMode", mode, IMMUTABLE)


def access_mode_errors(modes: Sequence[str], path: str) -> Iterator[FieldError]:
    """Check how a volume may be mounted."""
    for mode in modes:
        if mode not in _ACCESS_MODES:
            yield unsupported(path, mode, _ACCESS_MODES)
    if "ReadWriteOncePod" in modes and len({*modes}.intersection(_ACCESS_MODES)) > 1:
        yield forbidden_field(path, "may not use ReadWriteOncePod with other access modes")


def _request(claim: JsonObject) -> Decimal:
    requests = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
    return quantity_or_zero(requests.get("storage", 0))
