"""Lists objects in pages whose bytes are bounded, whatever the objects are.

Some tenant chooses how many objects there are and how large each is, up to 1.5 MiB, and a list
from the API server's cache ignores `limit`. Without a bound one list of a namespace could take the
memory of the whole process.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final, TypeVar

from hotmap.core.errors import ResponseTooLarge
from hotmap.kube.client import Client
from hotmap.kube.resources import Resource

__all__ = ["list_items"]

T = TypeVar("T")

#: Objects per page, and bytes of one: they are decoded at a stretch, in about 20 ms.
_PAGE: Final = 500
_LARGEST_PAGE: Final = 8 << 20

#: Bytes of one list: the usual size of an object, what all objects together may have beyond that,
#: and the most in total. 10,000 pods have about 100 MB, of which little is kept; of large objects
#: most may be kept.
_USUAL: Final = 16 << 10
_BEYOND: Final = 16 << 20
_LARGEST_LIST: Final = 256 << 20


async def list_items(
    client: Client,
    resource: Resource,
    namespace: str | None,
    *,
    type: type[T],
    label_selector: str = "",
    field_selector: str = "",
    cached: bool = False,
) -> AsyncIterator[T]:
    """Yield the selected objects; `cached` takes any state that the API server has in memory.

    A page that is too large is asked for again with a quarter of the objects.

    Raises:
        ResponseTooLarge: all of them have more bytes than a list may have.
        ApiError, Unreachable: as the client raises them.
    """
    token, limit, size, count = "", _PAGE, 0, 0
    while True:
        try:
            page = await client.list_page(
                resource,
                namespace,
                type=type,
                limit=limit,
                continue_token=token,
                label_selector=label_selector,
                field_selector=field_selector,
                resource_version="0" if cached and not token else None,
                at_most=_LARGEST_PAGE,
            )
        except ResponseTooLarge:
            if not cached and limit == 1:
                raise
            if not cached:
                limit = max(1, limit // 4)
            cached = False  # from the cache, all come in one page
            continue
        size += page.size
        count += len(page.items)
        most = min(_BEYOND + count * _USUAL, _LARGEST_LIST)
        if size > most:
            raise ResponseTooLarge(
                f"the {resource.plural} of namespace {namespace} that match have more than"
                f" {most >> 20} MiB"
            )
        for item in page.items:
            yield item
        token = page.continue_token
        if not token:
            return
