"""Bearer tokens of the local API server, with their users and expiry.

Tokens are kept and compared as digests, so that neither timing nor memory reveals them; they are
never logged.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class _Grant(NamedTuple):
    user: str
    # POSIX seconds; None for a token that lives as long as the server.
    expires: float | None


class Tokens:
    """The tokens that are accepted, each with the name of its user."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._grants: dict[bytes, _Grant] = {}

    def add(self, token: str, user: str, *, lifetime: float | None = None) -> None:
        """Accept a token from now on, for `lifetime` seconds or forever."""
        now = self._clock()
        self._grants = {
            digest: grant
            for digest, grant in self._grants.items()
            if grant.expires is None or grant.expires > now
        }
        expires = None if lifetime is None else now + lifetime
        self._grants[_digest(token)] = _Grant(user, expires)

    def user(self, token: str) -> str | None:
        """Name the user that a token belongs to, None for an unknown or expired one."""
        grant = self._grants.get(_digest(token))
        if grant is None or (grant.expires is not None and grant.expires <= self._clock()):
            return None
        return grant.user

    def issue_for_pod(
        self, pod: Mapping[str, Any], *, audience: str, expiration_seconds: int
    ) -> str:
        """Make a token for a pod's service account (upstream: the TokenRequest API).

        The API server is the only audience; a token for another one is accepted nowhere.
        """
        token = new_token()
        if not audience:
            namespace = pod["metadata"]["namespace"]
            account = pod["spec"].get("serviceAccountName", "default")
            user = f"system:serviceaccount:{namespace}:{account}"
            self.add(token, user, lifetime=expiration_seconds)
        return token


def new_token() -> str:
    """Make an unguessable token: 256 random bits."""
    return secrets.token_urlsafe(32)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
