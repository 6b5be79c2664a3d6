"""Values as Kubernetes' API server writes them to etcd.

Built-in kinds are protobuf in the envelope `k8s\\0`, custom resources JSON with sorted keys and a
newline (apiserver/pkg/registry/generic/registry/storage_factory.go; apiextensions-apiserver). The
rest of this package works on the JSON of `encoding`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec

from hotmap.core.errors import BadRequest
from hotmap.local.apiserver import protobuf
from hotmap.local.apiserver.encoding import encode
from hotmap.local.apiserver.protobuf_encoder import encode_object
from hotmap.local.etcd import EtcdStore
from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from hotmap.local.scheme import Scheme
    from hotmap.local.store import Store

_log = logging.getLogger(__name__)


class StorageCodec:
    """Translate between values of the API server and values of etcd."""

    def __init__(self, scheme: Scheme) -> None:
        self._scheme = scheme
        # Prefixes of keys that were met and cannot be read.
        self._unreadable: set[str] = set()

    def encode(self, key: str, value: bytes) -> bytes:
        """Write a value as etcd should hold it."""
        return encode_stored(value)

    def decode(self, key: str, value: bytes) -> bytes | None:
        """Read a value of etcd, None where it is of no kind that is served here."""
        try:
            if not value.startswith(protobuf.MAGIC):
                return _arrange(_current(msgspec.json.decode(value)))
            obj = protobuf.decode_object(value)
            kind = self._scheme.find_kind(obj["apiVersion"].rpartition("/")[0], obj["kind"])
            if kind is not None and kind.api_version == obj["apiVersion"]:
                return _arrange(obj)
        except (BadRequest, msgspec.DecodeError, KeyError, TypeError, AttributeError):
            self._say_unreadable(key, value)
        return None

    def _say_unreadable(self, key: str, value: bytes) -> None:
        prefix = "/".join(key.split("/")[:3])
        if prefix in self._unreadable:
            return
        self._unreadable.add(prefix)
        why = "they are encrypted" if value.startswith(b"k8s:enc:") else "their form is not known"
        _log.warning("keys under %s are not served: %s", prefix, why)


def encode_stored(value: bytes) -> bytes:
    """Write a stored object, which is JSON, as etcd would hold it."""
    obj: JsonObject = msgspec.json.decode(value)
    encoded = encode_object(obj)
    return msgspec.json.encode(obj, order="sorted") + b"\n" if encoded is None else encoded


def stored_value(store: Store, key: str) -> bytes | None:
    """Return the value of a key as etcd holds it, or would hold it; None where there is none."""
    if isinstance(store, EtcdStore):
        return store.get_raw(key)
    entry = store.get(key)
    return None if entry is None else encode_stored(entry.value or b"")


def _current(obj: JsonObject) -> JsonObject:
    """Return a CustomResourceDefinition of etcd, which is v1beta1 there, as v1; others as they are.

    apiextensions-apiserver/pkg/apis/apiextensions/v1beta1/conversion.go: what all versions share is
    a field of the spec.
    """
    if obj["apiVersion"] != "apiextensions.k8s.io/v1beta1":
        return obj
    spec = dict(obj["spec"])
    validation = spec.pop("validation", None)
    columns = spec.pop("additionalPrinterColumns", None)
    shared = {
        "schema": validation,
        "subresources": spec.pop("subresources", None),
        "additionalPrinterColumns": columns,
        "selectableFields": spec.pop("selectableFields", None),
    }
    name = spec.pop("version", None)
    spec.pop("preserveUnknownFields", None)
    versions = spec.get("versions") or [{"name": name, "served": True, "storage": True}]
    spec["versions"] = [
        {**version, **{field: v for field, v in shared.items() if v and field not in version}}
        for version in versions
    ]
    for version in spec["versions"]:
        if "additionalPrinterColumns" in version:
            version["additionalPrinterColumns"] = [
                {("jsonPath" if field == "JSONPath" else field): v for field, v in column.items()}
                for column in version["additionalPrinterColumns"]
            ]
    return {**obj, "apiVersion": "apiextensions.k8s.io/v1", "spec": spec}


def _arrange(obj: JsonObject) -> bytes:
    head = {"kind": obj["kind"], "apiVersion": obj["apiVersion"], "metadata": obj["metadata"]}
    return encode({**head, **{field: v for field, v in obj.items() if field not in head}})
