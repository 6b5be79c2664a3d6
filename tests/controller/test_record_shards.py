"""Records lie in as few Secrets as they want, written once a burst, and never only in memory."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from tests.controller.world import World

from hotmap.controller.storage import record_shards as module
from hotmap.controller.storage.record_shards import RecordShards
from hotmap.controller.storage.records import Records
from hotmap.core.errors import ApiError, api_error
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.state import (
    ObservedChange,
    Record,
    SourceChanges,
    SourceRecord,
    read_shard,
    shard_of,
)

pytestmark = pytest.mark.all_shards


def record(number: int, revision: str = "") -> Record:
    return Record(f"uid-{number}", "kH3x", 1, revision=revision)


@pytest.fixture(autouse=True)
async def namespace(world: World) -> None:
    await world.registry.create("namespaces", None, {"metadata": {"name": "hotmap"}}, manager="t")


@pytest.fixture
async def running(world: World, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RecordShards]:
    """Records that are written by themselves, with short pauses."""
    monkeypatch.setattr(module, "_LULL", 0.2)
    monkeypatch.setattr(module, "_LONGEST", 1.0)
    shards = RecordShards(world.client, "hotmap", Records())
    await shards.load()
    writing = asyncio.create_task(shards.run())
    yield shards
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)


async def written(shards: RecordShards, writes: int = 1) -> None:
    async with asyncio.timeout(60):
        while shards.statistics().dirty or shards.statistics().writes < writes:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def loaded(world: World) -> RecordShards:
    """What a controller finds that comes next."""
    shards = RecordShards(world.client, "hotmap", Records())
    await shards.load()
    return shards


async def test_burst_is_written_once(world: World, running: RecordShards) -> None:
    """The first change is written at once; a thousand after it when they are all there."""
    running.records.put(record(0))
    await written(running)
    assert running.statistics().writes == 1
    for number in range(1000):
        running.records.put(record(number, "a"))
        await asyncio.sleep(0)
    await written(running, 5)
    assert running.statistics().writes == 1 + 4
    assert sorted(await world.records()) == [f"hotmap-state-{shard:02}" for shard in range(4)]


async def test_endless_burst_is_written(running: RecordShards) -> None:
    """Something always changes: every few seconds it is written what there is by then."""
    number = 0
    async with asyncio.timeout(60):
        while running.statistics().writes < 3:
            number += 1
            running.records.put(record(0, str(number)))
            await asyncio.sleep(0.01)


async def test_records_that_must_not_wait_share_writes(world: World) -> None:
    """One write is for all that were put before it; one that is written already costs none."""
    shards = await loaded(world)
    for number in range(100):
        shards.records.put(record(number))
    await asyncio.gather(*(shards.records.flush(f"uid-{number}") for number in range(100)))
    writes = shards.statistics().writes
    assert 0 < writes <= 4
    await shards.records.flush("uid-0")
    assert shards.statistics().writes == writes
    assert len((await loaded(world)).records) == 100


async def test_records_that_must_not_wait_do_after_a_failed_write(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each of thousands would wait until its own write fails."""
    shards = await loaded(world)
    _fail_after(monkeypatch, world, 0)
    for number in range(100):
        shards.records.put(record(number))
    for number in range(100):
        await shards.records.flush(f"uid-{number}")
    failures = shards.statistics().failures
    assert 0 < failures <= 4
    monkeypatch.undo()
    await shards.flush()
    assert len((await loaded(world)).records) == 100


async def test_more_records_move_to_more_shards(world: World) -> None:
    """Each is in one shard afterwards, and found by who comes next."""
    shards = await loaded(world)
    for count in (10, 300, 600, 3000):
        for number in range(count):
            shards.records.put(record(number, str(count)))
        await shards.flush()
        found = await loaded(world)
        assert len(found.records) == count
        assert all(
            found.records.get(f"uid-{item}") == record(item, str(count)) for item in range(count)
        )
        assert found.statistics().dirty == 0, "nothing is left where it was"


@pytest.mark.parametrize("kept", range(4))
async def test_crash_while_moving_records_loses_none(
    world: World, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    """Whatever was written of the move by then, none is lost, and the newer copy counts."""
    shards = await loaded(world)
    for number in range(500):
        shards.records.put(record(number, "old"))
    await shards.flush()
    for number in range(1000):
        shards.records.put(record(number, "new"))
    _fail_after(monkeypatch, world, kept)
    assert await shards.flush() is (kept == 4)
    monkeypatch.undo()
    found = await loaded(world)
    texts = await world.records()
    assert all(found.records.get(f"uid-{item}") for item in range(500))
    upper = [b64decode(text).decode() for name, text in texts.items() if name[-1] in "23"]
    moved = [found.records.get(uid) for text in upper for uid in read_shard(text)]
    assert bool(moved) == (kept > 0)
    assert all(item is not None and item.revision == "new" for item in moved)
    assert bool(found.statistics().dirty) == (kept > 0), "what was left behind goes"
    await found.flush()
    assert (await loaded(world)).statistics().dirty == 0


def _fail_after(monkeypatch: pytest.MonkeyPatch, world: World, writes: int) -> None:
    """Let the API server take so many writes of Secrets more."""
    left = writes
    for name in ("create", "update"):
        original = getattr(world.registry.admitted, name)

        async def write(*arguments: Any, original: Any = original) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise api_error(403, "no more")
            return await original(*arguments)

        monkeypatch.setattr(world.registry.admitted, name, write)


def seen(number: int, at: float, namespace: str = "shop") -> SourceChanges:
    source = ObjectKey("ConfigMap", namespace, f"app-{number}")
    return SourceChanges(source, (ObservedChange(at, "7", frozenset("a")),))


async def test_source_changes_move_with_records(world: World) -> None:
    """They fill shards too, and each is found once afterwards."""
    shards = await loaded(world)
    for number in range(100):
        shards.records.put_changes(seen(number, 1.0))
    await shards.flush()
    for number in range(400):
        shards.records.put(record(number))
    await shards.flush()
    found = await loaded(world)
    assert {change.source: change for change in found.records.changes()} == {
        item.source: item for item in (seen(number, 1.0) for number in range(100))
    }
    assert len(await world.records()) == 2
    assert found.statistics().dirty == 0


async def test_old_source_changes_are_dropped_and_count_is_bounded(world: World) -> None:
    """They expire after an hour; of very many sources the latest are kept."""
    shards = await loaded(world)
    for number in (1, 2, 1):
        shards.records.put_changes(seen(number, 10.0 * number))
    shards.records.put_changes(seen(1, 30.0))
    await shards.flush()
    found = await loaded(world)
    found.records.put_changes(seen(3, 3625.0))
    assert [change.source.name for change in found.records.changes()] == ["app-1", "app-3"]
    for number in range(5000):
        found.records.put_changes(seen(number, 3630.0))
    kept = [change.source.name for change in found.records.changes()]
    assert len(kept) == 4096
    assert kept[-1] == "app-4999"


async def test_deletions_of_used_sources_are_kept() -> None:
    """For more than an hour, without the changes before them, until the sources are not used."""
    records, used = Records(), {"app-1", "app-2", "app-3"}
    records.keep_deletions(lambda key: key.name in used)
    deleted = ObservedChange(2.0, "", frozenset("a"))
    for number in (1, 2, 3, 4):
        edited = seen(number, 1.0)
        records.put_changes(SourceChanges(edited.source, (*edited.changes, deleted)))
    records.put_changes(seen(5, 1.0))
    for at in (4000.0, 4001.0):
        records.put_changes(seen(6, at))
    kept = {change.source.name: change.changes for change in records.changes()}
    assert kept == dict.fromkeys(used, (deleted,)) | {"app-6": seen(6, 4001.0).changes}
    used.clear()
    records.put_changes(seen(6, 4002.0))
    assert [change.source.name for change in records.changes()] == ["app-6"]


async def test_thousands_of_changed_sources_push_out_none_of_another_namespace(
    world: World,
) -> None:
    """Whoever edits that many loses what is known of those."""
    shards = await loaded(world)
    shards.records.put_changes(seen(0, 10.0, namespace="quiet"))
    for number in range(5000):
        shards.records.put_changes(seen(number, 20.0))
    await shards.flush()
    kept = [change.source for change in (await loaded(world)).records.changes()]
    assert len(kept) == 4096
    assert [source.name for source in kept if source.namespace == "quiet"] == ["app-0"]


async def test_records_of_an_old_layout_do_not_return(world: World) -> None:
    """Another controller, by mistake, writes an old shard: what has moved on stays as it is."""
    shards, other = await loaded(world), await loaded(world)
    for number in range(200):
        shards.records.put(record(number, "old"))
    await shards.flush()
    await other.load()
    other.records.put(record(7, "theirs"))
    await other.flush()
    for number in range(100, 400):
        shards.records.put(record(number, "new"))
    await shards.flush()
    for known in (shards, await loaded(world)):
        assert all(
            known.records.get(f"uid-{item}") == record(item, "new") for item in range(100, 400)
        )
        assert known.records.get("uid-7") is not None


def wide(number: int, sources: int, revision: str = "") -> Record:
    """A record with so many sources, about 210 bytes each."""
    used = tuple(
        SourceRecord(
            "ConfigMap",
            f"{number}-{source}-" + "n" * 60,
            "u" * 11,
            "d" * 36,
            "42",
            "f" * 11,
            "l" * 11,
            False,
        )
        for source in range(sources)
    )
    return Record(f"uid-{number}", "kH3x", 1, used, revision=revision, namespace="shop")


async def test_record_that_is_too_large_is_left_out_and_reported(world: World) -> None:
    """6,500 sources in one record, 1.1 MiB: all others are kept, and its owner is told once."""
    told: list[tuple[str, int]] = []
    shards = RecordShards(
        world.client,
        "hotmap",
        Records(),
        on_too_large=lambda record, size: told.append((record.uid, size)),
    )
    await shards.load()
    for number in range(1, 10):
        shards.records.put(record(number))
    for content in ("first", "next"):
        shards.records.put(wide(0, 6500, content))
        assert await shards.flush()
        assert [uid for uid, size in told if size > 1 << 20] == ["uid-0"]
    assert shards.statistics().unpersisted == 1
    found = await loaded(world)
    assert all(found.records.get(f"uid-{number}") for number in range(1, 10))
    assert found.records.get("uid-0") is None
    shards.records.put(wide(0, 1))
    assert await shards.flush()
    assert shards.statistics().unpersisted == 0
    assert (await loaded(world)).records.get("uid-0") == wide(0, 1)


async def test_full_shards_leave_out_records_of_the_namespace_that_fills_them(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many small workloads of one tenant leave out no larger ones, and no changes, of others."""
    monkeypatch.setattr(module, "_SHARD_SPLIT", 2 << 10)
    monkeypatch.setattr(module, "_SHARD_AT_MOST", 4 << 10)
    told: list[str] = []
    shards = RecordShards(
        world.client, "hotmap", Records(), on_too_large=lambda each, size: told.append(each.uid)
    )
    await shards.load()
    for number in range(10):
        shards.records.put(wide(number, 2))
    for number in range(1000, 3000):
        shards.records.put(msgspec.structs.replace(record(number), namespace="crowd"))
    for number in range(10):
        shards.records.put_changes(seen(number, 1.0, namespace="quiet"))
    assert await shards.flush()
    found = await loaded(world)
    assert told
    assert len(found.records.changes()) == 10
    assert all(found.records.get(f"uid-{number}") for number in range(10))


async def test_changes_with_many_names_leave_out_no_record(world: World) -> None:
    """ConfigMaps of one tenant with 256 long data keys each fill shards; all records stay.

    The largest changes are left out instead.
    """
    names = frozenset(f"{number:03}{'k' * 250}" for number in range(256))
    told: list[str] = []
    shards = RecordShards(
        world.client, "hotmap", Records(), on_too_large=lambda each, size: told.append(each.uid)
    )
    await shards.load()
    for number in range(100):
        shards.records.put(record(number))
    changes = (ObservedChange(1.0, "7", names),)
    for number in range(600):
        key = ObjectKey("ConfigMap", "tenant", f"app-{number}")
        shards.records.put_changes(SourceChanges(key, changes))
    shards.records.put_changes(seen(1, 1.0))
    assert await shards.flush()
    assert told == []
    found = await loaded(world)
    assert all(found.records.get(f"uid-{number}") for number in range(100))
    kept = {change.source.name for change in found.records.changes()}
    assert seen(1, 1.0).source.name in kept
    assert len(kept) < 600


async def test_shards_are_split_by_bytes(world: World) -> None:
    """60 records of 50 KB are 3 MB: no Secret comes near 1 MiB, and all are found again."""
    shards = await loaded(world)
    for number in range(60):
        shards.records.put(wide(number, 240))
    assert await shards.flush()
    texts = await world.records()
    assert max(len(b64decode(text)) for text in texts.values()) < 800 << 10
    found = await loaded(world)
    assert all(found.records.get(f"uid-{number}") == wide(number, 240) for number in range(60))
    assert shards.statistics().unpersisted == 0


async def test_watched_time_is_not_written_before_what_was_observed_by_then(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that changes while shards are written is on its way still: so is the time."""
    shards = await loaded(world)
    for number in range(1000):
        shards.records.put(record(number))
    shards.records.set_watched_until(100.0)
    await shards.flush()
    first, second, *_ = (f"uid-{n}" for n in range(60) if shard_of(f"uid-{n}", 4) == 3)
    update = world.registry.admitted.update

    async def write(*arguments: Any) -> Any:
        monkeypatch.undo()
        written = await update(*arguments)
        shards.records.put(Record(second, "kH3x", 1, revision="late"))
        shards.records.set_watched_until(300.0)
        return written

    monkeypatch.setattr(world.registry.admitted, "update", write)
    shards.records.put(Record(first, "kH3x", 1, revision="new"))
    shards.records.set_watched_until(200.0)
    await shards.flush()
    found = (await loaded(world)).records
    kept = found.get(second)
    assert kept is not None
    assert (kept.revision, found.watched_until) in (("", 200.0), ("late", 300.0))
    await shards.flush()
    found = (await loaded(world)).records
    kept = found.get(second)
    assert kept is not None
    assert (kept.revision, found.watched_until) == ("late", 300.0)
    assert not shards.statistics().dirty


async def test_shard_that_cannot_be_written_does_not_stop_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A new shard is refused: every record is found all the same, and moves when it may."""
    shards = await loaded(world)
    for number in range(200):
        shards.records.put(record(number, "old"))
    await shards.flush()

    async def refuse(plural: str, namespace: str | None, name: str, obj: Any) -> None:
        if name == "hotmap-state-03":
            raise api_error(403, "no more")

    world.registry.create_guards.append(refuse)
    for number in range(1000):
        shards.records.put(record(number, "new"))
    assert not await shards.flush()
    assert shards.statistics().unpersisted > 0
    assert "hotmap-state-03: failed to write the records of " in caplog.text
    found = await loaded(world)
    assert all(found.records.get(f"uid-{item}") == record(item, "new") for item in range(1000))
    world.registry.create_guards.clear()
    assert await shards.flush()
    await shards.flush()
    assert shards.statistics().dirty == shards.statistics().unpersisted == 0
    found = await loaded(world)
    assert all(found.records.get(f"uid-{item}") == record(item, "new") for item in range(1000))
    assert found.statistics().dirty == 0, "nothing is left where it was"


@pytest.mark.parametrize(
    ("changed", "unwritten"),
    [
        pytest.param(0, "records", id="a time alone"),
        pytest.param(1, "the records of 1 workload", id="one"),
        pytest.param(2, "the records of 2 workloads", id="several"),
    ],
)
async def test_what_cannot_be_written_is_named(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    changed: int,
    unwritten: str,
) -> None:
    """Changes of sources are no workloads."""
    shards = await loaded(world)
    shards.records.put(record(3))
    await shards.flush()
    _fail_after(monkeypatch, world, 0)
    for number in range(changed):
        shards.records.put(record(number, "new"))
    shards.records.put_changes(seen(1, 1.0))
    shards.records.set_watched_until(100.0)
    assert not await shards.flush()
    assert f"hotmap-state-00: failed to write {unwritten}; retrying: " in caplog.text


async def test_state_secret_that_was_deleted_is_written_again(
    world: World, running: RecordShards, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without any change of a record."""
    monkeypatch.setattr(module, "_CHECK_EVERY", 0.02)
    running.records.put(record(1))
    await written(running)
    checking = asyncio.create_task(running.check())
    try:
        await world.registry.delete("secrets", "hotmap", "hotmap-state-00")
        await world.until(world.records, "the shard is there again")
    finally:
        checking.cancel()
        await asyncio.gather(checking, return_exceptions=True)
    assert (await loaded(world)).records.get("uid-1") == record(1)


async def test_state_restored_from_a_backup_replaces_no_newer_record(world: World) -> None:
    """What was not changed in this term is taken over."""
    first = await loaded(world)
    for number in (1, 3):
        first.records.put(record(number, "backup"))
    assert await first.flush()
    backup = (await world.registry.get("secrets", "hotmap", "hotmap-state-00"))["data"]
    shards = await loaded(world)
    shards.records.put(record(1, "newer"))
    assert await shards.flush()
    state = ("secrets", "hotmap", "hotmap-state-00")
    await world.registry.modify(*state, lambda obj: {**obj, "data": backup}, manager="velero")
    shards.records.put(record(4, "newer"))
    assert await shards.flush()
    expected = {"uid-1": "newer", "uid-3": "backup", "uid-4": "newer"}
    for each in (shards, await loaded(world)):
        assert {r.uid: r.revision for r in each.records.values()} == expected


async def test_workload_whose_state_is_too_large_gets_an_event(world: World) -> None:
    """400 optional references with long names; the workload beside it is kept."""
    references = [
        {
            "name": f"V{number}",
            "valueFrom": {
                "configMapKeyRef": {"name": f"{'n' * 200}-{number}", "key": "K", "optional": True}
            },
        }
        for number in range(400)
    ]
    spec = {"containers": [{"name": "main", "image": "app:1", "env": references}]}
    await world.workload("wide", spec)
    await world.config_map(LEVEL="info")
    await world.workload("web")
    async with world.controller() as controller:
        message = await world.event("StateNotKept")
        await world.quiet(controller)
    assert message.startswith("the record of its 400 sources has")
    [event] = await world.events("StateNotKept")
    assert event["involvedObject"]["name"] == "wide"
    assert len((await loaded(world)).records) == 1


async def test_unwritten_records_are_kept_for_the_next_term(world: World) -> None:
    """An outage ends a term before its records are written; no other leads in between."""
    shards = await loaded(world)
    shards.records.put(record(1, "a"))
    assert await shards.flush()
    shards.records.put(record(1, "b"))
    shards.records.put(record(2, "b"))
    await shards.load()
    assert {r.uid: r.revision for r in shards.records.values()} == {"uid-1": "b", "uid-2": "b"}
    assert await shards.flush()
    after = await loaded(world)
    assert {r.uid: r.revision for r in after.records.values()} == {"uid-1": "b", "uid-2": "b"}


async def test_records_of_another_term_replace_unwritten_ones(world: World) -> None:
    """Another controller led in between: what it wrote is newer, what it did not write is kept."""
    shards = await loaded(world)
    shards.records.put(record(1, "a"))
    assert await shards.flush()
    shards.records.put(record(1, "b"))
    shards.records.put(record(2, "b"))
    other = await loaded(world)
    other.records.put(record(1, "c"))
    assert await other.flush()
    await shards.load()
    assert {r.uid: r.revision for r in shards.records.values()} == {"uid-1": "c", "uid-2": "b"}


async def test_failed_load_does_not_hide_another_term(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first attempt reads the modified shard and fails at another one."""
    shards = await loaded(world)
    shards.records.put(record(1, "a"))
    assert await shards.flush()
    shards.records.put(record(1, "b"))
    other = await loaded(world)
    other.records.put(record(1, "c"))
    assert await other.flush()
    last = shards._secrets[-1]

    async def fail() -> None:
        await asyncio.sleep(0.2)
        raise api_error(500, "not now")

    with monkeypatch.context() as patched:
        patched.setattr(last, "read", fail)
        with pytest.raises(ApiError):
            await shards.load()
    await shards.load()
    assert {r.uid: r.revision for r in shards.records.values()} == {"uid-1": "c"}
