"""Other programs hear over HTTP of what changed, through failures of theirs and of ours."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from tests.support.scenario import CANARY, Scenario

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("receiver")]


class Receiver:
    """An HTTP server whose received bodies a scenario searches for values of Secrets."""

    def __init__(self, printed: list[str]) -> None:
        self.bodies = printed
        #: Statuses of the next answers; 200 after them.
        self.answers: list[int] = []
        self.url = ""

    async def take(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.text())
        return web.Response(status=self.answers.pop(0) if self.answers else 200)


@pytest.fixture
async def receiver(podless_scenario: Scenario) -> AsyncIterator[Receiver]:
    receiver = Receiver(podless_scenario.printed)
    app = web.Application()
    app.add_routes([web.post("/{path}", receiver.take)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
    yield receiver
    await runner.cleanup()


async def test_rollouts_for_a_secret_are_alerted(
    podless_scenario: Scenario, receiver: Receiver
) -> None:
    """The alert names Secret and consumer, and no value; a receiver that fails causes no delay."""
    await podless_scenario.set_up()
    receiver.answers = [500, 500]
    alerts: dict[str, Any] = {
        "ALERT_ON_RELOAD": "true",
        "ALERT_WEBHOOK_URL": receiver.url,
        "ALERT_SINK": "slack",
    }
    async with podless_scenario.started_controller("--log-format=json", **alerts) as controller:
        await podless_scenario.edit_secret("second")
        await podless_scenario.wait_for_rollouts()

        async def alerted() -> bool:
            return any(
                "login of type SECRET" in json.loads(body)["attachments"][0]["fallback"]
                for body in receiver.bodies
            )

        await podless_scenario.until(alerted, "the alert arrives")
        await podless_scenario.check_invariants({"web": 1})
    lines = controller.log().splitlines()
    assert all(json.loads(line)["level"] for line in lines)


async def test_change_is_sent_after_crash(podless_scenario: Scenario, receiver: Receiver) -> None:
    """What changed while it lay dead is told at its next start, once; nothing is rolled."""
    await podless_scenario.set_up()
    flag = f"--webhook-url={receiver.url}"
    async with podless_scenario.controller(flag) as controller:
        await controller.ready()
        await podless_scenario.until(podless_scenario.state_secrets, "records are written")
        await podless_scenario.edit(CANARY, LEVEL="1")

        async def is_reported() -> bool:
            return len(receiver.bodies) == 1

        await podless_scenario.until(is_reported, "the change is told")

        async def recorded() -> bool:
            return "hotmap_record_shards_dirty 0.0" in await controller.get("/metrics")

        await podless_scenario.until(recorded, "records say so")
        await controller.kill()
    await podless_scenario.edit_secret("second")
    async with podless_scenario.controller(flag) as controller:
        await controller.ready()

        async def told_again() -> bool:
            return len(receiver.bodies) == 2

        await podless_scenario.until(told_again, "what was missed is told")
        assert await controller.stop() == 0
    seen, missed = map(json.loads, receiver.bodies)
    assert (seen["name"], seen["missed"], seen["dataKeys"]) == (CANARY, False, ["LEVEL"])
    assert (missed["name"], missed["missed"], missed["dataKeys"]) == ("login", True, [])
    assert podless_scenario.rollouts.of("web") == podless_scenario.rollouts.of(CANARY) == []
