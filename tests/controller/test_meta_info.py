"""Tools for Reloader find its meta-info ConfigMap, and nothing depends on it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from tests.controller.world import World

from hotmap.controller.run import Controller
from hotmap.controller.settings import MetaInfo, ReloaderSurface, Settings
from hotmap.controller.storage.meta_info import write_meta_info
from hotmap.core.errors import Conflict, Forbidden, NotFound, NotLeading
from hotmap.core.reloader.meta_info import META_INFO, meta_info_data

DATA = meta_info_data({"autoReloadAll": True}, version="1", namespace="default", deployment="r")
WANTED = MetaInfo("default", DATA)


def check_leading() -> None:
    """Lead."""


async def written(world: World) -> dict[str, Any]:
    return await world.get("ConfigMap", META_INFO)


async def exists(world: World) -> bool:
    with suppress(NotFound):
        return bool(await written(world))
    return False


def test_documents_are_those_of_reloader() -> None:
    """Three data keys with JSON, as a client of its Go types reads them."""
    documents = {key: json.loads(text) for key, text in DATA.items()}
    assert set(documents) == {"buildInfo", "reloaderOptions", "deploymentInfo"}
    assert set(documents["buildInfo"]) == {
        "goVersion",
        "releaseVersion",
        "commitHash",
        "commitTime",
        "edition",
    }
    assert documents["buildInfo"]["releaseVersion"] == "hotmap-1"
    assert documents["deploymentInfo"] == {
        "name": "r",
        "namespace": "default",
        "creationTimestamp": None,
    }


async def test_config_map_is_created_with_its_label(world: World) -> None:
    """By which tools find it."""
    await write_meta_info(world.client, WANTED, check_leading=check_leading)
    obj = await written(world)
    assert obj["metadata"]["labels"] == {"reloader.stakater.com/meta-info": "reloader"}
    assert obj["data"] == DATA


async def test_equal_config_map_is_not_written_again(world: World) -> None:
    """A restart changes nothing."""
    await write_meta_info(world.client, WANTED, check_leading=check_leading)
    before = await written(world)
    await write_meta_info(world.client, WANTED, check_leading=check_leading)
    assert await written(world) == before


async def test_metadata_of_others_is_kept(world: World) -> None:
    """Other data is replaced, as Reloader does."""
    await world.config_map(META_INFO, old="1")
    labels = {"team": "a", "reloader.stakater.com/meta-info": "old"}
    patch = {"metadata": {"labels": labels, "annotations": {"a": "b"}}}
    await world.merge("ConfigMap", META_INFO, patch)
    await write_meta_info(world.client, WANTED, check_leading=check_leading)
    obj = await written(world)
    assert obj["metadata"]["labels"] == {**labels, "reloader.stakater.com/meta-info": "reloader"}
    assert obj["metadata"]["annotations"] == {"a": "b"}
    assert obj["data"] == DATA


async def test_conflict_is_repeated(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """On what another client has written since."""
    await world.config_map(META_INFO, old="1")
    replace = world.client.replace
    calls = 0

    async def replace_late(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            await world.merge("ConfigMap", META_INFO, {"metadata": {"labels": {"team": "a"}}})
        return await replace(*args, **options)

    monkeypatch.setattr(world.client, "replace", replace_late)
    await write_meta_info(world.client, WANTED, check_leading=check_leading)
    assert calls == 2
    obj = await written(world)
    assert obj["metadata"]["labels"]["team"] == "a"
    assert obj["data"] == DATA


def failing(error: Exception) -> Callable[..., Any]:
    async def fail(*args: Any, **options: Any) -> Any:
        raise error

    return fail


@pytest.mark.parametrize("error", [Forbidden("no permission"), Conflict("again")])
async def test_failure_is_one_warning(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
) -> None:
    """Without the permission, and where another client writes without end."""
    monkeypatch.setattr(world.client, "create", failing(error))
    with caplog.at_level(logging.WARNING, "hotmap"):
        await write_meta_info(world.client, WANTED, check_leading=check_leading)
    assert [record.getMessage() for record in caplog.records] == [
        f"ConfigMap default/reloader-meta-info is not written: {error}"
    ]


async def test_former_leader_writes_nothing(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """The next leader does, with its own settings."""

    def check() -> None:
        raise NotLeading("another replica is the leader")

    with caplog.at_level(logging.WARNING, "hotmap"):
        await write_meta_info(world.client, WANTED, check_leading=check)
    assert not caplog.records
    assert not await exists(world)


async def test_leader_writes_meta_info(world: World) -> None:
    """Once; the controller does not wait for it."""
    settings = Settings(
        reloader=ReloaderSurface(meta_info=WANTED), listen=("127.0.0.1", 0), identity="one"
    )
    async with Controller(world.client, settings) as running:
        await world.quiet(running)
        await world.until(lambda: exists(world), "it is written")
    assert (await written(world))["data"] == DATA
