"""Other programs hear over HTTP of what changed, through failures of theirs and of ours."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from tests.support.story import CANARY, Story

pytestmark = pytest.mark.usefixtures("receiver")


class Receiver:
    """An HTTP server whose bodies a story searches for what must not be told."""

    def __init__(self, told: list[str]) -> None:
        self.bodies = told
        #: Statuses of the next answers; 200 after them.
        self.answers: list[int] = []
        self.url = ""

    async def take(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.text())
        return web.Response(status=self.answers.pop(0) if self.answers else 200)


@pytest.fixture
async def receiver(crowd: Story) -> AsyncIterator[Receiver]:
    receiver = Receiver(crowd.told)
    app = web.Application()
    app.add_routes([web.post("/{path}", receiver.take)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
    yield receiver
    await runner.cleanup()


async def test_rollouts_for_a_secret_are_alerted(crowd: Story, receiver: Receiver) -> None:
    """The alert names Secret and consumer, and no value; a receiver that fails delays nobody."""
    await crowd.set_up()
    receiver.answers = [500, 500]
    alerts: dict[str, Any] = {"ALERT_ON_RELOAD": "true", "ALERT_WEBHOOK_URL": receiver.url}
    async with crowd.controller("--log-format=json", **alerts) as controller:
        await controller.ready()
        await crowd.arrived()
        await crowd.edit_secret("second")
        await crowd.rolled()

        async def alerted() -> bool:
            return any("login of type SECRET" in body for body in receiver.bodies)

        await crowd.until(alerted, "the alert arrives")
        await crowd.ends_well({"web": 1})
    lines = controller.log().splitlines()
    assert all(json.loads(line)["level"] for line in lines)


async def test_change_is_sent_after_crash(crowd: Story, receiver: Receiver) -> None:
    """What changed while it lay dead is told at its next start, once; nothing is rolled."""
    await crowd.set_up()
    flag = f"--webhook-url={receiver.url}"
    async with crowd.controller(flag) as controller:
        await controller.ready()
        await crowd.until(crowd.state_secrets, "records are written")
        await crowd.edit(CANARY, LEVEL="1")

        async def told() -> bool:
            return len(receiver.bodies) == 1

        await crowd.until(told, "the change is told")

        async def recorded() -> bool:
            return "hotmap_record_shards_dirty 0.0" in await controller.get("/metrics")

        await crowd.until(recorded, "records say so")
        await controller.kill()
    await crowd.edit_secret("second")
    async with crowd.controller(flag) as controller:
        await controller.ready()

        async def told_again() -> bool:
            return len(receiver.bodies) == 2

        await crowd.until(told_again, "what was missed is told")
        assert await controller.stop() == 0
    seen, missed = map(json.loads, receiver.bodies)
    assert (seen["name"], seen["missed"], seen["dataKeys"]) == (CANARY, False, ["LEVEL"])
    assert (missed["name"], missed["missed"], missed["dataKeys"]) == ("login", True, [])
    assert crowd.rollouts.of("web") == crowd.rollouts.of(CANARY) == []
