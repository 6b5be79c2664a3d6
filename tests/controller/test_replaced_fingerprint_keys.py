"""Fingerprint keys that are deleted, replaced or invalid cause no rollout."""

from __future__ import annotations

import asyncio
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable

import pytest
from tests.controller.world import World

from hotmap.controller.run import Controller
from hotmap.controller.storage import keyring
from hotmap.controller.watch.reflectors import Reflectors
from hotmap.core.errors import SettingsError
from hotmap.core.model.state import read_shard


async def test_deleted_key_rolls_nothing(world: World) -> None:
    """A new one is made; old fingerprints say nothing under it, so nothing is rolled."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await world.run_once()
    old = await world.recorded()
    await world.edit(LEVEL="debug")
    await world.registry.delete("secrets", "hotmap", "hotmap-key")
    await world.run_once()
    assert await world.revision() == ""
    assert await world.recorded() != old
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="trace")
        await world.rollout()


async def test_older_fingerprint_key_is_still_compared(world: World) -> None:
    """After a rotation, what was recorded with the old key is still compared."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await world.run_once()
    await _add_key(world)
    await world.run_once()
    assert await world.revision() == ""
    await world.edit(LEVEL="debug")
    async with world.controller():
        await world.rollout()


async def test_replaced_fingerprint_key_is_used_without_a_restart(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is rolled for it, edits are, and later records are made with the new key."""
    monkeypatch.setattr(keyring, "_CHECK_EVERY", 0.05)
    await world.config_map(LEVEL="info")
    await world.workload()
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.until(world.records, "the record is written")
        before = await _record_key(world)
        await _add_key(world)
        await world.until(
            lambda: _sources_have_keys(controller, 2), "all sources are read with both keys"
        )
        await world.quiet(controller)
        assert await world.revision() == ""
        await world.edit(LEVEL="debug")
        await world.rollout()
        await world.quiet(controller)
    assert await _record_key(world) != before


async def test_standby_takes_over_with_a_key_that_was_replaced(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It began with the old key: it rolls nothing for the new one, and misses no edit."""
    monkeypatch.setattr(keyring, "_CHECK_EVERY", 0.05)
    await world.config_map(LEVEL="info")
    await world.workload()
    first = await world.controller(identity="first").__aenter__()
    async with world.controller(identity="second") as second:
        try:
            await world.quiet(first)
            await world.until(world.records, "the record is written")
            before = await _record_key(world)
            await _add_key(world)
            await world.until(lambda: _sources_have_keys(first, 2), "the leader has both keys")
            await world.quiet(first)
        finally:
            await first.__aexit__(None, None, None)
        await world.until(lambda: _sources_have_keys(second, 2), "the standby has both keys")
        await world.quiet(second)
        assert await world.revision() == ""
        await world.edit(LEVEL="debug")
        await world.rollout()
        await world.quiet(second)
    assert await _record_key(world) != before


async def test_key_that_is_replaced_while_a_new_leader_lists_is_used(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has listed has no fingerprints under that key, so it lists once more."""
    monkeypatch.setattr(keyring, "_CHECK_EVERY", 0.05)
    await world.config_map(LEVEL="info")
    await world.workload()
    renew, lists = Reflectors.renew, 0

    async def renew_while_the_key_is_replaced(self: Reflectors) -> None:
        nonlocal lists
        lists += 1
        await renew(self)
        if lists == 1:
            await _add_key(world)
            await world.until(_has_keys(second, 2), "the new leader knows both keys")

    monkeypatch.setattr(Reflectors, "renew", renew_while_the_key_is_replaced)
    first = await world.controller(identity="first").__aenter__()
    async with world.controller(identity="second") as second:
        await world.quiet(first)
        await first.__aexit__(None, None, None)
        await world.until(lambda: _sources_have_keys(second, 2), "both keys are used")
        await world.quiet(second)
        await world.edit(LEVEL="debug")
        await world.rollout()
    assert lists == 2


async def test_deleted_fingerprint_keys_are_written_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With those in use: what was recorded stays comparable."""
    monkeypatch.setattr(keyring, "_CHECK_EVERY", 0.05)
    async with world.controller():
        old = (await world.get("Secret", "hotmap-key", "hotmap"))["data"]["keys"]
        await world.registry.delete("secrets", "hotmap", "hotmap-key")

        async def is_back() -> bool:
            items = (await world.registry.list("secrets", "hotmap")).items
            return "hotmap-key" in [item["metadata"]["name"] for item in items]

        await world.until(is_back, "the keys are written again")
        assert (await world.get("Secret", "hotmap-key", "hotmap"))["data"]["keys"] == old


async def test_standby_leaves_deleted_fingerprint_keys_to_the_leader(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have others than the leader, whose records would not be comparable any more."""
    async with world.controller(identity="first"):
        monkeypatch.setattr(keyring, "_CHECK_EVERY", 0.05)  # the first one sleeps for a minute
        async with world.controller(identity="second"):
            await world.registry.delete("secrets", "hotmap", "hotmap-key")
            await asyncio.sleep(2)
            items = (await world.registry.list("secrets", "hotmap")).items
            assert "hotmap-key" not in [item["metadata"]["name"] for item in items]


async def test_fingerprint_keys_that_cannot_be_read_are_kept(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The task that reads them goes on, and uses what it reads later."""
    monkeypatch.setattr(keyring, "_CHECK_EVERY", 0.05)
    await world.config_map(LEVEL="info")
    await world.workload()
    async with world.controller() as controller:
        await world.quiet(controller)
        old = (await world.get("Secret", "hotmap-key", "hotmap"))["data"]["keys"]
        patch = {"data": {"keys": b64encode(b"no key").decode()}}
        await world.merge("Secret", "hotmap-key", patch, namespace="hotmap")
        await world.until(
            _logs(caplog, "cannot check the fingerprint keys"), "the refusal is logged"
        )
        assert await _sources_have_keys(controller, 1)
        assert not controller.supervisor.failing()
        await asyncio.sleep(0.3)  # some more checks
        assert sum("cannot check the fingerprint" in text for text in caplog.messages) == 1
        both = b64encode(b"n" * 32) + b"\n" + b64decode(old)
        patch = {"data": {"keys": b64encode(both).decode()}}
        await world.merge("Secret", "hotmap-key", patch, namespace="hotmap")
        await world.until(
            lambda: _sources_have_keys(controller, 2), "all sources are read with both keys"
        )


def _logs(caplog: pytest.LogCaptureFixture, text: str) -> Callable[[], Awaitable[bool]]:
    """Return what waits for a log line."""

    async def is_logged() -> bool:
        return any(text in message for message in caplog.messages)

    return is_logged


def _has_keys(controller: Controller, count: int) -> Callable[[], Awaitable[bool]]:
    """Return what waits until a controller knows so many keys."""

    async def has() -> bool:
        return len(controller._leadership.keys) == count

    return has


async def _sources_have_keys(controller: Controller, count: int) -> bool:
    """Return whether every ConfigMap is marked under so many keys."""
    values = controller.index.sources["ConfigMap"].values()
    return bool(values) and all(len(source.marks) == count for source in values)


async def _add_key(world: World) -> None:
    """Write a new fingerprint key before the present one, as an operator replaces a key."""
    old = (await world.get("Secret", "hotmap-key", "hotmap"))["data"]["keys"]
    both = b64encode(b"n" * 32) + b"\n" + b64decode(old)
    patch = {"data": {"keys": b64encode(both).decode()}}
    await world.merge("Secret", "hotmap-key", patch, namespace="hotmap")


async def _record_key(world: World) -> str:
    """The id of the key that the only record was made with."""
    [text] = (await world.records()).values()
    [record] = read_shard(b64decode(text).decode()).values()
    return record.key_id


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param("", id="empty"),
        pytest.param("not base64!", id="no base64"),
        pytest.param("c2hvcnQ=", id="too short to be a key"),
        pytest.param("clé", id="no ASCII"),
    ],
)
async def test_invalid_key_is_reported(world: World, keys: str) -> None:
    """One sentence says which Secret, what is wrong with it, and what to do."""
    await world.run_once()
    patch = {"data": {"keys": b64encode(keys.encode()).decode()}}
    await world.merge("Secret", "hotmap-key", patch, namespace="hotmap")
    with pytest.raises(SettingsError) as caught:
        await world.run_once()
    text = str(caught.value)
    assert text.startswith("Secret hotmap/hotmap-key has no valid key under 'keys'; delete it")
    assert "c2hvcnQ" not in text
