"""The protocols that a request for a WebSocket names, and the token among them.

A page in a browser cannot send an Authorization header with such a request (kubernetes:
apiserver/pkg/authentication/request/websocket/protocol.go).
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["asked_protocols", "protocol_token", "wants_websocket"]

_TOKEN = "base64url.bearer.authorization.k8s.io."


def wants_websocket(headers: Mapping[str, str]) -> bool:
    """Return whether a request asks for a WebSocket, whatever the protocol on it."""
    return headers.get("Upgrade", "").lower() == "websocket"


def asked_protocols(headers: Mapping[str, str]) -> list[str]:
    """Return the protocols without the one with a token."""
    return [name for name in _names(headers) if not name.startswith(_TOKEN)]


def protocol_token(headers: Mapping[str, str]) -> str:
    """Return the token, "" where there is none beside another protocol, or several."""
    encoded = [name.removeprefix(_TOKEN) for name in _names(headers) if name.startswith(_TOKEN)]
    if not wants_websocket(headers) or len(encoded) != 1 or not asked_protocols(headers):
        return ""
    padded = encoded[0] + "=" * (-len(encoded[0]) % 4)
    try:
        return base64.b64decode(padded, altchars=b"-_", validate=True).decode()
    except ValueError:
        return ""


def _names(headers: Mapping[str, str]) -> list[str]:
    names = headers.get("Sec-WebSocket-Protocol", "").split(",")
    return [name.strip() for name in names if name.strip()]
