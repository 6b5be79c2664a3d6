"""One Secret of the controller's own namespace: reads, and conflict-safe writes.

Every write has the resourceVersion that it is based on. On a conflict, the other client's content
is merged first; a Secret that was deleted is created again.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable
from typing import Any

from hotmap.core.errors import AlreadyExists, Conflict, NotFound
from hotmap.core.model.objects import Secret
from hotmap.kube.client import Client
from hotmap.kube.partial_metadata import PartialObjectMetadata
from hotmap.kube.resources import SECRETS

__all__ = ["OwnedSecret"]


class OwnedSecret:
    """The content of one data key of one Secret; `type` is the Secret's, `hotmap.dev/…`."""

    def __init__(
        self, client: Client, namespace: str, name: str, *, type: str, data_key: str
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._type = type
        self._data_key = data_key
        #: The known resourceVersion; None: the Secret does not exist, as far as known.
        self.version: str | None = None

    def __str__(self) -> str:
        return f"Secret {self._namespace}/{self._name}"

    @property
    def is_known(self) -> bool:
        """True once it was read or written, until it is found to be deleted."""
        return self.version is not None

    async def read(self) -> bytes | None:
        """Return its content, b"" if that is not base64; None if there is no such Secret.

        Raises:
            ApiError, Unreachable: as the client raises them.
        """
        try:
            secret = await self._client.get(SECRETS, self._namespace, self._name, type=Secret)
        except NotFound:
            self.version = None
            return None
        self.version = secret.metadata.resource_version
        try:
            return b64decode((secret.data or {}).get(self._data_key) or "")
        except Base64Error:
            return b""

    async def was_changed(self) -> bool:
        """Return whether another client has deleted or written it since our last read or write.

        The known state is unchanged, so that the next write merges the other content.

        Raises:
            ApiError, Unreachable: as the client raises them.
        """
        try:
            secret = await self._client.get(
                SECRETS, self._namespace, self._name, type=PartialObjectMetadata
            )
        except NotFound:
            return self.version is not None
        return secret.metadata.resource_version != self.version

    async def write(self, content: Callable[[], bytes], *, merge: Callable[[bytes], None]) -> None:
        """Create or replace it with `content()`.

        If another client has written or deleted it, `merge` gets its current content, b"" if
        deleted, and `content` is called again. A write without a response counts as not done, so it
        is handled as a conflict later.

        Raises:
            Conflict: it was written again in the meantime.
            ApiError, Unreachable: as the client raises them.
        """
        try:
            await self._send(content())
        except (AlreadyExists, Conflict, NotFound):
            merge(await self.read() or b"")
            await self._send(content())

    async def create(self, content: bytes) -> None:
        """Create it.

        Raises:
            AlreadyExists: another client has; or we have, and the response was lost.
            NotFound: the namespace does not exist.
            ApiError, Unreachable: as the client raises them.
        """
        body = self._body(content)
        secret = await self._client.create(
            SECRETS, self._namespace, body, type=PartialObjectMetadata, idempotent=True
        )
        self.version = secret.metadata.resource_version

    async def _send(self, content: bytes) -> None:
        if self.version is None:
            await self.create(content)
            return
        body = self._body(content)
        body["metadata"]["resourceVersion"] = self.version
        secret = await self._client.replace(
            SECRETS, self._namespace, self._name, body, type=PartialObjectMetadata
        )
        self.version = secret.metadata.resource_version

    def _body(self, content: bytes) -> dict[str, Any]:
        return {
            "apiVersion": SECRETS.api_version,
            "kind": SECRETS.kind,
            "metadata": {
                "name": self._name,
                "labels": {"app.kubernetes.io/managed-by": "hotmap"},
            },
            "type": self._type,
            "data": {self._data_key: b64encode(content).decode()},
        }
