"""Watches over HTTP: what comes first, what follows, how a stream ends."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import aiohttp
import pytest
from tests.local.apiserver.api import CONFIGMAPS, configmap, store_of
from tests.support.polling import wait_until

from hotmap.core.errors import Expired

if TYPE_CHECKING:
    from tests.local.apiserver.api import Api

    from hotmap.local.apiserver.registry import Registry
    from hotmap.local.apiserver.server import APIServer


INITIAL_EVENTS = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}


@pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}])
async def test_watch_without_revision_starts_with_present_objects(
    api: Api, query: dict[str, str]
) -> None:
    """Present objects are ADDED in key order, then changes follow."""
    for name in ("b", "a"):
        await api.post(CONFIGMAPS, configmap(name))
    async with api.watch(CONFIGMAPS, **query) as watch:
        await api.patch(f"{CONFIGMAPS}/b", {"data": {"k": "1"}})
        assert await watch.seen(3) == [("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "b")]


async def test_watch_without_initial_events_starts_with_later_ones(api: Api) -> None:
    await api.post(CONFIGMAPS, configmap("a"))
    query = {"sendInitialEvents": "false", "resourceVersionMatch": "NotOlderThan"}
    async with api.watch(CONFIGMAPS, **query) as watch:
        await api.post(CONFIGMAPS, configmap("b"))
        assert await watch.seen(1) == [("ADDED", "b")]


async def test_watch_from_revision_sends_later_events_only(api: Api) -> None:
    """Resuming at a list's revision has no gap and no duplicate."""
    await api.post(CONFIGMAPS, configmap("a"))
    revision = (await api.get(CONFIGMAPS)).body["metadata"]["resourceVersion"]
    await api.post(CONFIGMAPS, configmap("b"))
    deleted = await api.request("DELETE", f"{CONFIGMAPS}/a")
    assert deleted.status == 200
    async with api.watch(CONFIGMAPS, resourceVersion=revision) as watch:
        assert await watch.seen(1) == [("ADDED", "b")]
        gone = await watch.next()
    assert gone is not None
    assert gone["type"] == "DELETED"
    assert int(gone["object"]["metadata"]["resourceVersion"]) == int(revision) + 2


@pytest.mark.parametrize("query", [INITIAL_EVENTS, {}, {"resourceVersion": "0"}])
async def test_present_objects_end_with_annotated_bookmark(api: Api, query: dict[str, str]) -> None:
    """WatchList: ADDED for each object, then the bookmark that ends the initial events."""
    await api.post(CONFIGMAPS, configmap("a"))
    async with api.watch(CONFIGMAPS, allowWatchBookmarks="true", **query) as watch:
        assert await watch.seen(1) == [("ADDED", "a")]
        end = await watch.next()
    assert end is not None
    assert end["type"] == "BOOKMARK"
    assert end["object"]["kind"] == "ConfigMap"
    assert end["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    listed = (await api.get(CONFIGMAPS)).body["metadata"]["resourceVersion"]
    assert end["object"]["metadata"]["resourceVersion"] == listed


async def test_streamed_list_has_no_bookmark_that_the_client_does_not_allow(api: Api) -> None:
    """As upstream: such a client waits for the bookmark without end."""
    await api.post(CONFIGMAPS, configmap("a"))
    async with api.watch(CONFIGMAPS, **INITIAL_EVENTS) as watch:
        assert await watch.seen(1) == [("ADDED", "a")]
        await api.post(CONFIGMAPS, configmap("b"))
        assert await watch.seen(1) == [("ADDED", "b")]


async def test_bookmarks_follow_writes_to_other_kinds(api: Api, registry: Registry) -> None:
    """A bookmark names the newest revision that the watch has passed."""
    async with api.watch(CONFIGMAPS, allowWatchBookmarks="true") as watch:
        await api.post("/api/v1/namespaces", {"metadata": {"name": "other"}})
        wanted = str(registry.store.revision)
        while True:
            line = await watch.next()
            assert line is not None
            assert line["type"] == "BOOKMARK"
            if line["object"]["metadata"]["resourceVersion"] == wanted:
                break


async def test_bookmarks_are_sent_on_request_only(api: Api) -> None:
    """A client that did not ask sees objects only."""
    async with api.watch(CONFIGMAPS, timeoutSeconds="1") as watch:
        assert await watch.rest() == []


async def test_watch_timeout_ends_stream_cleanly(api: Api) -> None:
    """timeoutSeconds gives an end of file, after a last bookmark at most."""
    began = time.monotonic()
    async with api.watch(CONFIGMAPS, timeoutSeconds="1") as watch:
        await watch.rest()
    assert time.monotonic() - began >= 1


async def test_watch_from_compacted_revision_sends_error_event(
    api: Api, registry: Registry
) -> None:
    """HTTP 200, one ERROR event with a Status of 410, end of file."""
    await api.post(CONFIGMAPS, configmap("a"))
    store_of(registry).compact(registry.store.revision)
    async with api.watch(CONFIGMAPS, resourceVersion="1") as watch:
        assert watch.response.status == 200
        lines = await watch.rest()
    assert len(lines) == 1
    assert lines[0]["type"] == "ERROR"
    assert (lines[0]["object"]["code"], lines[0]["object"]["reason"]) == (410, "Expired")
    assert lines[0]["object"]["message"].startswith("too old resource version: 1 (")


async def test_watch_from_compacted_revision_raises_in_process(registry: Registry) -> None:
    """The same for informers, as an exception."""
    await registry.create("configmaps", "default", configmap("a"), manager="t")
    store_of(registry).compact(registry.store.revision)
    with pytest.raises(Expired):
        registry.watch("configmaps", since="1")


async def test_object_leaving_selector_is_deleted(api: Api) -> None:
    """DELETED shows the last selected state under the new resourceVersion; entering is ADDED."""
    await api.post(CONFIGMAPS, configmap("a", {"q": "1"}))
    async with api.watch(CONFIGMAPS, labelSelector="q=1") as watch:
        assert await watch.seen(1) == [("ADDED", "a")]
        left = await api.patch(f"{CONFIGMAPS}/a", {"metadata": {"labels": {"q": "2"}}})
        line = await watch.next()
        assert line is not None
        assert line["type"] == "DELETED"
        assert line["object"]["metadata"]["labels"] == {"q": "1"}
        revision = left.body["metadata"]["resourceVersion"]
        assert line["object"]["metadata"]["resourceVersion"] == revision
        await api.patch(f"{CONFIGMAPS}/a", {"data": {"unseen": "1"}})
        await api.patch(f"{CONFIGMAPS}/a", {"metadata": {"labels": {"q": "1"}}})
        assert await watch.seen(1) == [("ADDED", "a")]


async def test_watch_by_name_shows_one_object(api: Api) -> None:
    """The field selector metadata.name narrows the watch to one key."""
    async with api.watch(CONFIGMAPS, fieldSelector="metadata.name=b") as watch:
        await api.post(CONFIGMAPS, configmap("a"))
        await api.post(CONFIGMAPS, configmap("b"))
        assert await watch.seen(1) == [("ADDED", "b")]


async def test_watch_of_all_namespaces(api: Api) -> None:
    """Without a namespace in the path everything of the kind is seen."""
    async with api.watch("/api/v1/configmaps") as watch:
        await api.post(CONFIGMAPS, configmap("a"))
        await api.post("/api/v1/namespaces/kube-system/configmaps", configmap("b"))
        assert await watch.seen(2) == [("ADDED", "a"), ("ADDED", "b")]


WRONG = [
    (
        {"resourceVersionMatch": "NotOlderThan"},
        422,
        "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
    ),
    (
        {"sendInitialEvents": "true"},
        422,
        "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
    ),
    (
        {"resourceVersionMatch": "Exact", "sendInitialEvents": "true"},
        422,
        'resourceVersionMatch: Unsupported value: "Exact": supported values: "NotOlderThan"]',
    ),
    ({"continue": "abc"}, 422, "resourceVersionMatch is forbidden when continue is provided"),
    ({"resourceVersion": "abc"}, 500, 'parsing "abc": invalid syntax'),
    ({"fieldSelector": "data.k=1"}, 400, '"data.k" is not a known field selector'),
]


@pytest.mark.parametrize(("query", "status", "text"), WRONG)
async def test_invalid_watch_is_answered_without_stream(
    api: Api, query: dict[str, str], status: int, text: str
) -> None:
    """What is wrong with the request itself has the HTTP status that says so."""
    reply = await api.get(CONFIGMAPS, watch="1", **query)
    assert (reply.status, text in reply.message) == (status, True)


async def test_watch_sends_large_objects(api: Api) -> None:
    """A value of a mebibyte is one line."""
    async with api.watch(CONFIGMAPS) as watch:
        await api.post(CONFIGMAPS, configmap("big", k="x" * (1 << 20)))
        line = await watch.next()
    assert line is not None
    assert len(line["object"]["data"]["k"]) == 1 << 20


async def test_server_stop_ends_open_watches(api: Api, server: APIServer) -> None:
    """Clients see a clean end of file, and the server does not wait for them."""
    async with api.watch(CONFIGMAPS) as watch:
        await api.post(CONFIGMAPS, configmap("a"))
        assert await watch.seen(1) == [("ADDED", "a")]
        async with asyncio.timeout(60):  # the watch itself would last half an hour
            await server.stop()
        assert await watch.rest() == []
    with pytest.raises(aiohttp.ClientConnectionError):
        await api.get(CONFIGMAPS)


async def test_disconnected_client_frees_watch(api: Api, registry: Registry) -> None:
    """The server notices without having to write to it."""
    async with api.watch(CONFIGMAPS):
        assert store_of(registry)._watches
    await wait_until(lambda: not store_of(registry)._watches)


async def test_watches_share_encoded_objects(registry: Registry) -> None:
    """The bytes of an object are made once for all who watch it, and not kept for long."""
    with registry.watch("configmaps") as everything, registry.watch("configmaps", "default") as two:
        await registry.create("configmaps", "default", configmap("a"), manager="t")
        assert everything.take()[0][1] is two.take()[0][1]
        for number in range(40):
            change = {"data": {"k": f"{number}" + "x" * (1 << 19)}}
            await registry.patch("configmaps", "default", "a", change, kind="merge", manager="t")
        assert len(everything.take()) == len(two.take()) == 40
        assert registry.reader._changes._size <= 16 << 20
