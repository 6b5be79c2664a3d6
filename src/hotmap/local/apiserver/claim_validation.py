"""The rules of PersistentVolumes and their claims (pkg/apis/core/validation)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotmap.local.apiserver.selector_validation import selector_errors
from hotmap.local.field_errors import (
    IMMUTABLE,
    forbidden_field,
    invalid_value,
    required,
    unsupported,
)
from hotmap.local.names import subdomain_errors
from hotmap.local.quantity import quantity_or_zero

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from decimal import Decimal

    from hotmap.local.field_errors import FieldError

JsonObject = dict[str, Any]

_POLICIES = ("Delete", "Recycle", "Retain")
# In the order in which upstream looks for them.
_SOURCES = (
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
)
#: Source → the fields that it cannot do without.
_NEEDED = {
    "hostPath": ("path",),
    "local": ("path",),
    "nfs": ("server", "path"),
    "csi": ("driver", "volumeHandle"),
}
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
    yield from _mode_errors(modes, f"{path}.accessModes")
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


def volume_errors(volume: JsonObject) -> Iterator[FieldError]:
    """Check a PersistentVolume (ValidatePersistentVolumeSpec)."""
    spec = volume.get("spec") or {}
    if not spec.get("accessModes"):
        yield required("spec.accessModes")
    yield from _mode_errors(spec.get("accessModes") or (), "spec.accessModes")
    capacity = spec.get("capacity") or {}
    if not capacity:
        yield required("spec.capacity")
    if list(capacity) != ["storage"]:
        shown = {name: str(amount) for name, amount in capacity.items()}
        yield unsupported("spec.capacity", shown, ("storage",))
    for name, amount in capacity.items():
        number = quantity_or_zero(amount)
        if number < 0:
            why = "must be a valid resource quantity"
            yield invalid_value(f"spec.capacity[{name}]", int(number), why)
        if number <= 0:
            yield invalid_value(f"spec.capacity[{name}]", str(amount), "must be greater than zero")
    policy = spec.get("persistentVolumeReclaimPolicy")
    if policy not in _POLICIES:
        yield unsupported("spec.persistentVolumeReclaimPolicy", policy, _POLICIES)
    yield from _source_errors(spec)
    if policy == "Recycle" and (spec.get("hostPath") or {}).get("path") == "/":
        why = "may not be 'recycle' for a hostPath mount of '/'"
        yield forbidden_field("spec.persistentVolumeReclaimPolicy", why)
    name = spec.get("storageClassName")
    for why in subdomain_errors(name) if name else ():
        yield invalid_value("spec.storageClassName", name, why)
    if spec.get("volumeMode") not in (None, "Block", "Filesystem"):
        yield unsupported("spec.volumeMode", spec["volumeMode"], ("Block", "Filesystem"))


def volume_update_errors(old: JsonObject, new: JsonObject) -> Iterator[FieldError]:
    """What a volume stands for never changes."""
    before, after = old.get("spec") or {}, new.get("spec") or {}
    if any(before.get(source) != after.get(source) for source in _SOURCES):
        why = "spec.persistentvolumesource is immutable after creation"
        yield forbidden_field("spec.persistentvolumesource", why)
    if before.get("volumeMode") != after.get("volumeMode"):
        yield invalid_value("volumeMode", after.get("volumeMode"), IMMUTABLE)


def _source_errors(spec: JsonObject) -> Iterator[FieldError]:
    found = [source for source in _SOURCES if spec.get(source) is not None]
    for source in found[1:]:
        yield forbidden_field(f"spec.{source}", "may not specify more than 1 volume type")
    if not found:
        yield required("spec", "must specify a volume type")
        return
    source, value = found[0], spec[found[0]]
    for field in _NEEDED.get(source, ()):
        if not value.get(field):
            yield required(f"spec.{source}.{field}")
    if source in ("hostPath", "local") and ".." in str(value.get("path", "")).split("/"):
        yield invalid_value(f"spec.{source}.path", value["path"], "must not contain '..'")
    if source == "nfs" and value.get("path") and not value["path"].startswith("/"):
        yield invalid_value("spec.nfs.path", value["path"], "must be an absolute path")
    if source == "local" and not (spec.get("nodeAffinity") or {}).get("required"):
        yield required("spec.nodeAffinity", "Local volume requires node affinity")


def _mode_errors(modes: Sequence[str], path: str) -> Iterator[FieldError]:
    for mode in modes:
        if mode not in _ACCESS_MODES:
            yield unsupported(path, mode, _ACCESS_MODES)
    if "ReadWriteOncePod" in modes and len({*modes}.intersection(_ACCESS_MODES)) > 1:
        yield forbidden_field(path, "may not use ReadWriteOncePod with other access modes")


def _request(claim: JsonObject) -> Decimal:
    requests = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
    return quantity_or_zero(requests.get("storage", 0))
