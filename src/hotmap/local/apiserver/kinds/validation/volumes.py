"""PersistentVolumes (pkg/apis/core/validation, ValidatePersistentVolumeSpec)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotmap.local.apiserver.affinity_validation import node_selector_errors
from hotmap.local.apiserver.claim_validation import access_mode_errors
from hotmap.local.apiserver.volume_validation import host_path_errors
from hotmap.local.field_errors import (
    IMMUTABLE,
    FieldError,
    forbidden_field,
    invalid_value,
    name_errors,
    required,
    rule_errors,
    unsupported,
)
from hotmap.local.json_object import JsonObject
from hotmap.local.names import driver_name_errors, subdomain_errors
from hotmap.local.quantity import quantity_or_zero

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    "iscsi": ("targetPortal", "iqn"),
    "nfs": ("server", "path"),
    "csi": ("driver", "volumeHandle"),
}


def volume_errors(volume: JsonObject) -> Iterator[FieldError]:
    """Check a PersistentVolume (ValidatePersistentVolumeSpec)."""
    spec = volume["spec"]
    if not spec.get("accessModes"):
        yield required("spec.accessModes")
    yield from access_mode_errors(spec.get("accessModes") or (), "spec.accessModes")
    yield from _capacity_errors(spec.get("capacity") or {})
    policy = spec.get("persistentVolumeReclaimPolicy")
    if policy not in _POLICIES:
        yield unsupported("spec.persistentVolumeReclaimPolicy", policy, _POLICIES)
    affinity, at = spec.get("nodeAffinity"), "spec.nodeAffinity.required"
    if affinity is not None and "required" not in affinity:
        yield required(at, "must specify required node constraints")
    elif affinity is not None:
        yield from node_selector_errors(affinity["required"], at)
    yield from _source_errors(spec)
    if policy == "Recycle" and (spec.get("hostPath") or {}).get("path") == "/":
        why = "may not be 'recycle' for a hostPath mount of '/'"
        yield forbidden_field("spec.persistentVolumeReclaimPolicy", why)
    name = spec.get("storageClassName")
    for why in subdomain_errors(name) if name else ():
        yield invalid_value("spec.storageClassName", name, why)
    yield from _attributes_errors(spec)
    if spec.get("volumeMode") not in (None, "Block", "Filesystem"):
        yield unsupported("spec.volumeMode", spec["volumeMode"], ("Block", "Filesystem"))


def _capacity_errors(capacity: JsonObject) -> Iterator[FieldError]:
    if not capacity:
        yield required("spec.capacity")
    if list(capacity) != ["storage"]:
        yield unsupported("spec.capacity", capacity or None, ("storage",))
    for name, amount in capacity.items():
        number = quantity_or_zero(amount)
        if number < 0:
            why = "must be a valid resource quantity"
            yield invalid_value(f"spec.capacity[{name}]", int(number), why)
        if number <= 0:
            yield invalid_value(f"spec.capacity[{name}]", str(amount), "must be greater than zero")


def _attributes_errors(spec: JsonObject) -> Iterator[FieldError]:
    attributes, at = spec.get("volumeAttributesClassName"), "spec.volumeAttributesClassName"
    if attributes is not None:
        why = "an empty string is disallowed"
        yield from name_errors(attributes, at, subdomain_errors, why)
        if "csi" not in spec:
            why = "has to be specified when using volumeAttributesClassName"
            yield required("spec.csi", why)


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
    if source in ("hostPath", "local"):
        yield from host_path_errors(value, f"spec.{source}")
    if source == "csi" and value.get("driver"):
        yield from rule_errors("spec.csi.driver", value["driver"], driver_name_errors)
    if source == "nfs" and not value["path"].startswith("/"):
        yield invalid_value("spec.nfs.path", value["path"], "must be an absolute path")
    if source == "local" and "nodeAffinity" not in spec:
        yield required("spec.nodeAffinity", "Local volume requires node affinity")
