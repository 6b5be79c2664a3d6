"""Single requests to any URL: a controller's status, a receiver of webhooks."""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import lru_cache
from urllib.parse import quote, urlencode, urlsplit

from hotmap.kube.http.client import HttpClient
from hotmap.kube.http.connection import Response
from hotmap.kube.http.errors import HttpError
from hotmap.kube.http.route import Route, basic_authorization
from hotmap.kube.proxy import proxy_from_environment

__all__ = ["fetch", "open_url", "system_trust"]


#: What a path or a query may contain beside letters, digits and what quote leaves alone (RFC 3986).
_QUOTED = "%/:=&?+!$,;'@()*[]~"


@lru_cache(maxsize=1)
def system_trust() -> ssl.SSLContext:
    """Return TLS settings that trust the certificate authorities of the system."""
    context = ssl.create_default_context()
    # Python 3.13 requires extensions that many private authorities do not have.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


@asynccontextmanager
async def open_url(
    method: str,
    url: str,
    *,
    headers: Iterable[tuple[str, str]] = (),
    body: bytes | None = None,
    proxy: str = "",
    connect_timeout: float,
) -> AsyncIterator[Response]:
    """Send a request on a connection of its own, and yield its response.

    An https server is trusted by the authorities of the system. A user and password of the URL are
    sent. Redirects are not followed.

    Raises:
        HttpError: there is no response.
        ValueError: the URL cannot be used.
    """
    parts = urlsplit(url)
    secure = "https" in (parts.scheme, urlsplit(proxy).scheme)
    route = Route(
        f"{parts.scheme}://{parts.netloc}", system_trust() if secure else None, proxy=proxy
    )
    target = quote(parts.path or "/", safe=_QUOTED)
    if parts.query:
        target += f"?{quote(parts.query, safe=_QUOTED)}"
    if login := basic_authorization(parts):
        headers = (*headers, ("Authorization", login))
    client = HttpClient(route, connect_timeout=connect_timeout)
    try:
        yield await client.request(method, target, headers=headers, body=body)
    finally:
        await client.aclose()


async def fetch(
    url: str, query: Mapping[str, str], *, connect_timeout: float, at_most: int
) -> tuple[int, bytes]:
    """Return the status and the body of a page; a proxy of the environment is used.

    Raises:
        HttpError: there is no complete response, or its body has more than `at_most` bytes.
        SettingsError: the environment names an unusable proxy.
        ValueError: the URL cannot be used.
    """
    page = f"{url}?{urlencode(query)}" if query else url
    proxy = proxy_from_environment(url, os.environ)
    async with open_url("GET", page, proxy=proxy, connect_timeout=connect_timeout) as response:
        chunks, size = [], 0
        while chunk := await response.read_any():
            size += len(chunk)
            if size > at_most:
                raise HttpError(f"its answer has more than {at_most:,} bytes")
            chunks.append(chunk)
        return response.status, b"".join(chunks)
