"""An etcd that was restored from a backup has older versions than hotmap has applied.

That looks like a watch that lags, which passes; a backup does not. One consistent read decides.
"""

from __future__ import annotations

import asyncio
import time
from base64 import b64decode, b64encode

import msgspec
from tests.controller.pod_check_results import SOON
from tests.controller.world import World
from tests.support.shards import write_shard

from hotmap.core.model.state import Record, read_changes, read_shard, read_watched_until

#: A resourceVersion that the API server has not reached.
_LATER = "999999"


def _from_the_future(record: Record) -> Record:
    sources = [
        msgspec.structs.replace(source, resource_version=_LATER) for source in record.sources
    ]
    return msgspec.structs.replace(record, sources=tuple(sources))


async def _record_later_versions(world: World) -> None:
    """Let the records name versions that a backup does not have."""
    item = await world.registry.get("secrets", "hotmap", "hotmap-state-00")
    text = b64decode(item["data"]["state"]).decode()
    records = [_from_the_future(entry) for entry in read_shard(text).values()]
    assert records
    text = write_shard(records, read_changes(text).values(), watched_until=read_watched_until(text))
    state = {"state": b64encode(text.encode()).decode()}
    await world.registry.modify(
        "secrets", "hotmap", "hotmap-state-00", lambda obj: {**obj, "data": state}, manager="etcd"
    )


async def test_edits_count_after_etcd_was_restored(world: World) -> None:
    """The older version is waited for like a lagging watch, then it counts, and later ones too."""
    await world.config_map(LEVEL="info")
    await world.workload()
    async with world.controller() as controller:
        await world.quiet(controller)
    await _record_later_versions(world)
    await world.edit(LEVEL="debug")
    async with world.controller() as controller:
        first = await world.rollout()
        message = await world.event("SourceRestored")
        assert "restored from a backup" in message
        await world.rolled_out()
        await world.quiet(controller)
        await world.edit(LEVEL="trace")
        await world.rollout(after=first)
    assert len(await world.messages("SourceRestored")) == 1


async def test_pod_that_started_with_the_restored_content_is_replaced(world: World) -> None:
    """What was applied is there again before the older version counts, and so is its revision."""
    await world.config_map(LEVEL="debug")
    await world.workload()
    async with world.controller(pod_checks=SOON) as controller:
        await world.quiet(controller)
        record = _from_the_future(*controller.records.values())
        controller.records.put(record)
        await asyncio.sleep(30)
        await world.edit(LEVEL="info")
        await asyncio.sleep(2)
        await world.pod("web-1", started=time.time())
        await asyncio.sleep(3)
        await world.edit(LEVEL="debug")
        await world.rollout()


async def test_unchanged_content_rolls_no_workload_after_etcd_was_restored(world: World) -> None:
    """The same content under a smaller version is noted, and told once."""
    await world.config_map(LEVEL="info")
    await world.workload()
    async with world.controller() as controller:
        await world.quiet(controller)
    await _record_later_versions(world)
    async with world.controller() as controller:
        await world.event("SourceRestored")
        await world.quiet(controller)
        assert await world.revision() == ""
