"""Shadow mode: hotmap decides beside a running Reloader, writes nothing, and logs differences."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import pytest
from tests.controller.pod_check_results import SOON
from tests.controller.world import SETTLE, World, env

from hotmap.controller.run import Controller
from hotmap.controller.settings import Settings
from hotmap.core.policy.policy import Defaults
from hotmap.core.reloader.annotations import DialectSettings
from hotmap.core.reloader.patch import FIELD_MANAGERS

AUTO = {"reloader.stakater.com/auto": "true"}
VARIABLE = "STAKATER_APP_CONFIGMAP"


def shadow(world: World) -> Controller:
    dialect = DialectSettings(compares=True)
    return Controller(
        world.client,
        Settings(
            defaults=Defaults(settle=SETTLE, settle_max=1.0, dialect=dialect),
            shadow=True,
            listen=("127.0.0.1", 0),
            pod_checks=SOON,
        ),
    )


@pytest.fixture(autouse=True)
def listening(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "hotmap.controller.shadow")


def log_messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the shadow has told; complete when the controller has ended."""
    return [
        record.message for record in caplog.records if record.name == "hotmap.controller.shadow"
    ]


async def reloader_rolls(world: World, digest: str, *, manager: str = "Reloader") -> None:
    """What Reloader does when a source changes, and a client that restores that."""

    def mark(obj: dict[str, Any]) -> dict[str, Any]:
        (container,) = obj["spec"]["template"]["spec"]["containers"]
        others = [e for e in container["env"] if e["name"] != VARIABLE]
        container["env"] = [{"name": VARIABLE, "value": digest}, *others]
        return obj

    await world.registry.modify("deployments", "default", "web", mark, manager=manager)


def decided(running: Controller) -> bool:
    """Return whether hotmap has decided on a rollout."""
    return any(
        entry.actions for entries in running.decision_log.history().values() for entry in entries
    )


async def until_decided(world: World, running: Controller) -> None:
    async def done() -> bool:
        return decided(running)

    await world.until(done, "hotmap has decided")


async def test_nothing_is_written(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """No key, no record, no Event, no patch; rights to read are enough."""
    await world.config_map(LEVEL="info")
    await world.workload(annotations=AUTO)
    async with shadow(world) as running:
        await world.quiet(running)
        await world.edit(LEVEL="debug")
        await until_decided(world, running)
        await world.quiet(running)
    answers = world.answers()
    assert {method for method in answers if answers[method]} <= {"GET"}
    assert (await world.registry.list("secrets", "hotmap")).items == []
    assert log_messages(caplog) == [
        "Deployment default/web: Reloader does nothing; hotmap: ConfigMap default/app LEVEL "
        "changed (containers[main].env[LEVEL]): rolling out",
        "shadow: 0 agreed, 1 differed",
    ]


@pytest.mark.parametrize("first", ["Reloader", "hotmap"])
async def test_equal_rollouts_are_not_a_difference(
    world: World, caplog: pytest.LogCaptureFixture, first: str
) -> None:
    """Whichever is first: hotmap does not treat Reloader's write as its own."""
    await world.config_map(LEVEL="info")
    await world.workload(annotations=AUTO)
    async with shadow(world) as running:
        await world.quiet(running)
        for number, level in enumerate(("debug", "warn"), start=1):
            before = _rollouts(running)
            await world.edit(LEVEL=level)
            if first == "Reloader":
                await reloader_rolls(world, str(number))

            async def decided_again(before: int = before) -> bool:
                return _rollouts(running) > before

            await world.until(decided_again, "hotmap has decided")
            if first == "hotmap":
                await reloader_rolls(world, str(number))
            await world.rolled_out()
            await world.quiet(running)
    assert log_messages(caplog) == ["shadow: 1 agreed, 0 differed"]


async def test_replacement_of_older_pods_is_not_a_difference(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """The pods of Reloader's rollout have no revision, and may start in the second of the edit."""
    await world.config_map(LEVEL="info")
    await world.workload(annotations=AUTO)
    await world.pod("web-1")
    async with shadow(world) as running:
        await world.quiet(running)
        await world.edit(LEVEL="debug")
        await reloader_rolls(world, "1")
        await world.delete("Pod", "web-1")
        await world.pod("web-2", started=time.time() - 1)
        await until_decided(world, running)
        await world.rolled_out()

        async def heals() -> bool:
            return _rollouts(running) > 1

        await world.until(heals, "older pods would be replaced")
        await world.quiet(running)
    assert log_messages(caplog) == ["shadow: 1 agreed, 0 differed"]


def _rollouts(running: Controller) -> int:
    """Count the rollouts that were decided; those that read the same are one entry."""
    return sum(
        entry.times
        for entries in running.decision_log.history().values()
        for entry in entries
        if "rollout" in entry.actions
    )


async def test_rollout_by_reloader_alone_is_logged_with_the_reason(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """A data key that is not used: Reloader rolls, hotmap does not, and says why."""
    await world.config_map(LEVEL="info", COLOUR="red")
    await world.workload(spec=env("LEVEL"), annotations=AUTO)
    async with shadow(world) as running:
        await world.quiet(running)
        await world.edit(COLOUR="blue")
        await reloader_rolls(world, "1")
        await world.rolled_out()
        await world.quiet(running)
    assert log_messages(caplog) == [
        "Deployment default/web: Reloader rolls it out for STAKATER_APP_CONFIGMAP; hotmap does "
        "not: ConfigMap default/app COLOUR changed, but is not used",
        "shadow: 0 agreed, 1 differed",
    ]


async def test_runs_of_jobs_are_not_compared(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Reloader leaves no mark on a CronJob and a Job."""
    await world.config_map(LEVEL="info")
    await world.cron_job(annotations=AUTO | {"hotmap.dev/on-change": "run-now"})
    await world.job(annotations=AUTO | {"hotmap.dev/on-change": "recreate"})
    async with shadow(world) as running:
        await world.quiet(running)
        await world.edit(LEVEL="debug")
        await until_decided(world, running)
        await world.quiet(running)
    assert log_messages(caplog) == ["shadow: 0 agreed, 0 differed"]


@pytest.mark.parametrize("manager", FIELD_MANAGERS)
async def test_edits_in_a_row_are_more_rollouts_for_reloader(
    world: World, caplog: pytest.LogCaptureFixture, manager: str
) -> None:
    """Edits in a row, perhaps in one second, are one rollout for hotmap."""
    await world.config_map(LEVEL="info")
    await world.workload(annotations=AUTO)
    async with shadow(world) as running:
        await world.quiet(running)
        for number in range(3):
            await world.edit(LEVEL=f"level {number}")
            await reloader_rolls(world, str(number), manager=manager)
        await until_decided(world, running)
        await world.rolled_out()
        await world.quiet(running)
    assert log_messages(caplog) == [
        "Deployment default/web: Reloader rolls it out 3 times for STAKATER_APP_CONFIGMAP; hotmap "
        "once: ConfigMap default/app LEVEL changed (containers[main].env[LEVEL]): "
        "rolling out",
        "shadow: 0 agreed, 1 differed",
    ]


async def test_undo_is_not_a_rollout_of_reloader(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """It restores or removes a mark; another client writes that."""
    await world.config_map(LEVEL="info")
    await world.workload(annotations=AUTO)
    async with shadow(world) as running:
        await world.quiet(running)
        for number, level in enumerate(("debug", "warn")):
            await world.edit(LEVEL=level)
            await reloader_rolls(world, str(number))
            await world.rolled_out()
            await world.quiet(running)
            await asyncio.sleep(40)
        await world.passes_a_second()
        await reloader_rolls(world, "0", manager="kubectl")
        await world.rolled_out()
        await world.quiet(running)
    assert log_messages(caplog) == ["shadow: 2 agreed, 0 differed"]


async def test_pods_of_a_reverted_edit_are_reloaders(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """hotmap does nothing; with Reloader's pods it would have to replace them."""
    await world.config_map(LEVEL="info")
    await world.workload(annotations=AUTO)
    await world.pod("web-1", started=time.time() - 100)
    async with shadow(world) as running:
        await world.quiet(running)
        await world.edit(LEVEL="debug")
        await reloader_rolls(world, "1")
        await world.delete("Pod", "web-1")
        await world.pod("web-2", started=time.time())
        await world.edit(LEVEL="info")
        await reloader_rolls(world, "2")
        await world.rolled_out()
        await until_decided(world, running)
        await world.quiet(running)
    assert log_messages(caplog) == [
        "Deployment default/web: Reloader rolls it out for STAKATER_APP_CONFIGMAP; hotmap does "
        "not: ConfigMap default/app was changed and reverted",
        "shadow: 0 agreed, 1 differed",
    ]
