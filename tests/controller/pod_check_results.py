"""Pod checks that do not wait, and what the status shows of them."""

from __future__ import annotations

from typing import Any

import aiohttp
from tests.controller.world import World

from hotmap.controller.run import Controller
from hotmap.controller.settings import PodCheckSettings

#: Pod checks with short delays, so that tests need not wait.
SOON = PodCheckSettings(
    rate=200,
    initial_delay=0.05,
    rollout_delay=0.02,
    stalled_after=0.2,
    retried_after=1.0,
    pause=0.05,
    max_pause=0.05,
    max_pause_rolling=0.05,
)


async def status(controller: Controller, query: str = "") -> Any:
    url = f"http://127.0.0.1:{controller.port}/v1/status{query}"
    async with aiohttp.ClientSession() as http, http.get(url) as response:
        return await response.json()


async def wait_for_state(
    world: World, controller: Controller, state: str, *, name: str = "web", reason: str = ""
) -> dict[str, Any]:
    """Wait until a consumer is in a state, with these words in its reason; returns its document."""

    async def reached() -> dict[str, Any] | None:
        body = await status(controller)
        found = [workload for workload in body["workloads"] if workload["name"] == name]
        is_reached = found and found[0]["state"] == state and reason in found[0]["reason"]
        return dict(found[0]) if is_reached else None

    document: dict[str, Any] = await world.until(reached, f"{name} is {state} {reason}".strip())
    return document


async def pods_checked(world: World, controller: Controller, times: int = 1) -> None:
    async def reached() -> bool:
        return await check_count(controller) >= times

    await world.until(reached, f"pods were looked at {times} times")


async def check_count(controller: Controller) -> int:
    url = f"http://127.0.0.1:{controller.port}/metrics"
    async with aiohttp.ClientSession() as http, http.get(url) as response:
        for line in (await response.text()).splitlines():
            if line.startswith("hotmap_pod_checks_total"):
                return int(float(line.split()[1]))
    raise AssertionError("no such metric")
