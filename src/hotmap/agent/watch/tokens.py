"""Recognizes service-account tokens, which a kubelet rotates in projected volumes.

They are read whenever they are used (client-go reads them each minute), so a new one does not
require a reload or restart.
"""

from __future__ import annotations

__all__ = ["is_service_account_token"]

#: Bytes of a token, at most; they have about one thousand.
_MAX_SIZE = 16 << 10


def is_service_account_token(data: bytes) -> bool:
    """Return whether a file is a JSON Web Token that Kubernetes has issued to a service account.

    Its claims name the namespace and the pod (kubernetes: pkg/serviceaccount/claims.go).
    """
    if not data.startswith(b"eyJ") or len(data) > _MAX_SIZE or data.count(b".") != 2:
        return False
    from binascii import Error, a2b_base64

    claims = data.split(b".")[1].replace(b"-", b"+").replace(b"_", b"/")
    try:
        decoded = a2b_base64(claims + b"=" * (-len(claims) % 4))
    except Error:
        return False
    return b'"kubernetes.io"' in decoded or b'"kubernetes.io/serviceaccount/' in decoded
