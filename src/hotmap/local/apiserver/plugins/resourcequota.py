"""Refuses what exceeds a ResourceQuota (apiserver/pkg/admission/plugin/resourcequota).

The usage is counted from the objects at the moment of the write. Nothing comes in between, so no
reservation is needed and quotas cannot be overdrawn.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import msgspec

from hotmap.local import quota
from hotmap.local.apiserver.status import forbidden
from hotmap.local.json_object import JsonObject
from hotmap.local.quantity import parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotmap.local.apiserver.plugins import AdmissionRequest
    from hotmap.local.apiserver.reader import ObjectReader
    from hotmap.local.scheme import Kind
    from hotmap.local.store import Store


class ResourceQuotaPlugin:
    """Counts new objects, and changed Services and PersistentVolumeClaims."""

    def __init__(self, store: Store, reader: ObjectReader) -> None:
        self._store = store
        self._kind = reader.scheme.resource("resourcequotas")

    def admit(self, request: AdmissionRequest) -> None:
        pass

    def validate(self, request: AdmissionRequest) -> None:
        kind = request.kind
        if not kind.namespaced or request.subresource:
            return
        if request.old is not None and kind.plural not in ("services", "persistentvolumeclaims"):
            return
        for found in self._objects(self._kind, request.namespace):
            self._check(request, found)

    def _check(self, request: AdmissionRequest, found: JsonObject) -> None:
        kind, obj = request.kind, request.obj
        hard = {
            name: limit
            for name, limit in ((found.get("spec") or {}).get("hard") or {}).items()
            if quota.counts(kind, name)
        }
        if not hard or not quota.is_in_scope(found, kind, obj):
            return
        name, quota_name = obj["metadata"].get("name", ""), found["metadata"]["name"]
        if (kind.group, kind.plural) == ("", "pods"):
            missing = quota.missing_requests(hard, obj["spec"])
            if missing:
                raise forbidden(kind, name, f"failed quota: {quota_name}: must specify {missing}")
        delta = quota.usage_of(kind, obj)
        if request.old is not None:
            before = quota.usage_of(kind, request.old)
            delta = {key: n - before.get(key, Decimal(0)) for key, n in delta.items()}
        used = quota.total(
            quota.usage_of(kind, other)
            for other in self._objects(kind, request.namespace)
            if quota.is_in_scope(found, kind, other)
        )
        limits = quota.total([{key: parse_quantity(str(v)) for key, v in hard.items()}])
        exceeded = [
            key
            for key in sorted(hard)
            if delta.get(key, Decimal(0)) > 0
            and used.get(key, Decimal(0)) + delta[key] > limits[key]
        ]
        if exceeded:
            parts = (("requested", delta), ("used", used), ("limited", limits))
            shown = ", ".join(
                f"{word}: {_shown(amounts, hard, exceeded)}" for word, amounts in parts
            )
            raise forbidden(kind, name, f"exceeded quota: {quota_name}, {shown}")

    def _objects(self, kind: Kind, namespace: str) -> Iterator[JsonObject]:
        for entry in self._store.range(kind.prefix(namespace)).entries:
            found: JsonObject = msgspec.json.decode(entry.value or b"")
            yield found


def _shown(amounts: dict[str, Decimal], hard: JsonObject, names: list[str]) -> str:
    written = quota.format_usage(amounts, {name: hard[name] for name in names})
    return ",".join(f"{name}={amount}" for name, amount in written.items())
