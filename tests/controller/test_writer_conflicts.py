"""What others write into a pod template is reported once, whatever else happens meanwhile."""

from __future__ import annotations

from tests.controller.world import World


async def _overwrite_revision(world: World) -> None:
    annotations = {"hotmap.dev/revision": "AAAA.forged"}
    await world.merge(
        "Deployment", "web", {"spec": {"template": {"metadata": {"annotations": annotations}}}}
    )


async def test_conflict_is_reported_once_beside_a_change_that_waits(world: World) -> None:
    """The change waits for the other writer's rollout; the conflict is not reported at its end."""
    await world.config_map(LEVEL="info")
    await world.workload()
    async with world.controller() as controller:
        await world.quiet(controller)
        await _overwrite_revision(world)
        await world.edit(LEVEL="debug")

        async def waits() -> bool:
            entries = controller.decision_log.history().values()
            return any("rollout is in progress" in item[-1].reason for item in entries)

        await world.until(waits, "the change waits for the rollout")
        assert controller.decision_log.writer_conflicts["overwritten"] == 1
        await world.rolled_out()
        await world.quiet(controller)
        assert controller.decision_log.writer_conflicts["overwritten"] == 1
        (event,) = await world.events("RevisionChanged")
        assert event["count"] == 1


async def test_conflict_is_not_reported_again_by_the_next_controller(world: World) -> None:
    """That it was reported is in the record, also while a change waits."""
    await world.config_map(LEVEL="info")
    await world.workload()
    async with world.controller() as controller:
        await world.quiet(controller)
        await _overwrite_revision(world)
        await world.edit(LEVEL="debug")
        await world.event("RevisionChanged")
    async with world.controller() as controller:
        await world.rolled_out()
        await world.quiet(controller)
        assert controller.decision_log.writer_conflicts["overwritten"] == 0
