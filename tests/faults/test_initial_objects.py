"""The store becomes complete, from a stream where the server has it, else from pages."""

from __future__ import annotations

import asyncio

import pytest
from tests.faults.conftest import FAST
from tests.support.fault_server import (
    Behaviour,
    Exchange,
    FaultServer,
    Truth,
    bookmark,
    broken,
    ends_at_once,
    expired_status,
    forbidden,
    invalid,
    reset_mid_line,
    serve_page,
    silent_stream,
    unmarked_bookmark,
)
from tests.support.reflection import Reflect

from hotmap.kube import paging


async def test_one_request_is_enough_where_the_server_streams(
    server: FaultServer, reflect: Reflect
) -> None:
    """The initial objects and the changes after them come in one stream."""
    async with reflect() as reflection:
        await reflection.converged()
        server.truth.put("c", "1")
        server.truth.delete("a")
        server.truth.put("b", "2")
        await reflection.converged()
    assert [request.script for request in server.requests] == ["stream"]
    assert server.requests[0].params == {
        "watch": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "20",
    }


@pytest.mark.parametrize(
    "behaviour",
    [invalid, unmarked_bookmark, silent_stream, ends_at_once],
    ids=lambda behaviour: behaviour.__name__,
)
async def test_server_that_cannot_stream_is_listed_for_good(
    server: FaultServer, reflect: Reflect, behaviour: Behaviour
) -> None:
    """Whatever shows that a server does not know the question, it is asked only once."""
    server.script("stream", behaviour)
    server.script("watch", expired_status)
    async with reflect() as reflection:
        await server.wait_for_requests("list", 2)
        await reflection.converged()
        server.truth.put("c", "1")
        await reflection.converged()
    assert [request.script for request in server.requests] == [
        "stream",
        "list",
        "watch",
        "list",
        "watch",
    ]


async def test_broken_stream_is_requested_again(server: FaultServer, reflect: Reflect) -> None:
    """A reset says nothing about what the server can, so nothing falls back."""
    server.script("stream", reset_mid_line)
    async with reflect() as reflection:
        await reflection.converged()
    assert [request.script for request in server.requests] == ["stream", "stream"]
    assert reflection.deleted == []


async def test_object_deleted_during_stream_is_removed(
    server: FaultServer, reflect: Reflect
) -> None:
    """Added and deleted before the marker: listeners hear both, and it stays deleted."""

    async def dies(exchange: Exchange) -> None:
        truth = exchange.server.truth
        await exchange.begin_stream()
        for made in list(truth.objects.values()):
            await exchange.line("ADDED", made)
        truth.delete("a")
        await exchange.line("DELETED", truth.history[-1][2])
        await exchange.line("BOOKMARK", bookmark(truth.revision, initial_events_end=True))
        await asyncio.Event().wait()

    server.script("stream", dies)
    async with reflect() as reflection:
        await reflection.converged()
    assert reflection.deleted == ["a"]
    assert len(server.requests) == 1


async def test_long_list_comes_in_pages(
    truth: Truth, server: FaultServer, reflect: Reflect
) -> None:
    """1,002 objects take three pages of 500, and all of them arrive."""
    for number in range(1000):
        truth.put(f"n{number:04}", "1")
    server.can_stream = False
    async with reflect() as reflection:
        await reflection.converged()
    lists = [request.params for request in server.requests if request.script == "list"]
    assert lists == [
        {"limit": "500"},
        {"limit": "500", "continue": "500"},
        {"limit": "500", "continue": "1000"},
    ]


async def test_continue_token_that_expires_starts_one_whole_list(
    truth: Truth, server: FaultServer, reflect: Reflect
) -> None:
    """410 in a paged list: the next list is not paged, so that it cannot expire again."""
    for number in range(600):
        truth.put(f"n{number:04}", "1")
    server.can_stream = False
    server.script("list", serve_page, expired_status)
    async with reflect() as reflection:
        await server.wait_for_requests("list", 2)
        await reflection.converged()
        await server.wait_for_requests("watch", 1)
    lists = [request.params for request in server.requests if request.script == "list"]
    assert lists == [{"limit": "500"}, {"limit": "500", "continue": "500"}, {}]
    assert len(server.requests) == 5


async def test_list_that_fails_is_tried_again_later(server: FaultServer, reflect: Reflect) -> None:
    """500 and 403 on lists cost one request per pause, and are told in words meanwhile."""
    server.can_stream = False
    server.script("list", broken, forbidden, forbidden)
    async with reflect() as reflection:
        await server.wait_for_requests("list", 3)
        assert not reflection.store.synced.is_set()
        await reflection.converged()
        assert reflection.statistics().errors == 3
    assert server.count("list") == 4
    assert server.count("stream") == 1


async def test_one_namespace_and_selectors_are_asked_for(
    truth: Truth, server: FaultServer, reflect: Reflect
) -> None:
    """Lists and watches alike carry what narrows them."""
    server.can_stream = False
    narrow = {"label_selector": "app=web", "field_selector": "metadata.name=a"}
    async with reflect(namespace="default", **narrow) as reflection:
        await reflection.converged()
        await server.wait_for_requests("watch", 1)
    for request in server.requests:
        assert request.path == "/api/v1/namespaces/default/configmaps"
        assert request.params["labelSelector"] == "app=web"
        assert request.params["fieldSelector"] == "metadata.name=a"
    assert len(server.requests) == 3


async def test_cancelled_reflector_leaves_no_connection(
    server: FaultServer, reflect: Reflect
) -> None:
    """The server sees the end of the watch, not a client that stopped reading."""
    async with reflect() as reflection:
        await reflection.converged()
        assert server.connections == 1
    async with asyncio.timeout(60):
        await server.disconnected()


async def test_longer_silence_holds_once_everything_is_there(
    server: FaultServer, reflect: Reflect
) -> None:
    """What completes the objects also changes the limit: a quiet cluster is not a fault."""

    async def falls_quiet(exchange: Exchange) -> None:
        truth = exchange.server.truth
        await exchange.begin_stream()
        for made in list(truth.objects.values()):
            await exchange.line("ADDED", made)
        await exchange.line("BOOKMARK", bookmark(truth.revision, initial_events_end=True))
        await asyncio.Event().wait()

    server.script("stream", falls_quiet)
    async with reflect(timing=FAST._replace(initial_silence=0.2, silence=5)) as reflection:
        await reflection.converged()
        await asyncio.sleep(0.6)
    assert [request.script for request in server.requests] == ["stream"]
    assert reflection.statistics().errors == 0


async def test_page_that_is_much_too_large_is_not_read(
    server: FaultServer, reflect: Reflect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked for again with a quarter of the objects, and none is missed."""
    monkeypatch.setattr(paging, "PAGE", 8)
    monkeypatch.setattr(paging, "LARGEST_PAGE", 250)
    for name in "abcdefgh":
        server.truth.put(name, "x" * 100)
    server.can_stream = False
    async with reflect() as reflection:
        await reflection.converged()
    limits = [request.params["limit"] for request in server.requests if request.script == "list"]
    assert limits[:2] == ["8", "2"]


async def test_page_that_is_too_large_halves_the_next_ones(
    server: FaultServer, reflect: Reflect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in the next list: where objects are large, answers stay small."""
    monkeypatch.setattr(paging, "PAGE", 4)
    monkeypatch.setattr(paging, "LARGEST_PAGE", 1000)
    for name in "abcdefgh":
        server.truth.put(name, "x" * 100)
    server.can_stream = False
    server.script("watch", expired_status)
    async with reflect() as reflection:
        await server.wait_for_requests("watch", 2)
        await reflection.converged()
    limits = [request.params["limit"] for request in server.requests if request.script == "list"]
    assert limits[:2] == ["4", "2"]
    assert set(limits[2:]) == {"2"}
