"""A list takes a bounded amount of memory, however many and large the objects are."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import msgspec
import pytest
from tests.support.fault_server import Exchange, FaultServer

from hotmap.core.errors import ResponseTooLarge
from hotmap.core.model.objects import Pod
from hotmap.kube import metadata, paging
from hotmap.kube.client import Client, Page
from hotmap.kube.config import TLS, BearerToken, ClusterConfig
from hotmap.kube.decoding import MOST_TOKENS
from hotmap.kube.fair_slots import FairSlots
from hotmap.kube.metadata import list_versions
from hotmap.kube.paging import list_items
from hotmap.kube.resources import PODS, Selection

SHOP = Selection(PODS, "shop")


class Lists:
    """A client of a server that has some Pods; from its cache all come in one page."""

    def __init__(self, count: int, size: int) -> None:
        self._count, self._size = count, size
        #: The limit of each request, None from the cache.
        self.limits: list[int | None] = []
        self.most = 0
        self.short_lists, self.long_lists = FairSlots(16), FairSlots(2)
        #: Long pages that are being read, and the most at once; by namespace.
        self._reading: Counter[str | None] = Counter()
        self.most_reading: Counter[str | None] = Counter()

    async def list_page(
        self, resource: object, namespace: str | None, **options: Any
    ) -> Page[msgspec.Raw]:
        cached = options["resource_version"] == "0"
        first, limit = int(options.get("continue_token") or 0), options.get("limit", paging.PAGE)
        self.limits.append(None if cached else limit)
        last = self._count if cached else min(self._count, first + limit)
        size = (last - first) * self._size
        if options["at_most"] > paging.SHORT_LIST:
            self._reading[namespace] += 1
            self.most_reading |= self._reading
            await asyncio.sleep(0)
            self._reading[namespace] -= 1
        if size > options["at_most"]:
            raise ResponseTooLarge("too large")
        self.most = max(self.most, size)
        items = [msgspec.Raw(b"%d" % number) for number in range(first, last)]
        return Page(items, "1", str(last) if last < self._count else "", size)


async def listed(
    lists: Lists, selection: Selection = SHOP, *, cached: bool = True, is_long: bool = True
) -> list[int]:
    client: Any = lists
    items = list_items(client, selection, type=msgspec.Raw, cached=cached, is_long=is_long)
    return [int(bytes(item)) async for item in items]


@pytest.mark.parametrize(("count", "is_long"), [(20, False), (300, True)])
async def test_list_of_usual_pods_is_one_request(count: int, is_long: bool) -> None:
    """From the cache of the API server."""
    lists = Lists(count, 10_000)
    assert await listed(lists, is_long=is_long) == list(range(count))
    assert lists.limits == [None]


@pytest.mark.parametrize("count", [300, 600], ids=["too large", "too many for a page"])
@pytest.mark.parametrize("cached", [True, False], ids=["cached", "consistent"])
async def test_list_that_is_not_short_is_read_again(count: int, cached: bool) -> None:
    lists = Lists(count, 10_000 if count == 300 else 1)
    assert await listed(lists, cached=cached, is_long=False) == list(range(count))
    again = 1 if cached and count == 600 else 3 if count == 600 else 2
    assert len(lists.limits) == again


async def test_long_lists_of_a_namespace_are_read_one_after_another() -> None:
    """A tenant may have any number of workloads that select the same large Pods."""
    lists = Lists(5, 1_500_000)
    selections = [SHOP, SHOP, SHOP, Selection(PODS, "bank")]
    await asyncio.gather(*(listed(lists, each, is_long=False) for each in selections))
    assert lists.most_reading == {"shop": 1, "bank": 1}


@pytest.mark.parametrize(
    ("count", "size", "limits"),
    [(2_000, 10_000, [None, 500]), (150, 100_000, [None, 500, 125, 31]), (10, 1_500_000, None)],
)
async def test_pages_are_made_smaller_until_they_fit(
    count: int, size: int, limits: list[int | None] | None
) -> None:
    """A tenant's Pods of 1.5 MB each come a few at a time, and none is missed."""
    lists = Lists(count, size)
    assert await listed(lists) == list(range(count))
    assert lists.most <= 8 << 20
    if limits is not None:
        assert list(dict.fromkeys(lists.limits)) == limits


@pytest.mark.parametrize(("count", "size"), [(20, 1_500_000), (250, 100_000), (30_000, 10_000)])
async def test_list_of_too_many_bytes_is_given_up(count: int, size: int) -> None:
    """What all Pods have in bytes is bounded, too; more for many usual ones."""
    lists = Lists(count, size)
    with pytest.raises(ResponseTooLarge, match=r"^the pods of namespace shop that match have"):
        await listed(lists)


async def test_response_beyond_the_bound_is_not_read(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection is closed instead; the server has sent a small part by then."""
    monkeypatch.setattr(paging, "LARGEST_PAGE", 1 << 20)
    sent = 0

    async def endless(exchange: Exchange) -> None:
        nonlocal sent
        await exchange.begin_stream()
        while sent < 1 << 28:
            await exchange.chunk(b"x" * (1 << 16))
            sent += 1 << 16

    async def empty(exchange: Exchange) -> None:
        await exchange.answer(200, {"metadata": {}, "items": []})

    server.script("other", endless, empty)
    config = ClusterConfig(server.url, "the test", BearerToken(), TLS())
    async with Client(config) as client:
        items = list_items(client, SHOP, type=Pod, cached=True, is_long=True)
        assert [item async for item in items] == []
    assert sent < 1 << 26
    versions = [request.params.get("resourceVersion") for request in server.requests]
    assert versions == ["0", None]


async def test_versions_of_objects_with_much_metadata_come_a_few_at_a_time(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenant's annotations have up to 256 KiB; each page is bounded, and none is missed."""
    monkeypatch.setattr(metadata, "_LARGEST_PAGE", 100_000)
    sizes: list[int] = []

    async def page(exchange: Exchange) -> None:
        first = int(exchange.request.params.get("continue", 0))
        last = min(300, first + int(exchange.request.params["limit"]))
        items = [
            {"metadata": {"name": f"n{n}", "annotations": {"a": "x" * 1000}}}
            for n in range(first, last)
        ]
        sizes.append(len(items))
        more = {"continue": str(last)} if last < 300 else {}
        await exchange.answer(200, {"metadata": more, "items": items})

    server.script("other", *[page] * 20)
    config = ClusterConfig(server.url, "the test", BearerToken(), TLS())
    async with Client(config) as client:
        found = await list_versions(client, PODS, "shop")
    assert [each.name for each in found] == [f"n{n}" for n in range(300)]
    assert sizes == [300, 300, 125, *[31] * 9, 21]


async def test_versions_keep_no_owner_but_the_controller(server: FaultServer) -> None:
    """An object of 1.5 MiB may name 20,000 others, which would take 8 MB as values."""
    owners: list[dict[str, object]] = [
        {"kind": "ConfigMap", "name": f"n{n}", "uid": f"u{n}"} for n in range(1000)
    ]
    owners.append({"kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True})

    async def page(exchange: Exchange) -> None:
        items = [{"metadata": {"name": "web-1", "ownerReferences": owners}}]
        await exchange.answer(200, {"metadata": {}, "items": items})

    server.script("other", page)
    async with Client(ClusterConfig(server.url, "the test", BearerToken(), TLS())) as client:
        (found,) = await list_versions(client, PODS, "shop")
    assert [owner.name for owner in found.owner_references or ()] == ["web"]


async def test_page_is_read_although_an_object_nests_deeply(server: FaultServer) -> None:
    """With more values than a watch takes: the others of the page belong to other users."""
    deep = b'{"f:a":' * 3000 + b"{}" + b"}" * 3000
    fields = b'{%s"d":%s}' % (b'"":{},' * MOST_TOKENS, deep)
    pods = [
        b'{"metadata":{"name":"%b","managedFields":[{"fieldsV1":%b}]}}' % item
        for item in ((b"a", b"{}"), (b"b", fields), (b"c", b"{}"))
    ]

    async def page(exchange: Exchange) -> None:
        await exchange.answer(200, b'{"metadata":{},"items":[%b]}' % b",".join(pods))

    server.script("other", page)
    config = ClusterConfig(server.url, "the test", BearerToken(), TLS())
    async with Client(config) as client:
        items = list_items(client, SHOP, type=Pod)
        assert [item.metadata.name async for item in items] == ["a", "b", "c"]
