"""Users with passwords on the port of the agent. Imported only where there are any.

As exporters do it (prometheus/exporter-toolkit: web/handler.go): hashes of bcrypt, results are
kept, and an unknown user takes as long as a known one. A comparison takes a tenth of a second in
which the agent does nothing else, so they may take a tenth of the time at most.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import time

import bcrypt

__all__ = ["BasicAuth"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_HEADER = re.compile(rb"\r?\nAuthorization:[ \t]*Basic[ \t]+([A-Za-z0-9+/=]+)[ \t]*\r?\n", re.I)

#: Compared for unknown users: the hash of no known password.
_NOBODY = "$2b$10$XAeBHZ5bbqMDIVBxIvKEzeuedjgWViMo1aDYfQfVmNVf//S63NlIu"

#: bcrypt reads no more of a password.
_MAX_PASSWORD = 72

#: Results that are kept, and the part of the time that comparisons may take.
_MAX_RESULTS, _SHARE = 64, 0.1


class BasicAuth:
    """Checks the Authorization header of requests."""

    def __init__(
        self, users: tuple[tuple[str, str], ...], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`users`: names and hashes; `clock` gives seconds."""
        self._users = dict(users)
        self._clock = clock
        self._key = os.urandom(16)
        self._results: dict[bytes, bool] = {}
        #: When the next password may be compared.
        self._next = 0.0

    def status(self, request: bytes) -> int:
        """Return 200, or 401 without a user's password, or 429 if it cannot be compared now."""
        found = _HEADER.search(request)
        if found is None:
            return 401
        try:
            name, _, password = base64.b64decode(found[1], validate=True).partition(b":")
        except ValueError:
            return 401
        digest = hmac.digest(self._key, name + b"\0" + password, hashlib.sha256)
        if digest not in self._results:
            begun = self._clock()
            if begun < self._next:
                return 429
            self._cache_result(digest, matches=self._compare(name, password))
            taken = self._clock() - begun
            self._next = begun + taken / _SHARE
        return 200 if self._results[digest] else 401

    def _compare(self, name: bytes, password: bytes) -> bool:
        known = self._users.get(name.decode(errors="replace"))
        matches = bcrypt.checkpw(password[:_MAX_PASSWORD], (known or _NOBODY).encode())
        return matches and known is not None

    def _cache_result(self, digest: bytes, *, matches: bool) -> None:
        # Results of strangers go first, so that they cannot displace those of users.
        if len(self._results) >= _MAX_RESULTS:
            del self._results[min(self._results, key=self._results.__getitem__)]
        self._results[digest] = matches
