"""Kubernetes' Status objects, which have the reason of a failure as text and code.

They arrive as the body of a failed call and as ERROR lines of a watch stream; both become the
same exceptions (kubernetes: apimachinery/pkg/apis/meta/v1/types.go, pkg/api/errors).
"""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from hotmap.core.errors import ApiError, api_error
from hotmap.kube.decoding import decode

__all__ = ["Status", "is_too_large_resource_version", "read_status", "retry_after", "status_error"]


class Status(msgspec.Struct):
    """The fields of a Status that are used; all empty if there was none."""

    kind: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: dict[str, Any] | None = None


_decoder = msgspec.json.Decoder(Status)


def read_status(body: bytes | msgspec.Raw) -> Status:
    """Decode a Status; return an empty one for anything else."""
    try:
        status = decode(_decoder, body)
    except msgspec.DecodeError:
        return Status()
    return status if status.kind == "Status" else Status()


def status_error(body: bytes | msgspec.Raw) -> ApiError:
    """Build the exception for an ERROR line of a watch stream."""
    status = read_status(body)
    return api_error(
        status.code or 500,
        status.message or "the server ended the watch with an unspecified error",
        reason=status.reason,
        details=status.details,
        retry_after=retry_after(status),
    )


#: Seconds that a server may ask us to wait.
_LONGEST_PAUSE = 3600.0


def retry_after(status: Status, *, header: str = "") -> float | None:
    """Return the pause the server requests, in seconds from now; the Retry-After header wins.

    The header is seconds or a date (RFC 9110 §10.2.3); an invalid one is ignored, and more than an
    hour counts as one.
    """
    if header.isdecimal():
        return min(float(header), _LONGEST_PAUSE)
    if header:
        try:
            pause = parsedate_to_datetime(header).timestamp() - time.time()
            return min(max(0.0, pause), _LONGEST_PAUSE)
        except (ValueError, OverflowError, OSError):
            pass
    seconds = (status.details or {}).get("retryAfterSeconds")
    return float(seconds) if isinstance(seconds, int) and seconds > 0 else None


def is_too_large_resource_version(error: ApiError) -> bool:
    """Return whether the server is behind the requested resourceVersion.

    After a restore from a backup it stays behind, so only a new list helps (client-go:
    tools/cache/reflector.go, isTooLargeResourceVersionError).
    """
    causes = error.details.get("causes")
    if not isinstance(causes, list):
        return False
    return any(
        isinstance(cause, dict) and cause.get("reason") == "ResourceVersionTooLarge"
        for cause in causes
    )
