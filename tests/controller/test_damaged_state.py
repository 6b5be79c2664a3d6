"""Records that were damaged or mixed up cost evidence, and never cause a rollout."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable

import msgspec
import pytest
from tests.controller.world import Object, World
from tests.support.shards import write_shard

from hotmap.core.model.state import read_changes, read_shard, read_watched_until

#: Changes the texts of the state Secrets, by name.
Damage = Callable[[dict[str, str]], dict[str, str]]

FIRST, SECOND = "hotmap-state-00", "hotmap-state-01"


def swapped(texts: dict[str, str]) -> dict[str, str]:
    """The records are in another shard, as after a restore by hand."""
    return {SECOND: texts[FIRST], FIRST: write_shard([])}


def twice(texts: dict[str, str]) -> dict[str, str]:
    return {FIRST: texts[FIRST], SECOND: texts[FIRST]}


def cut(texts: dict[str, str]) -> dict[str, str]:
    return {FIRST: texts[FIRST][: len(texts[FIRST]) // 2]}


def garbage(texts: dict[str, str]) -> dict[str, str]:
    return {FIRST: "\x00\ud7ff[" * 1000 + texts[FIRST], SECOND: "[" * 100_000}


def of_another_cluster(texts: dict[str, str]) -> dict[str, str]:
    """The same names, other uids, and a watch that was seen much later than anything here."""
    records = [
        msgspec.structs.replace(record, uid=f"other-{record.uid}")
        for record in read_shard(texts[FIRST]).values()
    ]
    until = (read_watched_until(texts[FIRST]) or 0.0) + 1e6
    changes = read_changes(texts[FIRST]).values()
    return {FIRST: write_shard(records, changes, watched_until=until)}


async def damage_state(world: World, damage: Damage) -> None:
    item = await world.registry.get("secrets", "hotmap", FIRST)
    text = b64decode(item["data"]["state"]).decode()
    assert len(read_shard(text)) == 2

    def damaged(obj: Object) -> Object:
        return {**obj, "data": data}

    for name, content in damage({FIRST: text}).items():
        data = {"state": b64encode(content.encode()).decode()}
        if name == FIRST:
            await world.registry.modify("secrets", "hotmap", name, damaged, manager="x")
        else:
            body = {"metadata": {"name": name}, "type": item["type"], "data": data}
            await world.registry.create("secrets", "hotmap", body, manager="x")


async def two_recorded_workloads(world: World) -> None:
    await world.config_map(LEVEL="info")
    for name in ("web", "other"):
        await world.workload(name)
    async with world.controller() as controller:
        await world.quiet(controller)


@pytest.mark.parametrize("damage", [swapped, twice, cut, garbage, of_another_cluster])
async def test_damaged_records_roll_nothing_and_stop_nothing(world: World, damage: Damage) -> None:
    """Nothing was edited, so nothing is rolled; the next edit is rolled out everywhere."""
    await two_recorded_workloads(world)
    await damage_state(world, damage)
    async with world.controller() as controller:
        await world.quiet(controller)
        for name in ("web", "other"):
            assert await world.revision(name) == ""
        await world.edit(LEVEL="debug")
        for name in ("web", "other"):
            await world.rollout(name)
        assert not controller.supervisor.restarts


@pytest.mark.parametrize("damage", [swapped, twice])
async def test_records_in_another_shard_still_show_what_was_missed(
    world: World, damage: Damage
) -> None:
    await two_recorded_workloads(world)
    await damage_state(world, damage)
    await world.edit(LEVEL="debug")
    async with world.controller():
        for name in ("web", "other"):
            await world.rollout(name)


async def test_copy_of_the_state_in_another_namespace_is_not_read(world: World) -> None:
    """Nor is its type a way to hide a source: a Secret of that type is not a source at all."""
    await two_recorded_workloads(world)
    item = await world.registry.get("secrets", "hotmap", FIRST)
    copy: Object = {
        "metadata": {"name": FIRST, "labels": {"app": "web"}},
        "type": item["type"],
        "data": item["data"],
    }
    await world.registry.create("secrets", "default", copy, manager="x")
    await world.edit(LEVEL="debug")
    async with world.controller() as controller:
        for name in ("web", "other"):
            await world.rollout(name)
        await world.quiet(controller)
    kept = await world.registry.get("secrets", "default", FIRST)
    assert kept["data"] == item["data"]
