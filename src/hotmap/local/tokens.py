"""Bearer tokens: who may talk to the local API server.

Tokens are compared by digest, so that neither time nor memory tells anything about them; they
are never logged.
"""

from __future__ import annotations

import hashlib
import secrets


class Tokens:
    """The tokens that are accepted, each with the name of its user."""

    def __init__(self) -> None:
        self._users: dict[bytes, str] = {}

    def add(self, token: str, user: str) -> None:
        """Accept a token from now on."""
        self._users[_digest(token)] = user

    def remove(self, token: str) -> None:
        """Accept a token no longer."""
        self._users.pop(_digest(token), None)

    def user(self, token: str) -> str | None:
        """Name the user that a token belongs to, None for an unknown token."""
        return self._users.get(_digest(token))


def new_token() -> str:
    """Make a token that nobody can guess: 256 random bits."""
    return secrets.token_urlsafe(32)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
