"""Reads JSON that a client sent, as Go's decoders do (encoding/json, sigs.k8s.io/json)."""

from __future__ import annotations

import json
import math

import msgspec

from hotmap.local.apiserver.decode_errors import json_error
from hotmap.local.apiserver.nesting import MAX_DEPTH, is_too_deep

__all__ = ["TOO_DEEP", "JsonError", "read_json"]

TOO_DEEP = f"exceeded max depth of {MAX_DEPTH}"
# Digits of the largest float64.
_MAX_DIGITS = 309


class JsonError(Exception):
    """A document that cannot be read; the text says why, as Go does."""


def read_json(body: bytes) -> object:
    """Read a document.

    Raises:
        JsonError: it is not well formed, or nested too deep.
    """
    try:
        decoded = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        decoded = _read_leniently(body)
    except RecursionError:
        raise JsonError(TOO_DEEP) from None
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH and is_too_deep(decoded):
        raise JsonError(TOO_DEEP)
    return decoded


def _read_leniently(body: bytes) -> object:
    """Read what msgspec does not: Go replaces bytes and surrogates that are not characters."""
    why = json_error(body)
    if why:
        raise JsonError(why)
    text = body.decode(errors="replace")
    try:
        decoded = json.loads(text, parse_int=_integer, parse_float=_float)
    except RecursionError:
        raise JsonError(TOO_DEEP) from None
    written = json.dumps(decoded, ensure_ascii=False)
    return json.loads(written.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


def _integer(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise _too_large(text)
    return int(text)


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise _too_large(text)
    return value


def _too_large(text: str) -> JsonError:
    return JsonError(f"json: cannot unmarshal number {text} into Go value of type float64")
