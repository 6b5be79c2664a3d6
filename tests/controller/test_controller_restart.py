"""A restart changes nothing, whatever became of the records and of the workloads meanwhile."""

from __future__ import annotations

import asyncio
import logging
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

import pytest
from tests.controller.world import DEADLINE, FOLLOW, World

from hotmap.controller import term_factory
from hotmap.controller.reconcile.executor import ClusterExecutor
from hotmap.core.decide.decision import Decision
from hotmap.core.decide.record import Outcome
from hotmap.core.errors import Forbidden
from hotmap.core.model.state import read_watched_until
from hotmap.local.apiserver.options import WriteOptions
from hotmap.local.apiserver.routes import ResourcePath


async def test_unchanged_workloads_are_not_logged(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """A restart beside thousands of workloads does not log a line for each of them."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await world.run_once()
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "hotmap.controller.report.decision_log"):
        await world.run_once()
    lines = [record for record in caplog.records if "is unchanged" in record.message]
    assert [item.levelname for item in lines] == ["DEBUG"]


async def test_restart_changes_nothing(world: World) -> None:
    """No consumer, no record and no pod is written; only how long its sources were watched."""
    await world.config_map(LEVEL="info")
    await world.workload()
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.rollout()
        await world.rolled_out()
    before = await world.get("Deployment", "web"), await world.recorded()
    writes = world.answers()
    await world.run_once()
    assert (await world.get("Deployment", "web"), await world.recorded()) == before
    written = world.answers() - writes
    assert set(written) <= {"GET", "PUT"}
    # Until when sources were watched: after the start, if it ran that long, and at the end.
    assert written["PUT"] in (1, 2)


async def test_watched_time_is_written_with_the_first_records(world: World) -> None:
    """Without it nothing would be known of what moves between a crash and the next start."""
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.config_map(LEVEL="info")
        await world.workload()
        await world.quiet(controller)

        async def watched_until() -> float | None:
            texts = (await world.records()).values()
            times = (read_watched_until(b64decode(text).decode()) for text in texts)
            return next(filter(None, times), None)

        # Sooner than it is written by the clock, in virtual time.
        assert await world.until(watched_until, "the watched time is written", within=20)


async def test_crash_between_rollout_and_record_rolls_once(world: World) -> None:
    """The template carries the current revision, so the content counts as applied."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await world.run_once()
    ((shard, text),) = (await world.records()).items()
    recorded = await world.recorded()
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        revision = await world.rollout()
        await world.rolled_out()
    assert await world.recorded() != recorded
    lost = {"data": {"state": text}}
    await world.merge("Secret", shard, lost, namespace="hotmap")
    after = await world.get("Deployment", "web")
    await world.run_once()
    assert await world.get("Deployment", "web") == after
    async with world.controller():
        await world.edit(LEVEL="trace")
        await world.rollout(after=revision)


async def test_undo_after_unrecorded_rollout_rolls_again(world: World) -> None:
    """The recorded content is restored, but the pods have the content applied in between."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await world.pod("web-1")
    await world.run_once()
    ((shard, text),) = (await world.records()).items()
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        revision = await world.rollout()
        await world.rolled_out()
    await world.merge("Secret", shard, {"data": {"state": text}}, namespace="hotmap")
    await world.edit(LEVEL="info")
    async with world.controller():
        await world.rollout(after=revision)


async def _delete(world: World, shard: str) -> None:
    await world.registry.delete("secrets", "hotmap", shard)


def _overwrite(text: bytes) -> Callable[[World, str], Awaitable[None]]:
    async def overwrite(world: World, shard: str) -> None:
        patch = {"data": {"state": b64encode(text).decode()}}
        await world.merge("Secret", shard, patch, namespace="hotmap")

    return overwrite


async def _empty(world: World, shard: str) -> None:
    await world.merge("Secret", shard, {"data": None}, namespace="hotmap")


@pytest.mark.parametrize(
    "lose",
    [
        pytest.param(_delete, id="deleted"),
        pytest.param(_empty, id="emptied"),
        pytest.param(_overwrite(b"\xff\xfe no text"), id="no text"),
        pytest.param(_overwrite(b'hotmap-state/1\n["cut of'), id="cut off"),
        pytest.param(_overwrite(b"hotmap-state/99\n{}\n"), id="another scheme"),
    ],
)
async def test_lost_records_roll_nothing(
    world: World, lose: Callable[[World, str], Awaitable[None]]
) -> None:
    """Nothing is known then, so nothing is rolled, and the records are written again."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await world.run_once()
    (shard,) = await world.records()
    await world.edit(LEVEL="debug")
    await lose(world, shard)
    await world.run_once()
    assert await world.revision() == ""
    assert set(await world.records()) == {shard}
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="trace")
        await world.rollout()


async def test_records_deleted_at_run_time_are_written_again(world: World) -> None:
    """The next write makes them again, with everything that is known."""
    await world.config_map(LEVEL="info")
    await world.workload()
    async with world.controller() as controller:
        await world.quiet(controller)
        shard = await world.until(world.records, "records are written")
        await _delete(world, next(iter(shard)))
        await world.edit(LEVEL="debug")
        await world.rollout()
        await world.rolled_out()
    assert set(shard) <= set(await world.records())
    after = await world.get("Deployment", "web")
    await world.run_once()
    assert await world.get("Deployment", "web") == after


async def test_stop_while_writing_records(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The write is cut off, and made again before the end."""
    create = world.registry.admitted.create
    cut_off = asyncio.Event()

    async def never_at_first(path: ResourcePath, obj: Any, options: WriteOptions) -> Any:
        if obj.get("type") == "hotmap.dev/state" and not cut_off.is_set():
            cut_off.set()
            await asyncio.Event().wait()
        return await create(path, obj, options)

    monkeypatch.setattr(world.registry.admitted, "create", never_at_first)
    await world.config_map(LEVEL="info")
    await world.workload()
    async with world.controller():
        await asyncio.wait_for(cut_off.wait(), DEADLINE)
    assert len(await world.records()) == 1


async def test_stop_is_bounded_while_records_cannot_be_written(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A kubelet kills it after 30 s, whatever it waits for."""

    async def never(*_: Any, **__: Any) -> NoReturn:
        await asyncio.Event().wait()
        raise AssertionError

    await world.config_map(LEVEL="info")
    await world.workload()
    async with world.controller() as controller:
        await world.quiet(controller)
        for method in ("create", "update"):
            monkeypatch.setattr(world.registry.admitted, method, never)
        stopped_at = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - stopped_at < 25
    assert "the last records are not written: no response within 10s" in caplog.text


async def test_deleted_workload_record_is_dropped(world: World) -> None:
    """Deleted while the controller runs or while it is away: its record goes too."""
    await world.config_map(LEVEL="info")
    for name in ("web", "api"):
        await world.workload(name)
    uids = {
        name: (await world.get("Deployment", name))["metadata"]["uid"] for name in ("web", "api")
    }
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.delete("Deployment", "web")
        await world.quiet(controller)
        assert controller.records.get(uids["web"]) is None
        assert controller.records.get(uids["api"]) is not None
    await world.delete("Deployment", "api")
    async with world.controller() as controller:
        await world.quiet(controller)
        assert controller.records.get(uids["api"]) is None


async def test_workload_deleted_during_its_rollout_leaves_no_record(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is deleted between our write and its answer."""
    await world.config_map(LEVEL="info")
    uid = (await world.workload())["metadata"]["uid"]
    execute = ClusterExecutor.execute

    async def delete_then_answer(executor: ClusterExecutor, decision: Decision) -> Outcome:
        outcome = await execute(executor, decision)
        if decision.starts_new_pods:
            await world.delete("Deployment", "web")

            async def gone() -> bool:
                return controller.index.consumer(decision.snapshot.consumer.key) is None

            await world.until(gone, "the deletion is seen")
        return outcome

    monkeypatch.setattr(ClusterExecutor, "execute", delete_then_answer)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.quiet(controller)
        assert controller.records.get(uid) is None
        assert not controller.decision_log.history()


async def test_pods_that_may_not_be_listed_are_reported(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decision that needs them fails, and an Event says why."""
    await world.config_map(LEVEL="info")
    await world.workload(annotations={**FOLLOW, "hotmap.dev/catch-up": "true"})

    async def refuse(*_: object, **__: object) -> NoReturn:
        raise Forbidden('pods is forbidden: User "hotmap" cannot list resource "pods"')

    monkeypatch.setattr(term_factory, "list_pods", refuse)
    async with world.controller():
        message = await world.event("Failed")
    assert "checking when its pods started; failed; retrying: pods is forbidden" in message


@pytest.mark.parametrize(
    "scope",
    [{"watch_namespaces": ("shop",)}, {"ignored_namespaces": ("bank",)}],
    ids=["one is served", "one is left out"],
)
async def test_deleted_workload_record_is_dropped_only_where_visible(
    world: World, scope: dict[str, Any]
) -> None:
    """Where it is seen to be gone, the record goes; what is out of sight may be there still."""
    uids = {}
    for namespace in ("shop", "bank"):
        await world.namespace(namespace)
        await world.config_map(LEVEL="info", namespace=namespace)
        await world.workload(namespace=namespace)
        uids[namespace] = (await world.get("Deployment", "web", namespace))["metadata"]["uid"]
    async with world.controller() as controller:
        await world.quiet(controller)
    for namespace in uids:
        await world.registry.delete("deployments", namespace, "web")
    for _ in range(2):  # also after records were written by who sees only some
        async with world.controller(**scope) as controller:
            assert controller.records.get(uids["shop"]) is None
            assert controller.records.get(uids["bank"]) is not None


async def test_lost_leadership_during_a_reconcile_is_not_an_error(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The next leader does the work, as after a process was suspended before its write."""

    async def refused() -> bool:
        return "the Lease is not held any more" in caplog.text

    await world.config_map(LEVEL="info")
    await world.workload()
    async with world.controller() as controller:
        await world.quiet(controller)
        monkeypatch.setattr(controller._leadership, "may_write", lambda: False)
        with caplog.at_level(logging.INFO, "hotmap"):
            await world.edit(LEVEL="debug")
            await world.until(refused, "it decides, and may not write")
        assert not [each for each in caplog.records if each.levelno > logging.INFO]
        monkeypatch.undo()
        await world.rollout()
