"""How large a stored object may be: what etcd takes in one request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotmap.local.apiserver.encoding import encode
from hotmap.local.apiserver.status import internal
from hotmap.local.apiserver.storage_codec import encode_stored

if TYPE_CHECKING:
    from hotmap.core.errors import ApiError
    from hotmap.local.scheme import Kind

__all__ = ["encode_limited"]

#: Bytes of a write (etcd: --max-request-bytes).
_REQUEST_LIMIT = 3 << 19
#: Bytes that the client of etcd sends (clientv3: defaultMaxCallSendMsgSize).
_MESSAGE_LIMIT = 2 << 20


def encode_limited(key: str, obj: dict[str, Any], kind: Kind) -> bytes:
    """Write an object as it is stored; one that is too large loses its managedFields first.

    apiserver/pkg/endpoints/handlers: isTooLargeError

    Raises:
        ApiError: 500, etcd would not take it without them, either.
    """
    value = encode(obj, kind)
    if _refusal(key, value) is None:
        return value
    obj["metadata"].pop("managedFields", None)
    value = encode(obj, kind)
    refusal = _refusal(key, value)
    if refusal is not None:
        raise refusal
    return value


def _refusal(key: str, value: bytes) -> ApiError | None:
    # As protobuf, which etcd would hold, an object is no larger than as JSON.
    if len(key) + len(value) <= _REQUEST_LIMIT:
        return None
    size = len(key) + len(encode_stored(value))
    if size > _MESSAGE_LIMIT:
        return internal(
            "rpc error: code = ResourceExhausted desc = trying to send message larger than max "
            f"({size} vs. {_MESSAGE_LIMIT})"
        )
    return internal("etcdserver: request is too large") if size > _REQUEST_LIMIT else None
