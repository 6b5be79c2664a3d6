"""With --reloader-compat a change pauses a Deployment that has a pause period, as Reloader does."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from tests.controller.world import SETTLE, World, rfc3339

from hotmap.controller.run import Controller
from hotmap.controller.settings import Settings
from hotmap.core.model.objects import ObjectKey
from hotmap.core.policy.policy import Defaults
from hotmap.core.reloader.annotations import DialectSettings, Names, Writing
from hotmap.core.reloader.patch import digest_of

PERIOD = "deployment.reloader.stakater.com/pause-period"
PAUSED_AT = "deployment.reloader.stakater.com/paused-at"
PAUSING = {"reloader.stakater.com/auto": "true", PERIOD: "30s"}
VARIABLE = "STAKATER_APP_CONFIGMAP"


def digest(level: str) -> str:
    return digest_of([(b"LEVEL", level.encode())])


def controller(
    world: World, *, names: Names | None = None, writing: Writing = Writing.ENV_VARS
) -> Controller:
    dialect = DialectSettings(names=names or Names(), writing=writing, pauses=True)
    return Controller(
        world.client,
        Settings(
            defaults=Defaults(settle=SETTLE, settle_max=1.0, dialect=dialect),
            listen=("127.0.0.1", 0),
        ),
    )


async def paused(world: World) -> tuple[bool, str | None, str]:
    """Return whether web is paused, since when it says, and Reloader's variable in it."""
    obj = await world.get("Deployment", "web")
    container = obj["spec"]["template"]["spec"]["containers"][0]
    values = {entry["name"]: entry.get("value", "") for entry in container.get("env") or []}
    annotations = obj["metadata"].get("annotations") or {}
    return obj["spec"].get("paused", False), annotations.get(PAUSED_AT), values.get(VARIABLE, "")


async def until(world: World, *, is_paused: bool, level: str = "") -> str | None:
    """Wait for a state of web; returns the time in its annotation."""

    async def is_reached() -> bool:
        now_paused, _, value = await paused(world)
        return now_paused is is_paused and (not level or value == digest(level))

    await world.until(is_reached, f"paused is {is_paused}, {level}")
    return (await paused(world))[1]


async def pause_as(world: World, manager: str, value: bool = True) -> None:
    """Pause or resume web as `kubectl rollout` does, by another client."""

    def write(obj: dict[str, Any]) -> dict[str, Any]:
        return {**obj, "spec": {**obj["spec"], "paused": value}}

    await world.registry.modify("deployments", "default", "web", write, manager=manager)


async def set_up(world: World, **annotations: str | None) -> None:
    await world.config_map(LEVEL="info")
    said = {**PAUSING, **annotations}
    await world.workload(annotations={key: value for key, value in said.items() if value})


async def test_change_pauses_for_the_period(world: World) -> None:
    """In one write with the template; further changes are written, and the first one counts."""
    await set_up(world)
    async with controller(world) as running:
        await world.quiet(running)
        before = time.time()
        await world.edit(LEVEL="debug")
        at = await until(world, is_paused=True, level="debug")
        generations = {(await world.get("Deployment", "web"))["metadata"]["generation"]}
        await asyncio.sleep(20)
        await world.edit(LEVEL="trace")
        assert await until(world, is_paused=True, level="trace") == at
        generations.add((await world.get("Deployment", "web"))["metadata"]["generation"])
        assert await until(world, is_paused=False) is None
        elapsed = time.time() - before
        await world.quiet(running)
    assert generations == {2, 3}
    assert 30 <= elapsed < 45
    assert (await paused(world))[2] == digest("trace")
    reasons = await world.messages("Resumed")
    assert reasons == ["resuming: its pause period of 30s is over"]


async def test_each_period_begins_with_a_change(world: World) -> None:
    """After the end of one pause, the next change pauses again."""
    await set_up(world)
    async with controller(world) as running:
        await world.quiet(running)
        for level in ("debug", "trace"):
            await world.edit(LEVEL=level)
            await until(world, is_paused=True, level=level)
            await until(world, is_paused=False)
            await world.rolled_out()
            await world.quiet(running)


@pytest.mark.parametrize("writing", [Writing.ANNOTATIONS, Writing.REVISION])
async def test_other_strategies_pause_as_well(world: World, writing: Writing) -> None:
    """The template changes in the same write."""
    await set_up(world)
    async with controller(world, writing=writing) as running:
        await world.quiet(running)
        await world.edit(LEVEL="debug")
        assert await until(world, is_paused=True) is not None
        obj = await world.get("Deployment", "web")
        assert obj["metadata"]["generation"] == 2
        assert obj["spec"]["template"]["metadata"]["annotations"]
        await until(world, is_paused=False)


async def test_next_controller_resumes(world: World) -> None:
    """From the annotation alone: whoever leads then, after whatever time."""
    await set_up(world)
    async with controller(world) as running:
        await world.quiet(running)
        await world.edit(LEVEL="debug")
        at = await until(world, is_paused=True, level="debug")
    assert await paused(world) == (True, at, digest("debug"))
    await asyncio.sleep(10)
    async with controller(world):
        await asyncio.sleep(10)
        assert await paused(world) == (True, at, digest("debug"))
        await until(world, is_paused=False)
    assert await paused(world) == (False, None, digest("debug"))


async def test_change_during_downtime_keeps_the_pause(world: World) -> None:
    """It is written at the start, into the pause of the first change."""
    await set_up(world)
    async with controller(world) as running:
        await world.quiet(running)
        await world.edit(LEVEL="debug")
        at = await until(world, is_paused=True, level="debug")
    await world.edit(LEVEL="trace")
    async with controller(world):
        assert await until(world, is_paused=True, level="trace") == at
        await until(world, is_paused=False, level="trace")


async def test_change_that_the_end_of_the_pause_applies_is_not_rolled_out_again(
    world: World,
) -> None:
    """Period and edit are over before the next controller starts: new pods have read the edit."""
    await set_up(world)
    async with controller(world) as running:
        await world.quiet(running)
        await world.edit(LEVEL="debug")
        await until(world, is_paused=True, level="debug")
    await world.edit(LEVEL="trace")
    await asyncio.sleep(40)
    async with controller(world) as running:
        await until(world, is_paused=False)
        await world.pod("web-1", started=time.time() + 1)
        await world.rolled_out()
        await world.quiet(running)
        assert await paused(world) == (False, None, digest("debug"))
        last = running.decision_log.latest(ObjectKey("Deployment", "default", "web"))
        assert last is not None
        assert last.verdict == "adopt"


async def test_pause_of_a_person_is_theirs(world: World) -> None:
    """The template is written, and nothing resumes it."""
    await set_up(world)
    await pause_as(world, "kubectl-rollout")
    await world.rolled_out()
    async with controller(world) as running:
        await world.quiet(running)
        await world.edit(LEVEL="debug")
        assert await until(world, is_paused=True, level="debug") is None
        await asyncio.sleep(120)
        await world.quiet(running)
        assert await paused(world) == (True, None, digest("debug"))


async def test_person_may_resume_before_the_end(world: World) -> None:
    """The annotation goes, so that a later pause of theirs is not ended by it."""
    await set_up(world)
    async with controller(world) as running:
        await world.quiet(running)
        await world.edit(LEVEL="debug")
        await until(world, is_paused=True, level="debug")
        await pause_as(world, "kubectl-rollout", value=False)

        async def is_clean() -> bool:
            return await paused(world) == (False, None, digest("debug"))

        await world.until(is_clean, "the annotation is removed")
        await pause_as(world, "kubectl-rollout")
        await asyncio.sleep(120)
        await world.quiet(running)
        assert (await paused(world))[0]
    assert await world.messages("Resumed") == []


async def test_person_may_resume_and_pause_without_a_leader(world: World) -> None:
    """The owner of the field tells whose pause it is, although the annotation is still there."""
    await set_up(world)
    async with controller(world) as running:
        await world.quiet(running)
        await world.edit(LEVEL="debug")
        at = await until(world, is_paused=True, level="debug")
    await pause_as(world, "kubectl-rollout", value=False)
    await pause_as(world, "kubectl-rollout")
    async with controller(world) as running:
        await world.quiet(running)
        await asyncio.sleep(120)
        await world.quiet(running)
    assert await paused(world) == (True, at, digest("debug"))


@pytest.mark.parametrize("text", ["2026-13-01T00:00:00Z", "", "2999-01-01T00:00:00Z"])
async def test_invalid_time_ends_the_pause(world: World, text: str) -> None:
    """Whoever wrote it there; a Warning Event says so where it is not a time at all."""
    await set_up(world)
    async with controller(world) as running:
        await world.quiet(running)
        await world.edit(LEVEL="debug")
        await until(world, is_paused=True, level="debug")
        await world.merge("Deployment", "web", {"metadata": {"annotations": {PAUSED_AT: text}}})
        assert await until(world, is_paused=False) is None
        await world.quiet(running)
    messages = await world.messages("InvalidAnnotation")  # a controller that ends writes its Events
    assert len(messages) == (0 if text.startswith("2999") else 1)


async def test_workload_that_is_not_followed_any_more_is_resumed(world: World) -> None:
    """The pause is ours, so it has to end."""
    await set_up(world)
    async with controller(world) as running:
        await world.quiet(running)
        await world.edit(LEVEL="debug")
        await until(world, is_paused=True, level="debug")
        gone = {"reloader.stakater.com/auto": None}
        await world.merge("Deployment", "web", {"metadata": {"annotations": gone}})
        await asyncio.sleep(20)
        assert (await paused(world))[0]
        await until(world, is_paused=False)


async def test_shorter_period_counts_at_once(world: World) -> None:
    """It is read from the Deployment, and counts from the first change on."""
    await set_up(world, **{PERIOD: "20h"})
    async with controller(world) as running:
        await world.quiet(running)
        await world.edit(LEVEL="debug")
        await until(world, is_paused=True, level="debug")
        await asyncio.sleep(10)
        await world.merge("Deployment", "web", {"metadata": {"annotations": {PERIOD: "15s"}}})
        before = time.time()
        await until(world, is_paused=False)
        assert time.time() - before < 60


async def test_renamed_annotations_are_used(world: World) -> None:
    """By the flags for both; the default ones are left alone."""
    await world.config_map(LEVEL="info")
    said = {"reloader.stakater.com/auto": "true", "acme.com/period": "30s"}
    await world.workload(annotations=said)
    names = Names(pause_period="acme.com/period", paused_at="acme.com/at")
    async with controller(world, names=names) as running:
        await world.quiet(running)
        await world.edit(LEVEL="debug")
        assert await until(world, is_paused=True, level="debug") is None
        obj = await world.get("Deployment", "web")
        assert obj["metadata"]["annotations"]["acme.com/at"].endswith("Z")
        await until(world, is_paused=False)
    assert "acme.com/at" not in (await world.get("Deployment", "web"))["metadata"]["annotations"]


async def test_clock_is_the_api_servers(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the controller's machine thinks."""
    monkeypatch.setattr(world.client, "server_time", lambda: time.time() + 7200)
    await set_up(world)
    async with controller(world) as running:
        await world.quiet(running)
        await world.edit(LEVEL="debug")
        at = await until(world, is_paused=True, level="debug")
        assert at is not None
        assert rfc3339(time.time() + 7000) < at < rfc3339(time.time() + 7300)
        await until(world, is_paused=False)


async def test_revert_within_the_pause_rolls_nothing(world: World) -> None:
    """The template is that of before when the Deployment is resumed."""
    await set_up(world)
    async with controller(world) as running:
        await world.quiet(running)
        await world.edit(LEVEL="debug")
        await until(world, is_paused=True, level="debug")
        await until(world, is_paused=False)
        await world.rolled_out()
        await world.edit(LEVEL="trace")
        await until(world, is_paused=True, level="trace")
        await world.edit(LEVEL="debug")
        await until(world, is_paused=True, level="debug")
        await until(world, is_paused=False, level="debug")
        await world.rolled_out()
        await world.quiet(running)


async def test_other_kinds_are_not_paused(world: World) -> None:
    """Only a Deployment can be."""
    await world.config_map(LEVEL="info")
    await world.workload(kind="StatefulSet", annotations=PAUSING)
    async with controller(world) as running:
        await world.quiet(running)
        await world.edit(LEVEL="debug")

        async def is_marked() -> bool:
            obj = await world.get("StatefulSet", "web")
            env = obj["spec"]["template"]["spec"]["containers"][0]["env"]
            return {"name": VARIABLE, "value": digest("debug")} in env

        await world.until(is_marked, "it is rolled")
    obj = await world.get("StatefulSet", "web")
    assert PAUSED_AT not in obj["metadata"]["annotations"]
