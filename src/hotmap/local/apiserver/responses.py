"""HTTP responses of the API server: their headers, forms and errors."""

from __future__ import annotations

import asyncio
import logging
import unicodedata
import uuid
from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec

from hotmap.core.errors import ApiError, api_error
from hotmap.local.apiserver.authentication import ImpersonationError
from hotmap.local.apiserver.authorization import AccessDenied
from hotmap.local.apiserver.documents import PLAIN
from hotmap.local.apiserver.negotiation import JSON, YAML, as_yaml, in_meta_version, wants_yaml
from hotmap.local.apiserver.requests import Answer
from hotmap.local.apiserver.status import failure_status
from hotmap.local.http_library import aiohttp
from hotmap.local.http_server import web

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

__all__ = [
    "add_warnings",
    "common_headers",
    "complete_response",
    "error_response",
    "indent_json",
    "open_stream",
    "send_in_pieces",
    "wants_indentation",
]

_log = logging.getLogger(__name__)

# Bytes of a body that are written in one turn of the event loop.
_PIECE = 1 << 18

# Characters of all warnings of an answer, and of each where they have more together.
_LONGEST_WARNINGS = 4096
_LONGEST_CUT_WARNING = 256


def common_headers() -> dict[str, str]:
    """Return the headers of every answer (apiserver: endpoints/filters)."""
    return {"Audit-Id": str(uuid.uuid4()), "Cache-Control": "no-cache, private"}


async def open_stream(request: web.BaseRequest, content_type: str) -> web.StreamResponse:
    """Begin a response whose body is written in chunks; that of HTTP/1.0 ends its connection."""
    headers = {"Content-Type": content_type, **common_headers()}
    response = web.StreamResponse(headers=headers)
    if request.version >= aiohttp.HttpVersion11:
        response.enable_chunked_encoding()
    else:
        response.force_close()
    await response.prepare(request)
    return response


def complete_response(result: Answer, accept: str) -> web.Response:
    """Return a whole response in the form that a client accepts."""
    body, content_type = result.body, result.content_type
    if "v1beta1" in accept:
        body = in_meta_version(body, accept)
    if content_type == JSON and wants_yaml(accept):
        body, content_type = as_yaml(body), YAML
    return web.Response(body=body, status=result.status, headers={"Content-Type": content_type})


def error_response(request: web.BaseRequest, error: Exception) -> web.Response:
    """Return the answer to a request that failed.

    Raises:
        ConnectionAbortedError: the head of an answer has been sent. A second one cannot follow;
            without an end, the client knows that it is cut.
    """
    if not isinstance(error, ApiError):
        _log.error("%s %s failed", request.method, request.path, exc_info=error)
    if request.writer.output_size > 0:
        raise ConnectionAbortedError("the answer failed half-way") from error
    if isinstance(error, ApiError):
        response = _failure(error, request.headers.get("Accept", ""))
        if error.code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            # The rest of the body is not read, so nothing can follow it.
            response.force_close()
        return response
    text = "an error on the server prevented the request from succeeding"
    return _failure(api_error(500, text, reason="InternalError"))


def _failure(error: ApiError, accept: str = "") -> web.Response:
    answer = Answer(msgspec.json.encode(failure_status(error)), error.code)
    response = complete_response(answer, accept)
    if error.retry_after is not None:
        response.headers["Retry-After"] = str(int(error.retry_after))
    if isinstance(error, (AccessDenied, ImpersonationError)):
        response.headers.update(PLAIN)
    return response


def add_warnings(response: web.StreamResponse, texts: Iterable[str]) -> None:
    """Add warning headers, which kubectl prints.

    Where they are too long together, each is cut, and the last ones are left out: clients refuse
    an answer with thousands of headers (apiserver: endpoints/filters/warning.go, AddWarning).
    """
    # A header cannot have them, and upstream leaves them out (util/net: NewWarningHeader).
    texts = [text for text in texts if all(unicodedata.category(char) != "Cc" for char in text)]
    if sum(map(len, texts)) > _LONGEST_WARNINGS:
        texts = [text[:_LONGEST_CUT_WARNING] for text in texts]
    written = 0
    for text in texts:
        if written >= _LONGEST_WARNINGS:
            break
        written += len(text)
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{quoted}"')


def wants_indentation(request: web.BaseRequest) -> bool:
    """Return whether JSON is to be read by people (apiserver: writers.go, isPrettyPrint)."""
    wanted = request.query.get("pretty", "")
    if wanted:
        return wanted in ("1", "t", "T", "true", "True", "TRUE")
    return request.headers.get("User-Agent", "").startswith(("curl", "Wget", "Mozilla/5.0"))


def indent_json(response: web.Response) -> None:
    """Make a JSON body readable by people."""
    body = response.body
    if response.content_type == JSON and isinstance(body, (bytes, bytearray)):
        response.body = msgspec.json.format(body, indent=2)


def send_in_pieces(response: web.Response) -> None:
    """Let other requests run while a large body is encrypted and written."""
    body = response.body
    if isinstance(body, (bytes, bytearray)) and len(body) > _PIECE:
        response.body = _pieces(memoryview(body))
        response.headers["Content-Length"] = str(len(body))


async def _pieces(body: memoryview) -> AsyncIterator[memoryview]:
    for start in range(0, len(body), _PIECE):
        yield body[start : start + _PIECE]
        await asyncio.sleep(0)
