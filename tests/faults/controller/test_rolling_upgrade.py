"""Replicas are replaced by those of another version, one by one, while sources are edited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from tests.support.controller_process import ControllerProcess
from tests.support.scenario import Scenario

#: Consumers of sources that are not edited.
QUIET = [f"quiet-{number:02}" for number in range(20)]
EDITS_A_SECOND = 5


@asynccontextmanager
async def _editing(scenario: Scenario) -> AsyncIterator[list[str]]:
    """Edit the ConfigMap `app` all the time; yields the values that it had."""
    values: list[str] = []

    async def edit() -> None:
        while True:
            values.append(f"edit-{len(values)}")
            await scenario.edit(LEVEL=values[-1])
            await asyncio.sleep(1 / EDITS_A_SECOND)

    editor = asyncio.create_task(edit())
    try:
        yield values
    finally:
        editor.cancel()
        await asyncio.wait([editor])


@pytest.mark.slow
async def test_rolling_upgrade_and_downgrade_lose_no_edit_and_roll_nothing_else(
    podless_scenario: Scenario,
) -> None:
    """As a Deployment does it: a new pod, ready, before an old one ends; then back again."""
    await podless_scenario.set_up()
    await podless_scenario.config_map("quiet", LEVEL="info")
    for name in QUIET:
        await podless_scenario.deployment(name, source="quiet")

    def replica(version: str) -> ControllerProcess:
        return podless_scenario.controller("--leader-elect", version=version)

    async with AsyncExitStack() as stack:
        running = [await stack.enter_async_context(replica("0.0.9")) for _ in range(2)]
        for process in running:
            await process.ready()
        await podless_scenario.wait_until_handled()
        async with _editing(podless_scenario) as values:
            for version in ("0.2.0", "0.2.0", "0.0.9", "0.0.9"):
                edits = len(values)
                newer = await stack.enter_async_context(replica(version))
                await newer.ready()
                assert await running.pop(0).stop() == 0
                running.append(newer)

                async def more_edits(edits: int = edits) -> bool:
                    return len(values) > edits + EDITS_A_SECOND

                await podless_scenario.until(more_edits, "sources are edited beside")
        # The last edit is delivered, and so is one that follows.
        await podless_scenario.check_invariants({"web": len(values), **dict.fromkeys(QUIET, 0)})
    assert len(podless_scenario.rollouts.of("web")) >= 4
    assert not [name for name in QUIET if podless_scenario.rollouts.of(name)]
