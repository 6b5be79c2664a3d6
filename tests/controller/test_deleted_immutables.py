"""Looks at the pods of immutable sources that were deleted, until there are none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

import msgspec
from tests.support.objects import config_map, sources

from hotmap.controller.storage.records import Records
from hotmap.controller.watch.deleted_immutables import DeletedImmutables
from hotmap.core.decide.assessment import OtherUse
from hotmap.core.errors import Unreachable
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.source import Source
from hotmap.core.model.state import ImmutableUse, Record


class Pods:
    """The pods of a namespace, by the source that they use."""

    def __init__(self) -> None:
        self.users: dict[ObjectKey, str] = {}
        self.is_away = False
        #: For how many sources they were searched, each time; and how long that takes, in seconds.
        self.searches: list[int] = []
        self.takes = 0.01

    async def find(
        self, asked: Collection[ObjectKey], own: Collection[str]
    ) -> dict[ObjectKey, OtherUse | None]:
        self.searches.append(len(asked))
        await asyncio.sleep(self.takes)
        if self.is_away:
            raise Unreachable("the API server is away")
        found = {key: self.users.get(key) for key in asked}
        return {key: OtherUse(pod, 1.0) if pod else None for key, pod in found.items()}


def source(name: str, *, immutable: bool = True, uid: str = "uid-1") -> Source:
    (made,) = sources(config_map(name, uid=uid, immutable=immutable)).values()
    return made


def following(pods: Pods, records: Records | None = None) -> DeletedImmutables:
    return DeletedImmutables(
        pods.find, Records() if records is None else records, is_replaced=lambda key, uid: True
    )


@asynccontextmanager
async def searching(deleted: DeletedImmutables) -> AsyncIterator[None]:
    task = asyncio.create_task(deleted.run())
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def delete(deleted: DeletedImmutables, name: str, pods: Pods | None = None) -> ObjectKey:
    """Delete an immutable source, which a pod of `pods` uses."""
    old = source(name)
    if pods is not None:
        pods.users[old.key] = f"{name}-1"
    deleted.source_changed(old.key, old, None)
    return old.key


async def test_sources_are_followed_until_a_moment_without_pods() -> None:
    pods = Pods()
    deleted = following(pods)
    async with searching(deleted):
        key, unused = delete(deleted, "app", pods), delete(deleted, "old")
        assert deleted.may_be_kept(unused)
        await asyncio.sleep(0.3)
        assert not deleted.may_be_kept(unused)
        await asyncio.sleep(3)
        assert deleted.may_be_kept(key)
        assert len(pods.searches) == 4
        del pods.users[key]
        await asyncio.sleep(1.5)
        assert not deleted.may_be_kept(key)
        count = len(pods.searches)
        await asyncio.sleep(60)
        assert len(pods.searches) == count


async def test_only_immutable_sources_that_are_deleted_are_followed() -> None:
    deleted = following(Pods())
    changes = [
        (None, source("new")),
        (source("edited", immutable=False), source("edited")),
        (source("labelled"), source("labelled")),
        (source("mutable", immutable=False), None),
    ]
    for old, new in changes:
        key = (old or new or source("")).key
        deleted.source_changed(key, old, new)
        assert not deleted.may_be_kept(key)
    old = source("replaced")
    deleted.source_changed(old.key, old, source("replaced", uid="uid-2"))
    assert deleted.may_be_kept(old.key)


async def test_searches_become_rare_and_end() -> None:
    """Pods may go on using a source that was deleted forever."""
    pods = Pods()
    deleted = following(pods)
    async with searching(deleted):
        key = delete(deleted, "app", pods)
        await asyncio.sleep(599)
        assert deleted.may_be_kept(key)
        assert 100 <= len(pods.searches) <= 120
        await asyncio.sleep(30)
        assert not deleted.may_be_kept(key)
        count = len(pods.searches)
        await asyncio.sleep(600)
        assert len(pods.searches) == count


async def test_failed_searches_show_nothing_and_are_repeated() -> None:
    pods = Pods()
    deleted = following(pods)
    pods.is_away = True
    async with searching(deleted):
        key = delete(deleted, "app")
        await asyncio.sleep(5)
        assert deleted.may_be_kept(key)
        assert 1 < len(pods.searches) < 50
        pods.is_away = False
        await asyncio.sleep(30)
        assert not deleted.may_be_kept(key)


async def test_a_decision_that_finds_no_pods_counts_too() -> None:
    """But not for a consumer that has pods of its own, nor for one that is deleted meanwhile."""
    pods = Pods()
    deleted = following(pods)
    key = delete(deleted, "app")
    await deleted.find_uses([key], ["pod-uid"])
    assert deleted.may_be_kept(key)
    pods.takes = 1.0
    reading = asyncio.create_task(deleted.find_uses([key], ()))
    await asyncio.sleep(0.1)
    delete(deleted, "app")
    await reading
    assert deleted.may_be_kept(key)
    await deleted.find_uses([key], ())
    assert not deleted.may_be_kept(key)


async def test_long_searches_are_rare() -> None:
    """A namespace of 10,000 pods, in which an immutable source is deleted each second."""
    pods = Pods()
    pods.takes = 2.0
    deleted = following(pods)
    async with searching(deleted):
        for number in range(200):
            delete(deleted, f"app-{number}")
            await asyncio.sleep(1)
    assert len(pods.searches) == 5


async def test_many_deleted_sources_displace_none_of_another_namespace() -> None:
    pods = Pods()
    deleted = following(pods)
    other = msgspec.structs.replace(source("app"), key=ObjectKey("ConfigMap", "other", "app"))
    deleted.source_changed(other.key, other, None)
    for number in range(3_000):
        delete(deleted, f"app-{number}", pods)
    assert deleted.may_be_kept(other.key)


async def test_many_deleted_sources_are_bounded_and_searched_together() -> None:
    """3,000 of one namespace: one search at a time, for the last ones."""
    pods = Pods()
    deleted = following(pods)
    keys = [delete(deleted, f"app-{number}", pods) for number in range(3_000)]
    async with searching(deleted):
        await asyncio.sleep(2.5)
    assert pods.searches == [256] * 3
    assert [key for key in keys if deleted.may_be_kept(key)] == keys[-256:]


def retire(records: Records, deleted: DeletedImmutables, uid: str, *names: str) -> None:
    """Delete a consumer that used immutable sources."""
    uses = tuple(ImmutableUse("ConfigMap", name, "uid-1") for name in names)
    records.put(Record(uid, "key", 1, namespace="shop", immutable_uses=uses))
    kept = records.forget(uid)
    assert kept is not None
    deleted.consumer_deleted(kept)


def stored(records: Records) -> list[str]:
    """List the uids of deleted consumers of which something is stored."""
    return [record.uid for record in records.in_shards((0,), 1)]


async def test_sources_of_deleted_consumers_are_stored_until_a_moment_without_pods() -> None:
    pods, records = Pods(), Records()
    deleted = following(pods, records)
    key = source("app").key
    pods.users[key] = "app-1"
    async with searching(deleted):
        retire(records, deleted, "web", "app", "other")
        await asyncio.sleep(3)
        assert deleted.may_be_kept(key)
        assert records.served_for_deleted(key, "uid-2")
        assert not records.served_for_deleted(source("other").key, "uid-2")
        assert records.get("web") is None
        assert stored(records) == ["web"]
        del pods.users[key]
        await asyncio.sleep(2)
        assert not deleted.may_be_kept(key)
        assert stored(records) == []


async def test_sources_of_deleted_consumers_are_stored_for_a_bounded_time() -> None:
    """Most are not deleted with their consumer, and then their pods are not searched."""
    pods, records = Pods(), Records()
    deleted = DeletedImmutables(pods.find, records, is_replaced=lambda key, uid: False)
    async with searching(deleted):
        for number in range(300):
            retire(records, deleted, f"web-{number}", "app")
        assert len(stored(records)) == 256
        await asyncio.sleep(500)
        retire(records, deleted, "late", "app")
        await asyncio.sleep(200)
        assert stored(records) == ["late"]
        await asyncio.sleep(1100)
        assert stored(records) == []
    assert pods.searches == []


async def test_sources_in_records_that_were_deleted_before_the_start_are_followed() -> None:
    pods, records = Pods(), Records()
    deleted = following(pods, records)
    key = source("app").key
    pods.users[key] = "app-1"
    use = ImmutableUse("ConfigMap", "app", "uid-1")
    records.put(Record("web", "key", 1, namespace="shop", immutable_uses=(use,)))
    async with searching(deleted):
        deleted.begin()
        await asyncio.sleep(3)
        assert deleted.may_be_kept(key)
        assert len(pods.searches) == 3
