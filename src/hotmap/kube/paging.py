"""Lists objects in pages whose bytes are bounded, whatever the objects are.

Some tenant chooses how many objects there are and how large each is, up to 1.5 MiB, and a list
from the API server's cache ignores `limit`. Without a bound one list of a namespace could take the
memory of the whole process, and so could many lists at once: a tenant may have any number of
workloads that select the same large Pods.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

import msgspec

from hotmap.core.errors import Expired, ResponseTooLarge
from hotmap.kube.client import Client, Page
from hotmap.kube.resources import Selection

__all__ = ["LARGEST_PAGE", "PAGE", "SHORT_LIST", "ListPager", "list_items"]

T = TypeVar("T")

#: Objects per page (client-go: tools/pager, defaultPageSize), and bytes of one: they are decoded at
#: a stretch, in about 20 ms.
PAGE: Final = 500
LARGEST_PAGE: Final = 8 << 20

#: Bytes of one list: the usual size of an object, what all objects together may have beyond that,
#: and the most in total. 10,000 pods have about 100 MB, of which little is kept; of large objects
#: most may be kept.
_USUAL: Final = 16 << 10
_BEYOND: Final = 16 << 20
_LARGEST_LIST: Final = 256 << 20

#: Bytes of a short list. Most lists are, and many are read at once; long ones are not.
SHORT_LIST: Final = 1 << 20

_log = logging.getLogger(__name__)


class ListPager:
    """Lists the same objects again and again, in pages that suit their sizes."""

    def __init__(self, client: Client, selection: Selection) -> None:
        self._client = client
        self._selection = selection
        #: Objects of the next page. 0 is all, after a continue token expired: pages that take
        #: longer than the server keeps the snapshot would expire again and again (client-go:
        #: tools/pager, FullListIfExpired).
        self._limit = PAGE
        #: The same for the next list: smaller where objects are large.
        self._next_limit = PAGE

    async def pages(self) -> AsyncIterator[Page[msgspec.Raw]]:
        """Yield the pages of one consistent list, undecoded; each request is sent once.

        After a page above LARGEST_PAGE the next ones get half of the objects. One above four times
        that is not read: it is asked for again with a quarter of them.

        Raises:
            Expired: a page came too late; the next list is one page.
            ApiError, Unreachable: as the client raises them.
        """
        selection, token = self._selection, ""
        while True:
            try:
                page = await self._client.list_page(
                    selection.resource,
                    selection.namespace,
                    type=msgspec.Raw,
                    limit=self._limit,
                    continue_token=token,
                    label_selector=selection.label_selector,
                    field_selector=selection.field_selector,
                    attempts=1,
                    at_most=None if self._limit == 1 else 4 * LARGEST_PAGE,
                )
            except ResponseTooLarge:
                self._limit = self._next_limit = max(1, (self._limit or PAGE) // 4)
                continue
            except Expired:
                if token:
                    self._limit = 0
                raise
            if page.size > LARGEST_PAGE and self._limit > 1:
                self._limit = self._next_limit = max(1, min(self._limit, len(page.items)) // 2)
                _log.debug("%s: %d MiB in one page", selection, page.size >> 20)
            yield page
            token = page.continue_token
            if not token:
                break
        self._limit = self._next_limit


async def list_items(
    client: Client,
    selection: Selection,
    *,
    type: type[T],
    cached: bool = False,
    is_long: bool = False,
) -> AsyncIterator[T]:
    """Yield the selected objects; `cached` takes any state that the API server has in memory.

    Namespaces take turns. A list that is not short is read again when it is the turn of a long one;
    `is_long` does that at once. A page that is too large is asked for again with a quarter of the
    objects.

    Raises:
        ResponseTooLarge: all of them have more bytes than a list may have.
        ApiError, Unreachable: as the client raises them.
    """
    read = partial(
        client.list_page,
        selection.resource,
        selection.namespace,
        type=type,
        label_selector=selection.label_selector,
        field_selector=selection.field_selector,
    )
    if not is_long:
        with suppress(ResponseTooLarge):
            async with client.short_lists.use(selection.namespace):
                page = await read(resource_version="0" if cached else None, at_most=SHORT_LIST)
            if not page.continue_token:
                for item in page.items:
                    yield item
                return
    async with client.long_lists.use(selection.namespace):
        async for item in _read_pages(read, selection, cached=cached):
            yield item


async def _read_pages(
    read: Callable[..., Awaitable[Page[T]]], selection: Selection, *, cached: bool
) -> AsyncIterator[T]:
    token, limit, size, count = "", PAGE, 0, 0
    while True:
        try:
            page = await read(
                limit=limit,
                continue_token=token,
                resource_version="0" if cached and not token else None,
                at_most=LARGEST_PAGE,
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
                f"the {selection.resource.plural} of namespace {selection.namespace} that match"
                f" have more than {most >> 20} MiB"
            )
        for item in page.items:
            yield item
        token = page.continue_token
        if not token:
            return
