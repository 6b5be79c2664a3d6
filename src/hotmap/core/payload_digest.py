"""A digest of a volume's files, by which an agent checks for the announced content.

    digest of a file     BLAKE2b, 16 bytes, of its content
    digest of a payload  BLAKE2b, 16 bytes, of the line "hotmap payload 1" with its newline, then
                         for each file, paths in byte order: the length of its path in UTF-8 (4
                         bytes, big-endian), the path, the 16 bytes of its digest
    written as base64url without padding: 22 characters

Not keyed, so it is only for content that every reader of the pod may know: payloads of ConfigMaps
only. A Secret's could be guessed offline. Permission bits are not included: they are the pod's, not
the source's. Two steps, so that the controller keeps 16 bytes for each data key and no value.

Standard library only, without what `hashlib` (OpenSSL, 3.7 MB) and `base64` (re) load: the agent
uses this module.
"""

from __future__ import annotations

from binascii import b2a_base64

try:
    from _blake2 import blake2b
except ImportError:  # a Python that is built without it, or is not CPython
    from hashlib import blake2b

__all__ = ["EMPTY", "file_digest", "payload_digest"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_LENGTH = 16

_HEAD = b"hotmap payload 1\n"

_URL_SAFE = bytes.maketrans(b"+/", b"-_")


def file_digest(data: bytes) -> bytes:
    """Digest the content of one file: 16 bytes."""
    return bytes(blake2b(data, digest_size=_LENGTH).digest())


def payload_digest(files: Mapping[str, bytes]) -> str:
    """Digest a payload, given the digest of each file by its path relative to the volume.

    Paths are those of `core.payload`; bytes that are not valid UTF-8 are kept as os.fsdecode does.
    """
    state = blake2b(_HEAD, digest_size=_LENGTH)
    for path, digest in sorted((p.encode("utf-8", "surrogateescape"), d) for p, d in files.items()):
        state.update(len(path).to_bytes(4, "big") + path + digest)
    text = b2a_base64(state.digest(), newline=False).rstrip(b"=")
    return text.translate(_URL_SAFE).decode()


#: The digest of a payload without files, which no content proves.
EMPTY = payload_digest({})
