"""An API server that cannot be reached, refuses, or is away for a while."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest
from tests.controller.world import DEADLINE, World, env

from hotmap.controller.run import Controller
from hotmap.controller.settings import Settings
from hotmap.core.errors import SettingsError, Unauthorized, Unreachable
from hotmap.kube import reflector
from hotmap.kube.client import Client, Limits
from hotmap.kube.config import BearerToken


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
    await world.run_once()
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


async def test_stop_while_waiting_for_apiserver_leaves_no_task(world: World) -> None:
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

        await world.until(all_failed, "every watch has tried without success")
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


@pytest.mark.parametrize(
    ("edited", "rolled"),
    [
        pytest.param("after the pod", True, id="the pod is older than the edit"),
        pytest.param("before the pod", False, id="the pod has the edit"),
    ],
)
async def test_workload_created_during_an_outage_gets_an_edit_after_its_pods(
    world: World, monkeypatch: pytest.MonkeyPatch, edited: str, rolled: bool
) -> None:
    """It would have been adopted before the edit; both arrive when the API server is back."""
    # Time passes quickly here, so that a moment until an event arrives would look like a pause.
    monkeypatch.setattr(reflector, "CAUGHT_UP_AFTER", DEADLINE)
    await world.config_map("old", LEVEL="info")
    await world.workload("old", env("LEVEL", source="old"))
    spec = env("LEVEL")
    spec["containers"][0]["env"] += env("LEVEL", source="old")["containers"][0]["env"]
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.plane.stop()
        await asyncio.sleep(5)
        await world.config_map(LEVEL="info")
        await world.workload(spec=spec)
        if edited == "before the pod":
            await world.edit(LEVEL="debug")
            await asyncio.sleep(5)
        await world.pod("web-1", started=time.time())
        await asyncio.sleep(5)
        if edited == "after the pod":
            await world.edit(LEVEL="debug")
        await asyncio.sleep(5)
        await world.plane.start()

        async def is_known() -> bool:
            return len(controller.records) == 2

        await world.until(is_known, "the new workload is recorded")
        if rolled:  # the edit may arrive after the record
            await world.rollout("web")
        await world.quiet(controller)
    assert bool(await world.revision()) is rolled
