"""Continue tokens of paged lists (kubernetes: apiserver/pkg/storage/continue.go)."""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Any, NamedTuple

from hotmap.core.errors import BadRequest
from hotmap.local.apiserver.json_reader import JsonError, read_json

_NOT_BASE64 = re.compile("[^-_A-Za-z0-9]")


class Continuation(NamedTuple):
    """Where a list continues: after a key, at a revision; -1 means the newest one.

    `after` is relative to the range that is listed.
    """

    revision: int
    after: str


def encode_token(revision: int, after: str) -> str:
    """Encode the token to continue after a key. Upstream's start key is the next possible one."""
    token = {"v": "meta.k8s.io/v1", "rv": revision, "start": f"{after}\u0000"}
    text = json.dumps(token, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def _decoded(body: bytes) -> Any:
    try:
        return read_json(body)
    except JsonError as error:
        raise BadRequest(f"invalid continue token: continue key is not valid: {error}") from None


def decode_token(token: str) -> Continuation:
    """Read a token.

    Raises:
        BadRequest: it was not made by `encode_token`.
    """
    wrong = _NOT_BASE64.search(token)
    if wrong is not None or len(token) % 4 == 1:
        at = len(token) - 1 if wrong is None else wrong.start()
        raise BadRequest(
            "invalid continue token: continue key is not valid: "
            f"illegal base64 data at input byte {at}"
        )
    try:
        body = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        decoded = _decoded(body)
        version, revision, start = decoded["v"], decoded["rv"], decoded["start"]
    except (binascii.Error, ValueError, KeyError, TypeError):
        raise BadRequest(
            "invalid continue token: continue key is not valid: encoding error"
        ) from None
    if version != "meta.k8s.io/v1":
        raise BadRequest(
            "invalid continue token: continue key is not valid: "
            f"server does not recognize this encoded version {version}"
        )
    if not isinstance(revision, int) or not isinstance(start, str) or ".." in start.split("/"):
        raise BadRequest("invalid continue token: continue key is not valid: incorrect start key")
    return Continuation(revision, start.removesuffix("\u0000"))
