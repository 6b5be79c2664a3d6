"""Finds values of Secrets in what was printed, served and written, in whatever dress.

A value is looked for as it is and by its beginning, in base64 at every position within a larger
text, in hex, quoted for URLs and for JSON, and as an unkeyed digest: that could be guessed offline.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Collection, Iterable, Iterator
from urllib.parse import quote

__all__ = ["PLANTED", "forms", "leaks"]

#: Every value of a Secret in these tests begins with this. Its first six characters are part of no
#: word that a log has (five of them are part of "password").
PLANTED = "swordfish"
_BEGINNING = 6

_DIGESTS = ("md5", "sha1", "sha256", "sha512")


def forms(value: str) -> set[str]:
    """Return the texts by which a value would be known."""
    data = value.encode()
    return {
        value[:_BEGINNING],
        json.dumps(value)[1:-1],
        quote(value, safe=""),
        data[:_BEGINNING].hex(),
        data[:_BEGINNING].hex().upper(),
        *_in_base64(data),
        *_in_base64(b64encode(data)),
        *(digest[:16] for digest in _digests(data)),
    }


def leaks(texts: Iterable[str], values: Collection[str]) -> Iterator[str]:
    """Return where a value is shown, a sentence each."""
    sought = sorted({form for value in values for form in forms(value)})
    for text in texts:
        for form in sought:
            if (at := text.find(form)) >= 0:
                around = text[max(0, at - 200) : at + 60]
                yield f"a Secret's value is shown, as {form}: …{around}…"


def _in_base64(data: bytes) -> Iterator[str]:
    """Encode what stands at each of the three positions, without what neighbours have a part in."""
    for before in range(3):
        encoded = b64encode(bytes(before) + data[: _BEGINNING + 3]).decode().rstrip("=")
        whole = encoded[before + (before > 0) : -1]
        yield whole
        yield whole.translate(str.maketrans("+/", "-_"))


def _digests(data: bytes) -> Iterator[str]:
    for name in _DIGESTS:
        digest = hashlib.new(name, data).digest()
        yield digest.hex()
        yield b64encode(digest).decode()
        yield b64encode(digest).decode().translate(str.maketrans("+/", "-_"))
