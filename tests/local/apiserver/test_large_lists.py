"""Lists of many objects let other requests run, and show one revision all the same."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.local.apiserver.api import CONFIGMAPS, configmap, store_of

from hotmap.core.errors import Expired
from hotmap.kube import loop_slices
from hotmap.local import store as store_module
from hotmap.local.apiserver.handlers import answer
from hotmap.local.apiserver.requests import Request
from hotmap.local.apiserver.routes import parse_path

if TYPE_CHECKING:
    from hotmap.local.apiserver.registry import Registry

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
COUNT = 250


@pytest.fixture
async def many(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> Registry:
    """Objects that each take more than a slice of the loop."""
    for i in range(COUNT):
        labels = {"half": str(i % 2)}
        await registry.create(
            "configmaps", "default", configmap(f"c{i:04}", labels), manager="test"
        )
    monkeypatch.setattr(loop_slices.object_slices, "_seconds", 0.0)
    return registry


async def ask(registry: Registry, accept: str, **query: str) -> Any:
    path = parse_path(registry.scheme, CONFIGMAPS)
    assert path is not None
    reply = await answer(registry, "list", path, Request(query, accept))
    return msgspec.json.decode(reply.body)


@pytest.mark.parametrize(
    ("accept", "query", "field", "count"),
    [
        ("application/json", {}, "items", COUNT),
        (METADATA, {}, "items", COUNT),
        (TABLE, {}, "rows", COUNT),
        (TABLE, {"labelSelector": "half=1"}, "rows", COUNT // 2),
        (TABLE, {"limit": "100"}, "rows", 100),
    ],
)
async def test_large_list_lets_others_write(
    many: Registry, accept: str, query: dict[str, str], field: str, count: int
) -> None:
    """What is written meanwhile waits for no list, and is not in it.

    Each object is selected in a turn of the loop, and written in another.
    """
    listing = asyncio.create_task(ask(many, accept, **query))
    turns = 0
    while not listing.done():
        await asyncio.sleep(0)
        turns += 1
        if turns == 5:
            await many.create("configmaps", "default", configmap("a-new-one"), manager="test")
            await many.delete("configmaps", "default", "c0000")
    shown = await listing
    assert turns >= 2 * count
    assert len(shown[field]) == count
    text = msgspec.json.encode(shown)
    assert b"a-new-one" not in text
    assert ("labelSelector" in query) == (b"c0000" not in text)


async def test_large_list_shows_one_revision(
    many: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is written and compacted while it reads; only the next list may be too late."""
    monkeypatch.setattr(store_module, "_PAGE", 10)
    revision = many.store.revision
    listing = asyncio.create_task(ask(many, "application/json", limit="240"))
    turns = 0
    while not listing.done():
        await asyncio.sleep(0)
        name = f"c{turns % COUNT:04}"
        await many.patch(
            "configmaps", "default", name, {"data": {"new": "x"}}, kind="merge", manager="test"
        )
        await many.delete("configmaps", "default", f"c{COUNT - 1 - turns % COUNT:04}")
        await many.create(
            "configmaps", "default", configmap(f"c{COUNT - 1 - turns % COUNT:04}"), manager="test"
        )
        store_of(many).compact(many.store.revision)
        turns += 1
    shown = await listing
    assert turns >= COUNT
    assert shown["metadata"]["resourceVersion"] == str(revision)
    assert shown["metadata"]["remainingItemCount"] == 10
    assert [item["metadata"]["name"] for item in shown["items"]] == [f"c{i:04}" for i in range(240)]
    assert {item["metadata"]["labels"]["half"] for item in shown["items"]} == {"0", "1"}
    assert not any("new" in item.get("data", {}) for item in shown["items"])
    with pytest.raises(Expired):
        await ask(many, "application/json", **{"continue": shown["metadata"]["continue"]})


async def test_cancelled_list_keeps_no_revision(many: Registry) -> None:
    """A client that goes away meanwhile leaves nothing behind that is kept for it."""
    listing = asyncio.create_task(ask(many, "application/json"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    listing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listing
    store = store_of(many)
    await many.delete("configmaps", "default", "c0000")
    store.compact(store.revision)
    assert store.compacted == store.revision


async def test_watch_begins_with_many_objects_in_parts(many: Registry) -> None:
    """The initial objects, then their bookmark, then what is written meanwhile."""
    options = {"send_initial_events": True, "bookmarks": True, "since": ""}
    with many.watch("configmaps", "default", label_selector="half=1", **options) as watch:
        first = watch.take()
        assert 0 < len(first) < COUNT // 2
        await many.create("configmaps", "default", configmap("new", {"half": "1"}), manager="test")
        frames = list(first)
        while len(frames) < COUNT // 2 + 2:
            assert await watch.wait()
            frames += watch.take()
    assert [kind for kind, _ in frames] == ["ADDED"] * (COUNT // 2) + ["BOOKMARK", "ADDED"]
    assert b'"new"' in frames[-1][1]
