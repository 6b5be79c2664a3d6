"""Decodes responses of the controller's status; the errors when there is none."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from hotmap.core.errors import ApiError, HotmapError, NotFound, SettingsError, Unreachable
from hotmap.core.text import printable

__all__ = [
    "ControllerAway",
    "StatusUnavailable",
    "convert_document",
    "decode_response",
    "refusal_text",
    "unavailable",
]

T = TypeVar("T")


class StatusUnavailable(SettingsError):
    """Raised when no controller answers, so that the status is unknown; exit status 2."""


class ControllerAway(StatusUnavailable):
    """Raised when no leader answers now, as while the controller is replaced or elected."""


def unavailable(text: str, cause: HotmapError) -> StatusUnavailable:
    """Make the error for a failed request; a deleted Pod is soon replaced by another one."""
    is_away = isinstance(cause, (Unreachable, NotFound)) or (
        isinstance(cause, ApiError) and cause.code >= 500
    )
    return ControllerAway(text) if is_away else StatusUnavailable(text)


def decode_response(body: bytes) -> dict[str, Any]:
    """Decode the status document.

    Raises:
        StatusUnavailable: it is not from a controller of this version.
    """
    try:
        document = msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise StatusUnavailable(
            "not a hotmap controller: the answer is not a JSON object"
        ) from error
    if document.get("kind") != "ControllerStatus":
        raise StatusUnavailable("not a hotmap controller, or one of an older version")
    return document


def convert_document(document: dict[str, Any], type_: type[T]) -> T:
    """Read the fields of a document that a type has.

    Raises:
        StatusUnavailable: the controller has another version.
    """
    try:
        return msgspec.convert(document, type_)
    except msgspec.ValidationError as error:
        raise StatusUnavailable(f"the controller has another version: {error}") from error


def refusal_text(body: bytes) -> str:
    """Return the text with which a controller refuses a query; "" if it is not one."""
    try:
        return printable(msgspec.json.decode(body, type=_Refusal).error)
    except msgspec.DecodeError:
        return ""


class _Refusal(msgspec.Struct):
    error: str
