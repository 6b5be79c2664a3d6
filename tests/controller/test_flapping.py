"""Workloads that are rolled too often: what is held, for how long, and how it is released."""

from __future__ import annotations

import asyncio

from tests.controller.world import FOLLOW, World


async def test_burst_of_edits_ends_with_the_last_content(world: World) -> None:
    """Also without a settle time: a hundred edits in two seconds are a few rollouts."""
    await world.config_map(LEVEL="v0")
    await world.workload(annotations={**FOLLOW, "hotmap.dev/settle": "0s"})
    async with world.controller(flap_limit=5, settle=0.0) as controller:
        await world.quiet(controller)
        seen = set()
        for n in range(1, 101):
            await world.edit(LEVEL=f"v{n}")
            await asyncio.sleep(0.02)
            seen.add(await world.revision())
        await asyncio.sleep(30)
        await world.rolled_out()
        await world.quiet(controller)
        last = await world.revision()
        # Three, unless the edits took longer than two seconds on a busy machine.
        assert len({*seen, last} - {""}) <= 5
        assert await world.events("Held") == []
        # The template carries the last content: asking once more changes nothing.
        await world.edit(LEVEL="other")
        other = await world.rollout(after=last)
        await world.rolled_out()
        await asyncio.sleep(20)
        await world.edit(LEVEL="v100")
        assert await world.rollout(after=other) == last


async def test_deliberate_edits_are_not_held(world: World) -> None:
    """A person who tries one content after the other, minutes apart."""
    await world.config_map(LEVEL="v0")
    await world.workload()
    async with world.controller(flap_limit=5) as controller:
        await world.quiet(controller)
        revision = ""
        for n in range(1, 9):
            await asyncio.sleep(61)
            await world.edit(LEVEL=f"v{n}")
            revision = await world.rollout(after=revision)
        await world.quiet(controller)
    assert await world.events("Held") == []


async def _fight(world: World, times: int) -> None:
    """Have two writers set one value after the other, a quarter of a minute apart."""
    for n in range(times):
        await world.edit(LEVEL="BA"[n % 2])
        await asyncio.sleep(10)
        await world.rolled_out()
        await asyncio.sleep(5)


async def test_flapping_is_held_and_reported_once(world: World) -> None:
    """The Event says since when, until when, who writes and how to release; `why` folds it."""
    await world.config_map(LEVEL="A")
    await world.workload()
    async with world.controller(flap_limit=3) as controller:
        await world.quiet(controller)
        await _fight(world, 8)
        (message,) = await world.messages("Held")
        assert ": rollout suppressed since " in message
        assert " UTC: 3 rollouts in 10m between the same contents; last modified by " in message
        assert message.endswith("to roll out now, run 'hotmap release deployment/web -n default'")
        (entries,) = controller.decision_log.history().values()
        (held,) = [entry for entry in entries if entry.held]
        assert held.times >= 2
        assert held.first_at < held.at
        texts = [entry.text for entry in entries]
        assert len(texts) == len(set(texts))


async def test_hold_ends_with_the_last_content(world: World) -> None:
    """At the first permitted moment, without anybody's doing."""
    await world.config_map(LEVEL="A")
    await world.workload()
    async with world.controller(flap_limit=3) as controller:
        await world.quiet(controller)
        await _fight(world, 3)
        held = await world.revision()
        await world.edit(LEVEL="A")
        await world.event("Held")
        assert await world.revision() == held
        await asyncio.sleep(600)
        await world.rollout(after=held)


async def test_annotation_releases_a_hold_once(world: World) -> None:
    """Whatever its value is; the same value does not release what is held later."""
    await world.config_map(LEVEL="A")
    await world.workload()
    await world.pod("web-1")
    async with world.controller(flap_limit=3) as controller:
        await world.quiet(controller)
        await _fight(world, 3)
        held = await world.revision()
        await world.edit(LEVEL="A")
        await world.event("Held")
        await world.annotate("web", release="please")
        await world.rolled_out()
        released = await world.rollout(after=held)
        await world.rolled_out()
        await asyncio.sleep(5)
        await _fight(world, 8)
        before = await world.revision()
        assert len(await world.messages("Held")) >= 2
        await asyncio.sleep(20)
        assert await world.revision() == before
    assert released != held


async def test_release_is_remembered_by_the_next_leader(world: World) -> None:
    """An annotation that stays on a workload does not release it at each start."""
    await world.config_map(LEVEL="A")
    await world.workload()
    await world.annotate("web", release="2026-11-22T14:02:11Z")
    await world.rolled_out()
    async with world.controller(flap_limit=3) as controller:
        await world.quiet(controller)
        await _fight(world, 4)
        await world.event("Held")
        held = await world.revision()
    async with world.controller(flap_limit=3) as controller:
        await asyncio.sleep(30)
        assert await world.revision() == held


async def test_flap_limit_of_the_workload_precedes_that_of_its_namespace(world: World) -> None:
    """The workload's own goes over its Namespace's, and that over the flag."""
    await world.config_map(LEVEL="A")
    await world.namespace("shop", {"hotmap.dev/flap-limit": "1"})
    await world.config_map(namespace="shop", LEVEL="A")
    await world.workload(annotations={**FOLLOW, "hotmap.dev/flap-limit": "0"})
    await world.workload(namespace="shop")
    async with world.controller(flap_limit=5) as controller:
        await world.quiet(controller)
        revision = ""
        for n in range(8):
            await world.edit(LEVEL=f"v{n}")
            revision = await world.rollout(after=revision)
        assert await world.events("Held") == []
        await world.edit(namespace="shop", LEVEL="B")
        await world.rollout(namespace="shop")
        await asyncio.sleep(100)
        await world.edit(namespace="shop", LEVEL="A")
        assert "1 rollout in 10m between the same contents" in await world.event("Held")
