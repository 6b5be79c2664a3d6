"""Fills in Secrets of the type `kubernetes.io/service-account-token`.

kubernetes: pkg/controller/serviceaccount/tokens_controller.go. A Secret whose account does not
exist, or is another one of that name, is deleted.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from typing import TYPE_CHECKING

from hotmap.core.errors import Conflict, NotFound
from hotmap.local.controllers.controller import Controller, ControllerContext
from hotmap.local.informer import Informer
from hotmap.local.meta import MANAGER, Object, ObjectName, annotations_of, name_of, with_metadata

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["TokenSecretController"]

_TYPE = "kubernetes.io/service-account-token"
_NAME = "kubernetes.io/service-account.name"
_UID = "kubernetes.io/service-account.uid"


class TokenSecretController(Controller[ObjectName]):
    """Put a token, the CA and the namespace into each such Secret.

    *make_token* returns the token of an account for a Secret; *root_ca* is PEM text or None.
    """

    def __init__(
        self,
        context: ControllerContext,
        *,
        root_ca: str | None,
        make_token: Callable[[Object, Object], str],
    ) -> None:
        super().__init__(context, "serviceaccount-token")
        self._root_ca = root_ca
        self._make_token = make_token
        self._accounts = self._informers["serviceaccounts"]
        self._accounts.subscribe(self._on_account)
        # An informer of its own, which keeps no other Secrets.
        self._secrets = Informer(context.client, "secrets", field_selector=f"type={_TYPE}")
        self._secrets.subscribe(self._add_changed)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._secrets.run())
            tasks.create_task(super().run())

    async def sync(self, key: ObjectName) -> None:
        """Fill in one Secret, or delete it with its account."""
        secret = self._secrets.objects.get(key)
        if secret is None:
            return
        namespace, name = key
        annotations = annotations_of(secret)
        # It is gone, or has been changed meanwhile and comes again.
        with contextlib.suppress(NotFound, Conflict):
            account = await self._account(namespace, annotations.get(_NAME, ""))
            if account is None or annotations.get(_UID, "") not in ("", _uid(account)):
                await self._client.delete("secrets", namespace, name, uid=_uid(secret))
                return
            missing = self._missing(secret, account)
            if not missing:
                return
            filled = with_metadata(secret, annotations={**annotations, _UID: _uid(account)})
            filled["data"] = {**(secret.get("data") or {}), **missing}
            await self._client.update("secrets", namespace, name, filled, manager=MANAGER)

    async def _account(self, namespace: str, name: str) -> Object | None:
        """Find an account, in the API too: the cache may not have a new one yet."""
        known = self._accounts.objects.get((namespace, name))
        if known is not None:
            return known
        try:
            return await self._client.get("serviceaccounts", namespace, name)
        except NotFound:
            return None

    def _missing(self, secret: Object, account: Object) -> dict[str, str]:
        data = secret.get("data") or {}
        missing: dict[str, str] = {}
        if self._root_ca is not None and data.get("ca.crt") != _encode(self._root_ca):
            missing["ca.crt"] = _encode(self._root_ca)
        if not data.get("namespace"):
            missing["namespace"] = _encode(secret["metadata"]["namespace"])
        if not data.get("token"):
            missing["token"] = _encode(self._make_token(account, secret))
        return missing

    def _on_account(self, old: Object | None, new: Object | None) -> None:
        account = new or old
        if account is None:
            return
        namespace, name = name_of(account)
        for key, secret in self._secrets.objects.items():
            if key[0] == namespace and annotations_of(secret).get(_NAME) == name:
                self._loop.add(key)


def _uid(obj: Object) -> str:
    return str(obj["metadata"]["uid"])


def _encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
