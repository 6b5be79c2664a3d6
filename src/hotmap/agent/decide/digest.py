"""Digests of content, which only this agent can compare: keyed with a secret of its own.

A mounted Secret may be short enough to be guessed, and digests are shown in /status. So each agent
makes a key at its first start; where there is a state file the key lies in it, and digests can be
compared across restarts. BLAKE2 comes as a module of its own with CPython; `hashlib` would load
OpenSSL, 3.7 MB.
"""

from __future__ import annotations

try:
    from _blake2 import blake2b
except ImportError:  # a Python that is built without it, or is not CPython
    from hashlib import blake2b

__all__ = ["KEY_LENGTH", "digest_of", "tree_digest"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: Bytes of the key.
KEY_LENGTH = 16

#: Bytes of a digest: only equality with a few others matters.
_LENGTH = 8


def digest_of(data: bytes, key: bytes) -> str:
    """Digest the bytes of one file, in hexadecimal."""
    return str(blake2b(data, digest_size=_LENGTH, key=key).hexdigest())


def tree_digest(files: Mapping[str, str], key: bytes) -> str:
    """Digest several files by their paths and their own digests; the order does not matter."""
    parts: list[bytes] = []
    for path in sorted(files):
        name = path.encode("utf-8", "surrogateescape")
        parts += len(name).to_bytes(4, "big"), name, files[path].encode()
    return str(blake2b(b"".join(parts), digest_size=_LENGTH, key=key).hexdigest())
