"""What happened while the controller was away is found out, and nothing else is done."""

from __future__ import annotations

import asyncio
import logging
import time
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

import pytest
from tests.controller.world import DEADLINE, FOLLOW, World, env

from hotmap.controller import term_factory
from hotmap.controller.reconcile.executor import ClusterExecutor
from hotmap.controller.run import Controller
from hotmap.controller.settings import Settings
from hotmap.controller.storage import keyring
from hotmap.core.decide.decide import Decision
from hotmap.core.decide.record import Outcome
from hotmap.core.errors import Forbidden, SettingsError, Unauthorized, Unreachable, api_error
from hotmap.core.model.objects import Pod
from hotmap.core.model.state import read_shard, read_watched_until
from hotmap.kube.client import Client, Limits
from hotmap.kube.config import BearerToken


async def _run_once(world: World) -> None:
    async with world.controller() as controller:
        await world.quiet(controller)


async def test_unchanged_workloads_are_not_logged(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """A restart beside thousands of workloads is no line for each of them."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await _run_once(world)
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "hotmap.controller.report.decision_log"):
        await _run_once(world)
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
    await _run_once(world)
    assert (await world.get("Deployment", "web"), await world.recorded()) == before
    written = world.answers() - writes
    assert set(written) <= {"GET", "PUT"}
    # Until when sources were watched: after the start, if it ran that long, and at the end.
    assert written["PUT"] in (1, 2)


async def test_edit_during_downtime_is_rolled(world: World) -> None:
    """The source differs from the last applied content, so the consumer is rolled at the start."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await _run_once(world)
    await world.edit(LEVEL="debug")
    async with world.controller():
        await world.rollout()
    assert len(await world.messages("RolledOut")) == 1


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


@pytest.mark.parametrize(("age", "rolled"), [(3600, True), (-60, False)])
async def test_catch_up_rolls_unseen_change(world: World, age: float, rolled: bool) -> None:
    """With `catch-up`, pods that are older than their source's last change are replaced."""
    await world.config_map(LEVEL="info")
    await world.workload(annotations={**FOLLOW, "hotmap.dev/catch-up": "true"})
    await world.pod("web-1", started=time.time() - age)
    await _run_once(world)
    assert bool(await world.revision()) is rolled


async def test_edit_and_revert_during_downtime(world: World) -> None:
    """The content equals the last applied one, so nothing is done."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await _run_once(world)
    await world.edit(LEVEL="debug")
    await world.edit(LEVEL="info")
    await _run_once(world)
    assert await world.revision() == ""


@pytest.mark.parametrize("after", [-20.0, 20.0], ids=["before the end", "after it"])
async def test_pods_that_started_between_two_controllers_are_replaced_for_a_write(
    world: World, after: float
) -> None:
    """It may have been an edit and its revert. When a term ends all is read once more, so the time
    that is not known begins there, and not with what the watch has shown last.
    """
    await world.config_map(LEVEL="info")
    await world.workload()
    async with world.controller() as controller:
        await world.quiet(controller)
        await asyncio.sleep(30)
    ended = time.time()
    await world.pod("web-1", started=ended + after)
    await asyncio.sleep(40)
    await world.merge("ConfigMap", "app", {"metadata": {"labels": {"a": "b"}}})
    async with world.controller() as controller:
        await world.quiet(controller)
        await asyncio.sleep(5)
        await world.quiet(controller)
    assert bool(await world.revision()) is (after > 0)


async def test_source_recreated_during_downtime(world: World) -> None:
    """Another object with the same content is no change, with other content it is one."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await _run_once(world)
    await world.delete("ConfigMap", "app")
    await world.config_map(LEVEL="info")
    await _run_once(world)
    assert await world.revision() == ""
    await world.delete("ConfigMap", "app")
    await world.config_map(LEVEL="debug")
    async with world.controller():
        await world.rollout()


async def test_crash_between_rollout_and_record_rolls_once(world: World) -> None:
    """The template carries the current revision, so the content counts as applied."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await _run_once(world)
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
    await _run_once(world)
    assert await world.get("Deployment", "web") == after
    async with world.controller():
        await world.edit(LEVEL="trace")
        await world.rollout(after=revision)


async def test_undo_after_unrecorded_rollout_rolls_again(world: World) -> None:
    """The recorded content is restored, but the pods have the content applied in between."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await world.pod("web-1")
    await _run_once(world)
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
    await _run_once(world)
    (shard,) = await world.records()
    await world.edit(LEVEL="debug")
    await lose(world, shard)
    await _run_once(world)
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
    await _run_once(world)
    assert await world.get("Deployment", "web") == after


async def test_stop_while_writing_records(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The write is cut off, and made again before the end."""
    create = world.registry.create
    cut_off = asyncio.Event()

    async def never_at_first(plural: str, namespace: str, obj: Any, **options: Any) -> Any:
        if obj.get("type") == "hotmap.dev/state" and not cut_off.is_set():
            cut_off.set()
            await asyncio.Event().wait()
        return await create(plural, namespace, obj, **options)

    monkeypatch.setattr(world.registry, "create", never_at_first)
    await world.config_map(LEVEL="info")
    await world.workload()
    async with world.controller():
        await asyncio.wait_for(cut_off.wait(), DEADLINE)
    assert len(await world.records()) == 1


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


async def test_deleted_key_rolls_nothing(world: World) -> None:
    """A new one is made; old fingerprints say nothing under it, so nothing is rolled."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await _run_once(world)
    old = await world.recorded()
    await world.edit(LEVEL="debug")
    await world.registry.delete("secrets", "hotmap", "hotmap-key")
    await _run_once(world)
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
    await _run_once(world)
    old = (await world.get("Secret", "hotmap-key", "hotmap"))["data"]["keys"]
    both = b64encode(b"n" * 32) + b"\n" + b64decode(old)
    patch = {"data": {"keys": b64encode(both).decode()}}
    await world.merge("Secret", "hotmap-key", patch, namespace="hotmap")
    await _run_once(world)
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
        old = (await world.get("Secret", "hotmap-key", "hotmap"))["data"]["keys"]
        await world.until(world.records, "the record is written")
        before = await _record_key(world)
        both = b64encode(b"n" * 32) + b"\n" + b64decode(old)
        patch = {"data": {"keys": b64encode(both).decode()}}
        await world.merge("Secret", "hotmap-key", patch, namespace="hotmap")

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
            old = (await world.get("Secret", "hotmap-key", "hotmap"))["data"]["keys"]
            both = b64encode(b"n" * 32) + b"\n" + b64decode(old)
            patch = {"data": {"keys": b64encode(both).decode()}}
            await world.merge("Secret", "hotmap-key", patch, namespace="hotmap")
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
        await world.until(_logs(caplog, "keeping the fingerprint keys"), "the refusal is logged")
        assert await _sources_have_keys(controller, 1)
        assert not controller.supervisor.failing()
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


async def _sources_have_keys(controller: Controller, count: int) -> bool:
    """Return whether every ConfigMap is marked under so many keys."""
    values = controller.index.sources["ConfigMap"].values()
    return bool(values) and all(len(source.marks) == count for source in values)


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
    await _run_once(world)
    patch = {"data": {"keys": b64encode(keys.encode()).decode()}}
    await world.merge("Secret", "hotmap-key", patch, namespace="hotmap")
    with pytest.raises(SettingsError) as caught:
        await _run_once(world)
    text = str(caught.value)
    assert text.startswith("Secret hotmap/hotmap-key has no valid key under 'keys'; delete it")
    assert "c2hvcnQ" not in text


async def test_unreachable_apiserver_is_reported(world: World) -> None:
    """The error names the server; nothing is left running."""
    await world.plane.stop()
    async with Client(world.plane.config(), limits=Limits(attempts=1)) as client:
        with pytest.raises(Unreachable, match=f"127.0.0.1:{world.plane.port}"):
            await Controller(client, Settings(listen=None)).__aenter__()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_rejected_token_is_reported(world: World) -> None:
    """The server's word is passed on; nothing is left running."""
    config = world.plane.config()._replace(credentials=BearerToken("expired"))
    async with Client(config) as client:
        with pytest.raises(Unauthorized):
            await Controller(client, Settings(listen=None)).__aenter__()
    await world.plane.stop()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_port_in_use_error_names_the_flag(world: World) -> None:
    """The sentence names the address and the flag."""
    async with world.controller() as first:
        settings = Settings(listen=("127.0.0.1", first.port))
        with pytest.raises(SettingsError, match=f"127.0.0.1:{first.port}.*--listen"):
            async with Controller(world.client, settings):
                pass


async def test_start_waits_for_forbidden_watch(world: World) -> None:
    """It waits, says for what, acts on nothing, and begins when it may."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await _run_once(world)
    await world.edit(LEVEL="debug")
    world.registry.withheld.add("secrets")
    controller = world.controller()
    starting = asyncio.create_task(controller.__aenter__())

    async def refused() -> str:
        return " ".join(
            f"{statistic.resource}: {statistic.last_error}"
            for statistic in controller.reflector_statistics()
            if statistic.last_error
        )

    assert "secrets is forbidden" in await world.until(refused, "the watch is refused")
    assert not starting.done()
    assert await world.revision() == ""
    world.registry.withheld.clear()
    await starting
    await world.rollout()
    await controller.__aexit__()


async def test_stop_while_waiting_for_apiserver(world: World) -> None:
    """A start that is cancelled in its middle leaves no task behind."""
    world.registry.withheld.add("secrets")
    controller = world.controller()
    starting = asyncio.create_task(controller.__aenter__())
    store = controller.index.consumers["Deployment"]
    await asyncio.wait_for(store.synced.wait(), DEADLINE)
    starting.cancel()
    await asyncio.wait([starting])
    await world.plane.stop()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_outage_is_logged_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """One line says that the server is gone, whatever is watched there, and one that it is back."""
    caplog.set_level(logging.INFO)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.plane.stop()

        async def all_failed() -> bool:
            watches = controller.reflector_statistics()
            return all("cannot reach" in watch.last_error for watch in watches)

        await world.until(all_failed, "every watch has tried in vain")
        await world.plane.start()
        await world.config_map(LEVEL="info")

        async def back() -> bool:
            watches = {
                statistic.resource: statistic for statistic in controller.reflector_statistics()
            }
            return not watches["configmaps"].last_error

        await world.until(back, "a watch brings something")
    server = world.client.server
    told = [record for record in caplog.records if server in record.message]
    assert [item.levelname for item in told] == ["WARNING", "INFO"]
    assert told[1].message == f"{server} is reachable again"


async def test_apiserver_outage_is_survived(world: World) -> None:
    """Edits of that time are found when it is back; those that were taken back are not acted on."""
    await world.config_map("app", LEVEL="info")
    await world.config_map("extra", LEVEL="info")
    await world.workload("web")
    await world.workload("api", env("LEVEL", source="extra"))
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.plane.stop()
        await world.edit("app", LEVEL="debug")
        await world.edit("extra", LEVEL="debug")
        await world.edit("extra", LEVEL="info")
        await world.plane.start()
        await world.rollout("web")
        await world.quiet(controller)
    assert await world.revision("api") == ""


def _every_key(image: str = "app:1") -> dict[str, object]:
    """A pod spec that reads every data key of app into its environment."""
    container = {"name": "main", "image": image, "envFrom": [{"configMapRef": {"name": "app"}}]}
    return {"containers": [container]}


async def test_edit_and_removal_while_down_are_not_proven_by_the_edit(world: World) -> None:
    """The pods started after the edit and before the removal, which left no time behind."""
    now = time.time()
    world.registry.ahead = -600
    await world.config_map(LEVEL="info", EXTRA="on")
    world.registry.ahead = 0.0
    await world.workload(spec=_every_key())
    await world.pod("web-1", started=now - 500)
    await _run_once(world)
    world.registry.ahead = -60
    await world.edit(LEVEL="debug")
    world.registry.ahead = 0.0
    await world.delete("Pod", "web-1")
    await world.merge("Deployment", "web", {"spec": {"template": {"spec": _every_key("app:2")}}})
    await world.rolled_out()
    await world.pod("web-2", started=now - 30)
    await world.edit(EXTRA=None)
    async with world.controller():
        await world.rollout()


async def test_revert_while_down_rolls_a_pod_that_started_in_between(world: World) -> None:
    """The content is what was recorded, and one pod has another."""
    await world.config_map(LEVEL="info")
    await world.workload(replicas=2)
    await world.pod("web-1")
    await _run_once(world)
    await world.edit(LEVEL="debug")
    await world.pod("web-2", started=time.time())
    await world.edit(LEVEL="info")
    async with world.controller():
        await world.rollout()


async def test_revert_while_down_is_remembered_until_pods_could_be_listed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A controller that may not list pods decides nothing, so the next one has to know."""
    await world.config_map(LEVEL="info")
    await world.workload(replicas=2)
    await world.pod("web-1")
    await _run_once(world)
    await world.edit(LEVEL="debug")
    await world.pod("web-2", started=time.time())
    await world.edit(LEVEL="info")
    await asyncio.sleep(10)  # so that pods are listed at once
    attempts = 0

    async def refused(*arguments: object) -> list[Pod]:
        nonlocal attempts
        attempts += 1
        raise api_error(403, "pods is forbidden")

    async def is_refused() -> bool:
        return attempts > 0

    with monkeypatch.context() as patches:
        patches.setattr(term_factory, "list_pods", refused)
        async with world.controller():
            await world.until(is_refused, "pods cannot be listed")
            await asyncio.sleep(1)
    async with world.controller():
        await world.rollout()


async def test_revert_while_down_rolls_no_workload_where_no_pod_started(world: World) -> None:
    """Nothing holds other content."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await world.pod("web-1")
    await _run_once(world)
    await world.edit(LEVEL="debug")
    await world.edit(LEVEL="info")
    async with world.controller() as controller:
        await world.quiet(controller)
        await asyncio.sleep(3)  # a pod may be on its way until then
        await world.quiet(controller)
        assert await world.revision() == ""


async def test_undo_finds_pods_that_missed_an_edit_of_a_key_unused_meanwhile(world: World) -> None:
    """The template at the edit did not use the data key; pods from before it do, and remain."""
    world.registry.ahead = -60.0
    await world.config_map(LEVEL="info", MODE="fast")
    world.registry.ahead = 0.0
    await world.workload(spec=env("LEVEL", "MODE"))
    await world.pod("web-1", started=time.time() - 30)

    async def use(*keys: str) -> None:
        template = {"spec": env(*keys)}
        await world.merge("Deployment", "web", {"spec": {"template": template, "paused": True}})

    async with world.controller() as controller:
        await world.quiet(controller)
        await use("LEVEL")
        await world.quiet(controller)
        await world.edit(MODE="slow")
        await world.quiet(controller)
        assert await world.revision() == ""
    await use("LEVEL", "MODE")
    await world.merge("Deployment", "web", {"spec": {"paused": False}})
    await world.rolled_out()
    async with world.controller() as controller:
        await world.rollout()
        await world.quiet(controller)  # the decision is logged after its patch
        (entries,) = controller.decision_log.history().values()
        assert "adopt" not in [entry.verdict for entry in entries]


async def test_revert_while_not_followed_rolls_a_pod_that_started_in_between(world: World) -> None:
    """The controller that saw the edits ends before the workload is followed again."""
    await world.config_map(LEVEL="info")
    await world.workload(replicas=2)
    await world.pod("web-1")
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.annotate("web", follow="off")
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.pod("web-2", started=time.time())
        await world.edit(LEVEL="info")
        await world.quiet(controller)
        # So that only what it has stored shows when that was.
        await asyncio.sleep(90)
        await world.quiet(controller)
    async with world.controller() as controller:
        await world.quiet(controller)
        assert await world.revision() == ""
        await world.annotate("web", follow="auto")
        await world.rollout()
