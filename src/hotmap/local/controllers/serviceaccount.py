"""Gives every namespace what its pods expect to find: a service account and the root CA.

kubernetes: pkg/controller/serviceaccount (the account `default`), pkg/controller/certificates/
rootcacertpublisher (the ConfigMap `kube-root-ca.crt`). Both are made again when someone deletes
them; the ConfigMap's content is put right, the account's is its owners' business.
"""

from __future__ import annotations

import contextlib

from hotmap.core.errors import AlreadyExists, Forbidden, NotFound
from hotmap.local.apiserver.registry import Registry
from hotmap.local.controllers.loop import KeyedLoop
from hotmap.local.informer import Informers
from hotmap.local.meta import (
    MANAGER,
    Object,
    ObjectName,
    annotations_of,
    is_deleted,
    name_of,
    with_metadata,
)

__all__ = ["ServiceAccountController"]

_ACCOUNT = "default"
_ROOT_CA = "kube-root-ca.crt"
_DESCRIPTION = {
    "kubernetes.io/description": (
        "Contains a CA bundle that can be used to verify the kube-apiserver when using "
        "internal endpoints such as the internal service IP or kubernetes.default.svc. No other "
        "usage is guaranteed across distributions of Kubernetes clusters."
    )
}


class ServiceAccountController:
    """Furnish namespaces; *root_ca* is PEM text, without it no ConfigMap is published."""

    def __init__(self, registry: Registry, informers: Informers, *, root_ca: str | None) -> None:
        self._registry = registry
        self._root_ca = root_ca
        self._namespaces = informers["namespaces"]
        self._accounts = informers["serviceaccounts"]
        self._configmaps = informers["configmaps"]
        self._loop = KeyedLoop("serviceaccount", self.sync)
        self._namespaces.subscribe(self._on_namespace)
        self._accounts.subscribe(self._on_furniture)
        self._configmaps.subscribe(self._on_furniture)

    async def run(self) -> None:
        """Furnish until cancelled."""
        await self._loop.run()

    async def sync(self, key: ObjectName) -> None:
        """Make what is missing in one namespace; nothing in one that is going."""
        namespace = self._namespaces.objects.get(key)
        if namespace is None or is_deleted(namespace):
            return
        name = namespace["metadata"]["name"]
        # Refused or not found: the namespace is going or gone, which is no failure.
        with contextlib.suppress(Forbidden, NotFound):
            if (name, _ACCOUNT) not in self._accounts.objects:
                await self._create("serviceaccounts", name, {"metadata": {"name": _ACCOUNT}})
            if self._root_ca is not None:
                await self._publish(name, {"ca.crt": self._root_ca})

    def _on_namespace(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self._loop.add(name_of(new))

    def _on_furniture(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        if obj is not None and obj["metadata"]["name"] in (_ACCOUNT, _ROOT_CA):
            self._loop.add(("", obj["metadata"]["namespace"]))

    async def _publish(self, namespace: str, data: dict[str, str]) -> None:
        present = self._configmaps.objects.get((namespace, _ROOT_CA))
        if present is None:
            metadata = {"name": _ROOT_CA, "annotations": _DESCRIPTION}
            await self._create("configmaps", namespace, {"metadata": metadata, "data": data})
            return
        annotations = annotations_of(present) | _DESCRIPTION
        if present.get("data") == data and annotations == annotations_of(present):
            return
        right = with_metadata(present, annotations=annotations)
        await self._registry.update(
            "configmaps", namespace, _ROOT_CA, {**right, "data": data}, manager=MANAGER
        )

    async def _create(self, plural: str, namespace: str, obj: Object) -> None:
        with contextlib.suppress(AlreadyExists):
            await self._registry.create(plural, namespace, obj, manager=MANAGER)
