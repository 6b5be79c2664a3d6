"""The fingerprint keys: made at the first start, kept in a Secret of the controller's namespace.

Newest first; older ones are kept so that what was recorded with them can be compared. Losing
the Secret costs evidence (all consumers are adopted anew), never an action.
"""

from __future__ import annotations

import logging
import secrets
from base64 import b64decode, b64encode
from binascii import Error as Base64Error

from hotmap.core.errors import AlreadyExists, Forbidden, NotFound, SettingsError
from hotmap.core.fingerprint import FingerprintKey, fingerprint_key
from hotmap.core.model.objects import Namespace, Secret
from hotmap.kube.client import Client
from hotmap.kube.resources import NAMESPACES, SECRETS

__all__ = ["KEY_SECRET", "load_keyring", "passing_keyring"]

KEY_SECRET = "hotmap-key"
_DATA_KEY = "keys"

#: Bytes of one HMAC-SHA-256 key (RFC 2104: as long as the digest).
_KEY_LENGTH = 32

_log = logging.getLogger(__name__)


def passing_keyring() -> tuple[FingerprintKey, ...]:
    """Make a key that ends with this process, for who may not write."""
    return (fingerprint_key(secrets.token_bytes(_KEY_LENGTH)),)


async def load_keyring(client: Client, namespace: str) -> tuple[FingerprintKey, ...]:
    """Read the fingerprint keys, newest first; at the very first start make one.

    Raises:
        SettingsError: the Secret may not be read or made, or its content is no key.
        ApiError, Unreachable: as the client raises them.
    """
    try:
        return await _read(client, namespace)
    except NotFound:
        pass
    try:
        await _create(client, namespace)
    except AlreadyExists:
        _log.info("another controller made the key in the meantime")
    return await _read(client, namespace)


async def _read(client: Client, namespace: str) -> tuple[FingerprintKey, ...]:
    try:
        secret = await client.get(SECRETS, namespace, KEY_SECRET, type=Secret)
    except Forbidden as error:
        raise SettingsError(
            f"may not read Secret {namespace}/{KEY_SECRET}: {error}. Grant get, create and update "
            "on the controller's own Secrets (docs/reference/rbac.md)"
        ) from error
    try:
        lines = b64decode((secret.data or {}).get(_DATA_KEY) or "").decode("ascii").split()
        held = [b64decode(line, validate=True) for line in lines]
    except (Base64Error, UnicodeDecodeError):
        held = []
    if not held or any(len(key) < _KEY_LENGTH for key in held):
        raise SettingsError(
            f"Secret {namespace}/{KEY_SECRET} holds no key under {_DATA_KEY!r}; delete it and a "
            "new one is made (all consumers are then adopted anew, nothing is rolled)"
        )
    return tuple(fingerprint_key(key) for key in held)


async def _create(client: Client, namespace: str) -> None:
    text = b64encode(secrets.token_bytes(_KEY_LENGTH)) + b"\n"
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": KEY_SECRET, "labels": {"app.kubernetes.io/managed-by": "hotmap"}},
        "type": "hotmap.dev/key",
        "data": {_DATA_KEY: b64encode(text).decode()},
    }
    try:
        await client.create(SECRETS, namespace, body, type=Secret, idempotent=True)
    except NotFound:
        await _create_namespace(client, namespace)
        await client.create(SECRETS, namespace, body, type=Secret, idempotent=True)


async def _create_namespace(client: Client, namespace: str) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    try:
        await client.create(NAMESPACES, None, body, type=Namespace, idempotent=True)
    except AlreadyExists:
        return
    except Forbidden as error:
        raise SettingsError(
            f"namespace {namespace} does not exist and may not be made; create it, or name "
            "another one with --namespace"
        ) from error
