"""Writes the usage of ResourceQuotas into their status (pkg/controller/resourcequota)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from decimal import Decimal
from functools import partial

from hotmap.core.errors import NotFound
from hotmap.local import quota
from hotmap.local.controllers.controller import Controller, ControllerContext
from hotmap.local.informer import Informer, by_namespace
from hotmap.local.meta import MANAGER, Object, ObjectName, name_of
from hotmap.local.scheme import Kind

__all__ = ["ResourceQuotaController"]

# Changes that come in a burst are counted once.
_SETTLE = 0.05


class ResourceQuotaController(Controller[ObjectName]):
    """Count what quotas are about; kinds are followed when a quota first counts them."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context, "resourcequota")
        self._quotas = self._informers["resourcequotas"]
        self._in_namespace = self._quotas.index(by_namespace)
        self._quotas.subscribe(self._add_changed)
        self._followed: dict[str, Informer] = {}

    async def sync(self, key: ObjectName) -> None:
        """Bring the status of one quota up to date."""
        found = self._quotas.objects.get(key)
        if found is None:
            return
        hard = (found.get("spec") or {}).get("hard") or {}
        used: quota.Usage = {}
        for kind in self._client.scheme:
            names = [name for name in hard if quota.counts(kind, name)]
            if not names or not kind.namespaced or "watch" not in kind.verbs:
                continue
            informer = await self._follow(kind)
            usages = (
                quota.usage_of(kind, obj)
                for (namespace, _), obj in informer.objects.items()
                if namespace == key[0] and quota.is_in_scope(found, kind, obj)
            )
            counted = quota.total(usages)
            used.update({name: counted.get(name, Decimal(0)) for name in names})
        status = {"hard": hard, "used": quota.format_usage(used, hard)}
        if (found.get("status") or {}) == status:
            return
        with contextlib.suppress(NotFound):
            await self._client.modify(
                "resourcequotas",
                *key,
                lambda present: {**present, "status": status},
                subresource="status",
                manager=MANAGER,
            )

    async def _follow(self, kind: Kind) -> Informer:
        informer = self._followed.get(kind.resource)
        if informer is None:
            informer = self._followed[kind.resource] = self._informers[kind.resource]
            informer.subscribe(partial(self._on_counted, _namespace_of))
        await informer.wait_for_sync()
        return informer

    def _on_counted(
        self, namespace_of: Callable[[Object], str], old: Object | None, new: Object | None
    ) -> None:
        obj = new or old
        if obj is not None:
            for found in self._in_namespace.get(namespace_of(obj)):
                self._loop.add_after(name_of(found), _SETTLE)


def _namespace_of(obj: Object) -> str:
    return str(obj["metadata"].get("namespace", ""))
