"""Decodes responses of an API server, even if nested more deeply than the decoder supports.

An object may nest 10,000 levels deep (kubernetes: apimachinery/pkg/util/json, maxDepth), and so may
its managedFields; msgspec fails at Python's recursion limit, even in a field that no type has.
"""

from __future__ import annotations

import re
from typing import Final, TypeVar

import msgspec

from hotmap.core.model.limits import LimitExceeded

__all__ = [
    "LARGEST_OBJECT",
    "ObjectTooLarge",
    "check_size",
    "decode",
    "decoding_problem",
    "without_deep_values",
]

T = TypeVar("T")

#: Levels that are read; the deepest field of any type of ours is at 14 in a list.
DEEPEST: Final = 64

#: Strings and brackets of an object that nests more deeply: 10 ms, while everything else waits. Its
#: managedFields may have a million; real objects nest less deeply and are never counted.
MOST_TOKENS: Final = 50_000

#: Bytes of one object's JSON. etcd takes 1.5 MiB of an object, which is as much in JSON, a third
#: more with binary content, and six times as much only where all of it has to be escaped.
LARGEST_OBJECT: Final = 4 << 20


class ObjectTooLarge(Exception):
    """Raised when an object's JSON exceeds a bound; its text names the bound."""


#: A string, or one bracket. Strings have to be recognized, since they may contain brackets.
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)


def decode(decoder: msgspec.json.Decoder[T], data: bytes | msgspec.Raw) -> T:
    """Decode JSON; if that fails, values nested deeper than DEEPEST levels read as null.

    Raises:
        msgspec.DecodeError: it is not JSON, or does not match the type.
        Exception: it nests too deeply and has too many values; see `decoding_problem`.
    """
    try:
        return decoder.decode(data)
    except RecursionError:
        return decoder.decode(without_deep_values(bytes(data), tokens=MOST_TOKENS))


def check_size(data: bytes | msgspec.Raw) -> None:
    """Refuse an object that takes too long to decode, while everything else waits.

    Raises:
        Exception: `decoding_problem` returns which bound it exceeds.
    """
    size = len(memoryview(data))
    if size > LARGEST_OBJECT:
        raise ObjectTooLarge(f"{size:,} bytes of JSON (limit {LARGEST_OBJECT:,})")


def decoding_problem(error: Exception) -> str:
    """Return why something could not be decoded or processed, without quoting any of it.

    msgspec names the place and the expected type, a limit its own; the text of other exceptions may
    contain the data.
    """
    if isinstance(error, (msgspec.DecodeError, ObjectTooLarge, LimitExceeded)):
        return str(error)
    return f"{type(error).__name__} while decoding it"


def without_deep_values(data: bytes, *, deepest: int = DEEPEST, tokens: int | None = None) -> bytes:
    """Replace every object or array that lies deeper than `deepest` levels by null.

    Without recursion; the decoder rejects brackets that do not match. `tokens` is how many strings
    and brackets there may be; None allows any number.

    Raises:
        Exception: there are more; see `decoding_problem`.
    """
    kept = []
    depth = copied = 0
    for number, token in enumerate(_TOKEN.finditer(data)):
        if number == tokens:
            raise ObjectTooLarge(f"values nested too deeply, and more than {tokens:,} of them")
        match token.group()[:1]:
            case b"{" | b"[":
                depth += 1
                if depth == deepest + 1:
                    kept += [data[copied : token.start()], b"null"]
            case b"}" | b"]":
                if depth == deepest + 1:
                    copied = token.end()
                depth -= 1
    if depth > deepest:
        return data
    kept.append(data[copied:])
    return b"".join(kept)
