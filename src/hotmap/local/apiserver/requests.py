"""Requests without a connection, and the answers to them.

What handlers of all resources use: reading a body and its options, and writing an object in the
form that is asked for.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from hotmap.local.access import ANONYMOUS, UserInfo
from hotmap.local.apiserver.large_objects import beside_loop
from hotmap.local.apiserver.negotiation import (
    JSON,
    check_metadata_form,
    decode_body,
    is_json,
    negotiate_form,
)
from hotmap.local.apiserver.options import WriteOptions, check_include, write_options
from hotmap.local.apiserver.tables import partial_metadata, table
from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hotmap.local.apiserver.authentication import Access
    from hotmap.local.apiserver.negotiation import Decoded
    from hotmap.local.apiserver.registry import Registry
    from hotmap.local.scheme import Kind

__all__ = [
    "Answer",
    "Request",
    "decode_request",
    "json_answer",
    "json_body",
    "object_answer",
    "read_body",
    "request_write_options",
]

_T = TypeVar("_T")


class Request(NamedTuple):
    """A request without its connection; the body is complete."""

    query: Mapping[str, str]
    accept: str = ""
    content_type: str = ""
    user_agent: str = ""
    body: bytes = b""
    #: Who sends it.
    user: UserInfo = ANONYMOUS
    #: What answers access reviews; None without one.
    access: Access | None = None
    #: What the answer has to warn of is added here; it becomes Warning headers.
    warnings: list[str] | None = None

    def warn(self, *texts: str) -> None:
        """Add warnings to the answer, each once."""
        if self.warnings is not None:
            self.warnings.extend(dict.fromkeys(t for t in texts if t and t not in self.warnings))


class Answer(NamedTuple):
    """A complete answer."""

    #: A bytearray where it was made in slices: a copy of a large one would take milliseconds.
    body: bytes | bytearray
    status: int = 200
    content_type: str = JSON


async def decode_request(request: Request, wanted: str = "") -> Decoded:
    """Decode the object that a request sends; `wanted` is its kind where a message names it."""
    return await read_body(partial(decode_body, wanted=wanted), request)


async def read_body(decode: Callable[[bytes, str], _T], request: Request) -> _T:
    """Decode a body without keeping other requests from being answered."""
    return await beside_loop(len(request.body), partial(decode, request.body, request.content_type))


def request_write_options(request: Request, name: str) -> WriteOptions:
    """Read the options of a write, of the type `name`, and who sends it."""
    options = write_options(request.query, request.user_agent, name)
    return options._replace(user=request.user, warnings=request.warnings)


def object_answer(registry: Registry, kind: Kind, obj: JsonObject, request: Request) -> Answer:
    """Answer with an object in the form that the request accepts: itself, metadata or a Table."""
    form = negotiate_form(request.accept)
    check_metadata_form(form, kind, is_list=False)
    if form == "table":
        check_include(request.query)
    if form == "metadata":
        return json_answer(partial_metadata(kind, obj))
    if form == "table":
        include = request.query.get("includeObject", "Metadata")
        rendered = table(kind, [obj], now=registry.now(), include=include)
        rendered["metadata"] = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
        return json_answer(rendered)
    return json_answer(obj)


def json_answer(obj: JsonObject) -> Answer:
    """Answer with an object as JSON."""
    return Answer(msgspec.json.encode(obj))


def json_body(request: Request) -> bytes:
    """Return the body of a request in JSON, b"" of a request in another form."""
    return request.body if is_json(request.content_type) else b""
