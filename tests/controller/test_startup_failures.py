"""A controller waits for an unavailable API server, logs that, and starts as soon as possible."""

from __future__ import annotations

import asyncio
import logging

import pytest
from tests.controller.world import World

from hotmap.controller import startup
from hotmap.controller.run import Controller
from hotmap.controller.settings import Settings
from hotmap.core.errors import Forbidden, Unavailable, Unreachable
from hotmap.kube.client import Client, Limits
from hotmap.kube.config import BearerToken

#: One try for each call, so that what is tried again is the controller's doing.
ONCE = Limits(attempts=1)


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short pauses between attempts."""
    monkeypatch.setattr(startup, "_PAUSES", (0.01, 0.05))


@pytest.mark.parametrize("code", [429, 500, 503])
async def test_unreadable_key_is_retried(world: World, code: int) -> None:
    """In a pod it asks until it gets an answer; readiness says meanwhile what it waits for."""
    world.plane.fail("get", "secrets", code=code, times=2)
    async with (
        Client(world.plane.config(), limits=ONCE) as client,
        Controller(client, Settings(patient=True, listen=None)) as controller,
    ):
        assert controller.queue_statistics()


async def test_interactive_start_fails_at_once(world: World) -> None:
    """Without a pod around it the start fails with the server's words."""
    world.plane.fail("get", "secrets", code=503)
    async with Client(world.plane.config(), limits=ONCE) as client:
        with pytest.raises(Unavailable, match="not now"):
            await Controller(client, Settings(listen=None)).__aenter__()


@pytest.mark.parametrize("code", [429, 500, 401])
async def test_unreadable_records_are_retried(
    world: World, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Who leads waits for them, and does not end or act without."""
    await world.config_map(LEVEL="info")
    await world.workload()
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        before = await world.rollout()
        await world.quiet(controller)
    world.plane.fail("get", "secrets", code=code, times=200, name="hotmap-state")
    async with Client(world.plane.config(), limits=ONCE) as client:
        again = Controller(client, Settings(listen=None))
        starting = asyncio.create_task(again.__aenter__())

        async def is_reported() -> bool:
            return "the records cannot be read: " in caplog.text

        await world.until(is_reported, "the log says what it waits for")
        assert not starting.done()
        world.plane.failures.clear()
        await starting
        await world.edit(LEVEL="trace")
        await world.rollout(after=before)
        await again.__aexit__()
    said = [record for record in caplog.records if "cannot be read" in record.message]
    assert [record.levelno for record in said] == [logging.WARNING]


async def test_missing_permission_ends_the_process(world: World) -> None:
    """Waiting does not help: it ends with the server's words."""
    world.plane.fail("get", "secrets", code=403, name="hotmap-state")
    with pytest.raises(Forbidden, match="not now"):
        await world.controller().__aenter__()


async def test_permission_lost_on_standby_ends_the_process(world: World) -> None:
    """A term that cannot begin ends the process, which is started again by its kubelet."""
    first = await world.controller(identity="first").__aenter__()
    async with world.controller(identity="second") as second:
        world.plane.fail("get", "secrets", code=403, name="hotmap-state")
        await first.__aexit__()
        with pytest.raises(Forbidden):
            async with asyncio.timeout(60):
                await second.run()


async def test_user_may_take_longer_to_log_in_than_the_server_to_respond(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a credential plugin opens a browser."""
    monkeypatch.setattr(startup, "_RESPONSE_TIMEOUT", 0.5)
    monkeypatch.setattr(startup, "_LATE", 0.1)

    class SlowLogin(BearerToken):
        async def prepare(self) -> None:
            await asyncio.sleep(0 if self.authorization() else 1)
            self._token = "test"

    config = world.plane.config()._replace(credentials=SlowLogin())
    async with Client(config) as client:
        await startup.wait_for_apiserver(client)


async def test_silent_apiserver_is_reported(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is named after a second, and given up after ten."""
    monkeypatch.setattr(startup, "_LATE", 0.05)
    monkeypatch.setattr(startup, "_RESPONSE_TIMEOUT", 0.2)

    async def ignore(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()  # until the other side gives up
        writer.close()

    silent = await asyncio.start_server(ignore, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    config = world.plane.config()._replace(server=f"http://127.0.0.1:{port}")
    async with Client(config) as client:
        with pytest.raises(Unreachable, match=f"127.0.0.1:{port} accepts connections, but did"):
            await Controller(client, Settings(listen=None)).__aenter__()
    assert f"no response from http://127.0.0.1:{port} yet; still waiting" in caplog.text
    silent.close()
    await silent.wait_closed()
