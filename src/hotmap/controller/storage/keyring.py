"""The fingerprint keys: created at the first start, stored in a Secret of our own namespace.

Newest first; older ones are kept so that records made with them can be compared. If the Secret is
lost, all consumers are adopted again, without an action.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterable
from typing import NoReturn

from hotmap.controller.storage.owned_secret import OwnedSecret
from hotmap.core.errors import AlreadyExists, Forbidden, HotmapError, NotFound, SettingsError
from hotmap.core.fingerprint import FingerprintKey, fingerprint_key
from hotmap.core.model.objects import Namespace
from hotmap.kube.client import Client
from hotmap.kube.log_throttle import LogThrottle
from hotmap.kube.loop_clock import loop_time
from hotmap.kube.resources import NAMESPACES

__all__ = [
    "KEY_SECRET",
    "KeyringFollower",
    "load_keyring",
    "passing_keyring",
]

KEY_SECRET = "hotmap-key"

#: Bytes of one HMAC-SHA-256 key (RFC 2104: as long as the digest).
_KEY_LENGTH = 32

#: Seconds between two reads of the keyring.
_CHECK_EVERY = 60.0

_log = logging.getLogger(__name__)


def passing_keyring() -> tuple[FingerprintKey, ...]:
    """Create a key for this process only, for modes that write nothing."""
    return (fingerprint_key(secrets.token_bytes(_KEY_LENGTH)),)


async def load_keyring(client: Client, namespace: str) -> tuple[FingerprintKey, ...]:
    """Read the fingerprint keys, newest first; at the very first start create one.

    Raises:
        SettingsError: the Secret may not be read or created, or its content is not a key.
        ApiError, Unreachable: as the client raises them.
    """
    secret = _secret(client, namespace)
    content = await _read(secret)
    if content is None:
        await _create(client, namespace, secret)
        content = await _read(secret)
    return _keys(content or b"", secret)


class KeyringFollower:
    """Follows the keyring, so that a replaced key is used by all replicas without a restart."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        *,
        keys_in_use: Callable[[], tuple[FingerprintKey, ...]],
        may_restore: Callable[[], bool],
        on_change: Callable[[tuple[FingerprintKey, ...]], None],
    ) -> None:
        """`may_restore` tells whether a deleted Secret is to be created again."""
        self._client = client
        self._namespace = namespace
        self._keys_in_use = keys_in_use
        self._may_restore = may_restore
        self._on_change = on_change

    async def run(self) -> NoReturn:
        """Call `on_change` when the Secret has other keys, until cancelled."""
        throttle = LogThrottle()
        while True:
            await asyncio.sleep(_CHECK_EVERY)
            try:
                await self._check(self._keys_in_use())
            except HotmapError as error:
                if throttle.should_log("keys", str(error), now=loop_time()):
                    _log.warning(
                        "cannot check the fingerprint keys, keeping those in use: %s", error
                    )
            else:
                throttle.end("keys")

    async def _check(self, keys: tuple[FingerprintKey, ...]) -> None:
        secret = _secret(self._client, self._namespace)
        content = await _read(secret)
        if content is None:
            if self._may_restore():
                # With the keys in use, so that records stay comparable.
                await secret.create(_content(key.secret for key in keys))
                _log.warning("the fingerprint keys were deleted: writing them again")
            return
        found = _keys(content, secret)
        if found != keys:
            _log.info("the fingerprint keys have changed: reading all sources again")
            self._on_change(found)


def _secret(client: Client, namespace: str) -> OwnedSecret:
    return OwnedSecret(client, namespace, KEY_SECRET, type="hotmap.dev/key", data_key="keys")


def _content(keys: Iterable[bytes]) -> bytes:
    return b"".join(b64encode(key) + b"\n" for key in keys)


async def _read(secret: OwnedSecret) -> bytes | None:
    try:
        return await secret.read()
    except Forbidden as error:
        raise SettingsError(
            f"no permission to read {secret}: {error}. Grant get, create and update on the"
            " controller's own Secrets (docs/reference/rbac.md)"
        ) from error


def _keys(content: bytes, secret: OwnedSecret) -> tuple[FingerprintKey, ...]:
    try:
        keys = [b64decode(line, validate=True) for line in content.decode("ascii").split()]
    except (Base64Error, UnicodeDecodeError):
        keys = []
    if not keys or any(len(key) < _KEY_LENGTH for key in keys):
        raise SettingsError(
            f"{secret} has no valid key under 'keys'; delete it to have a new one created (hotmap"
            " then adopts all workloads again and rolls none of them out)"
        )
    return tuple(fingerprint_key(key) for key in keys)


async def _create(client: Client, namespace: str, secret: OwnedSecret) -> None:
    content = _content([secrets.token_bytes(_KEY_LENGTH)])
    try:
        try:
            await secret.create(content)
        except NotFound:
            await _create_namespace(client, namespace)
            await secret.create(content)
    except AlreadyExists:
        _log.info("another controller created the key in the meantime")


async def _create_namespace(client: Client, namespace: str) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    try:
        await client.create(NAMESPACES, None, body, type=Namespace, idempotent=True)
    except AlreadyExists:
        return
    except Forbidden as error:
        raise SettingsError(
            f"namespace {namespace} does not exist, and hotmap has no permission to create it; "
            "create it, or choose another one with --namespace"
        ) from error
