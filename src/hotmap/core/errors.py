"""Every exception that hotmap raises, in one tree split by what the caller should do.

    HotmapError
    ├── SettingsError        fix a flag, an environment variable or the kubeconfig; exit status 2
    ├── ManifestError        fix the object: kind, namespace/name and field are in the text
    ├── ApiError             an API server answered with a failure Status
    │   ├── BadRequest       400: the request itself is wrong; retrying cannot help
    │   ├── Unauthorized     401: re-read the credentials once, then report it
    │   ├── Forbidden        403: permissions are missing; the text says which
    │   ├── NotFound         404: the object does not exist
    │   ├── Conflict         409: decide again from the current state
    │   │   └── AlreadyExists
    │   ├── Expired          410: the resourceVersion is gone; list again
    │   ├── Invalid          422: validation or a failed precondition; retrying cannot help
    │   ├── Throttled        429: wait `retry_after`
    │   └── Unavailable      5xx, and 504 time-outs: wait, then retry
    ├── NotLeading           another replica leads now, and does the work
    ├── Unreachable          no response at all (refused, reset, DNS, TLS, silence), or no
    │                        credentials any more; retry
    ├── ResponseTooLarge     more bytes than the caller takes; ask for fewer objects
    └── VolumeError          a mounted directory is not what was expected
        ├── InvalidPayload   a path that may not be projected
        ├── NotProjected     no `..data` here, and there never will be one
        ├── TooLarge         it holds more than the reader allows
        └── TornRead         the content changed during every attempt to read it

Texts name kind, namespace/name and field, what was found and what to do; they never contain a value
of a Secret. The agent uses this module: standard library only.
"""

from __future__ import annotations

__all__ = [
    "AlreadyExists",
    "ApiError",
    "BadRequest",
    "Conflict",
    "Expired",
    "Forbidden",
    "HotmapError",
    "Invalid",
    "InvalidPayload",
    "ManifestError",
    "NotFound",
    "NotLeading",
    "NotProjected",
    "ResponseTooLarge",
    "SettingsError",
    "Throttled",
    "TooLarge",
    "TornRead",
    "Unauthorized",
    "Unavailable",
    "Unreachable",
    "VolumeError",
    "api_error",
    "is_namespace_terminating",
    "os_reason",
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


class HotmapError(Exception):
    """Root of the tree; its text is one sentence that can be shown to a user."""


class SettingsError(HotmapError):
    """Raised when our own flags, environment or kubeconfig cannot be used."""


class ManifestError(HotmapError):
    """Raised when an object that a user wrote is invalid."""


class NotLeading(HotmapError):
    """Raised instead of a write when the Lease is lost; the next leader does the work."""


class ApiError(HotmapError):
    """Raised when an API server answers with a failure Status.

    `code` is the HTTP status, `reason` the CamelCase reason of the Status ("" when it has none),
    `message` its prose, `details` its details, `retry_after` seconds or None.
    """

    code = 500
    reason = ""

    def __init__(
        self,
        message: str,
        *,
        code: int | None = None,
        reason: str | None = None,
        details: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code
        if reason is not None:
            self.reason = reason
        self.details: Mapping[str, Any] = details or {}
        self.retry_after = retry_after


class BadRequest(ApiError):
    """Raised for 400: the server could not process the request."""

    code, reason = 400, "BadRequest"


class Unauthorized(ApiError):
    """Raised for 401: the credentials are missing, wrong or expired."""

    code, reason = 401, "Unauthorized"


class Forbidden(ApiError):
    """Raised for 403: the credentials are valid, the permission is missing."""

    code, reason = 403, "Forbidden"


class NotFound(ApiError):
    """Raised for 404: the object, or the API that would hold it, does not exist."""

    code, reason = 404, "NotFound"


class Conflict(ApiError):
    """Raised for 409: the object is not the one that the decision was based on."""

    code, reason = 409, "Conflict"


class AlreadyExists(Conflict):
    """Raised for 409 at a create: the name is taken."""

    code, reason = 409, "AlreadyExists"


class Expired(ApiError):
    """Raised for 410 in any form: a list is needed, a watch cannot be resumed."""

    code, reason = 410, "Expired"


class Invalid(ApiError):
    """Raised for 422: validation failed, or a precondition such as the uid did not hold."""

    code, reason = 422, "Invalid"


class Throttled(ApiError):
    """Raised for 429: the server asks to wait `retry_after` seconds."""

    code, reason = 429, "TooManyRequests"


class Unavailable(ApiError):
    """Raised for every 5xx: the server could not serve a request that may be valid."""

    code, reason = 503, "ServiceUnavailable"


class Unreachable(HotmapError):
    """Raised when there is no response: refused, reset, unresolved, untrusted or silent.

    Also when nothing was sent, since the credentials have expired and cannot be renewed now.
    """


class ResponseTooLarge(HotmapError):
    """Raised when a response has more bytes than the caller takes; the rest is not read."""


class VolumeError(HotmapError):
    """Raised when a mounted directory is not what was expected."""


class InvalidPayload(VolumeError):
    """Raised when a payload has a path that may not be projected, or a key that is missing."""


class NotProjected(VolumeError):
    """Raised when a directory has no `..data`: a subPath mount, or no projected volume at all."""


class TooLarge(VolumeError):
    """Raised when a directory holds more bytes than may be read."""


class TornRead(VolumeError):
    """Raised when a directory was updated during every attempt to read it."""


_BY_CODE: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    422: Invalid,
    429: Throttled,
}


def api_error(
    code: int,
    message: str,
    *,
    reason: str = "",
    details: Mapping[str, Any] | None = None,
    retry_after: float | None = None,
) -> ApiError:
    """Make the ApiError subclass that fits an HTTP status and a Status reason.

    A create that meets a taken name answers 409 with reason AlreadyExists (kubernetes:
    apimachinery/pkg/api/errors), so the reason decides there; else the code does.
    """
    if code == 409 and reason == "AlreadyExists":
        kind: type[ApiError] = AlreadyExists
    else:
        kind = _BY_CODE.get(code, Unavailable if code >= 500 else ApiError)
    return kind(message, code=code, reason=reason, details=details, retry_after=retry_after)


def is_namespace_terminating(error: ApiError) -> bool:
    """Return whether a create was refused because its namespace is terminating."""
    causes = error.details.get("causes") or []
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)


def os_reason(error: OSError) -> str:
    """Return why a call of the operating system failed, in lower case, such as "is a directory"."""
    return (error.strerror or str(error)).lower()
