"""Creates a service account and the root CA's ConfigMap in every namespace.

kubernetes: pkg/controller/serviceaccount (the account `default`), pkg/controller/certificates/
rootcacertpublisher (the ConfigMap `kube-root-ca.crt`). Both are created again when they
are deleted. The ConfigMap's content is restored, the account's is left alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import NamedTuple

from hotmap.core.errors import AlreadyExists, Forbidden, NotFound
from hotmap.local.controllers.controller import Controller, ControllerContext
from hotmap.local.meta import (
    MANAGER,
    Object,
    ObjectName,
    annotations_of,
    is_deleted,
    with_metadata,
)

__all__ = ["AccountSettings", "ServiceAccountController"]

_ACCOUNT = "default"
_ROOT_CA = "kube-root-ca.crt"
_DESCRIPTION = {
    "kubernetes.io/description": (
        "Contains a CA bundle that can be used to verify the kube-apiserver when using "
        "internal endpoints such as the internal service IP or kubernetes.default.svc. No other "
        "usage is guaranteed across distributions of Kubernetes clusters."
    )
}


class AccountSettings(NamedTuple):
    """What service accounts get."""

    #: The PEM text that every namespace's `kube-root-ca.crt` shows; None publishes none.
    root_ca: str | None = None
    #: Returns the token of an account for a Secret; None fills in no Secrets.
    make_token: Callable[[Object, Object], str] | None = None


class ServiceAccountController(Controller[ObjectName]):
    """Create the default objects of every namespace; *root_ca* is PEM text or None for none."""

    def __init__(self, context: ControllerContext, *, root_ca: str | None) -> None:
        super().__init__(context, "serviceaccount")
        self._root_ca = root_ca
        self._namespaces = self._informers["namespaces"]
        self._accounts = self._informers["serviceaccounts"]
        self._configmaps = self._informers["configmaps"]
        self._namespaces.subscribe(self._add_changed)
        self._accounts.subscribe(self._on_content)
        self._configmaps.subscribe(self._on_content)

    async def sync(self, key: ObjectName) -> None:
        """Create what is missing in one namespace, unless it is terminating."""
        namespace = self._namespaces.objects.get(key)
        if namespace is None or is_deleted(namespace):
            return
        name = namespace["metadata"]["name"]
        # The namespace is terminating or deleted, which is not a failure.
        with contextlib.suppress(Forbidden, NotFound):
            if (name, _ACCOUNT) not in self._accounts.objects:
                await self._create("serviceaccounts", name, {"metadata": {"name": _ACCOUNT}})
            if self._root_ca is not None:
                await self._publish(name, {"ca.crt": self._root_ca})

    def _on_content(self, old: Object | None, new: Object | None) -> None:
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
        await self._client.update(
            "configmaps", namespace, _ROOT_CA, {**right, "data": data}, manager=MANAGER
        )

    async def _create(self, plural: str, namespace: str, obj: Object) -> None:
        with contextlib.suppress(AlreadyExists):
            await self._client.create(plural, namespace, obj, manager=MANAGER)
