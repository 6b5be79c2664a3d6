"""Where acting would do harm or nothing, hotmap says so once, with the remedy, and waits."""

from __future__ import annotations

from typing import Any

import pytest
from tests.controller.world import FOLLOW, World, env

from hotmap.controller.run import Controller


async def test_removed_required_data_key_holds(world: World) -> None:
    """New pods could not start, so the running ones stay, and a Warning says which key."""
    await world.config_map(LEVEL="info", MODE="fast")
    await world.workload()
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL=None)
        await world.quiet(controller)
        await world.edit(MODE="slow")
        await world.quiet(controller)
    assert await world.revision() == ""
    assert await world.messages() == [
        "ConfigMap default/app lacks LEVEL, which is not optional: new pods could not start"
    ]
    (event,) = await world.events("Held")
    assert event["type"] == "Warning"
    assert event["involvedObject"]["name"] == "web"


async def test_returned_data_key_ends_the_hold(world: World) -> None:
    """With the old value nothing is rolled, with another one it is a change."""
    await world.config_map(LEVEL="info")
    await world.workload()
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL=None)
        await world.event("Held")
        await world.edit(LEVEL="info")
        await world.quiet(controller)
        assert await world.revision() == ""
        await world.edit(LEVEL=None)
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.rollout()


async def test_recreated_immutable_source_holds(world: World) -> None:
    """Kubelets go on serving the old content, so a rollout would change nothing."""
    await world.config_map(LEVEL="info")
    await world.merge("ConfigMap", "app", {"immutable": True})
    await world.workload()
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.delete("ConfigMap", "app")
        await world.config_map(LEVEL="debug")
        message = await world.event("Held")
        await world.quiet(controller)
    assert await world.revision() == ""
    assert "was immutable and has been recreated" in message
    assert "Use a new name, or scale to zero until it is not held any more" in message


async def test_scaling_to_zero_ends_the_hold_of_immutable_source(world: World) -> None:
    """Scaled to zero, no pod holds the old content any more: the next ones have the new."""
    await world.config_map(LEVEL="info")
    await world.merge("ConfigMap", "app", {"immutable": True})
    await world.workload()
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.delete("ConfigMap", "app")
        await world.config_map(LEVEL="debug")
        await world.event("Held")
        await world.merge("Deployment", "web", {"spec": {"replicas": 0}})
        await world.rolled_out()
        await world.quiet(controller)
        await world.merge("Deployment", "web", {"spec": {"replicas": 1}})
        await world.rolled_out()
        await world.quiet(controller)
        assert await world.revision() == ""
        await world.edit(LEVEL="trace")
        await world.rollout()
    assert len(await world.events("Held")) == 1


async def test_change_of_another_source_waits_for_the_hold(world: World) -> None:
    """The change waits, since its rollout could not start pods; it is made up for afterwards."""
    await world.config_map("app", LEVEL="info")
    await world.config_map("extra", MODE="fast")
    spec = env("LEVEL")
    spec["containers"][0]["env"] += env("MODE", source="extra")["containers"][0]["env"]
    await world.workload(spec=spec)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.delete("ConfigMap", "extra")
        await world.edit("app", LEVEL="debug")
        message = await world.event("Held")
        assert "ConfigMap default/extra does not exist and is not optional" in message
        assert await world.revision() == ""
        await world.config_map("extra", MODE="fast")
        await world.rollout()


@pytest.mark.parametrize("paused", [True, False])
async def test_paused_deployment_is_patched_and_reported(world: World, paused: bool) -> None:
    """It takes the revision, and the reason says that the rollout waits for its resumption."""
    await world.config_map(LEVEL="info")
    await world.workload(paused=paused)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.rollout()
        message = await world.event("RolledOut")
    assert message.endswith("rolling out when the Deployment is resumed") is paused


async def test_workload_without_pods_is_only_recorded(world: World) -> None:
    """A consumer that is scaled to zero is only recorded: its next pods read the new content."""
    await world.config_map(LEVEL="info")
    await world.workload(replicas=0)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.quiet(controller)
        await world.merge("Deployment", "web", {"spec": {"replicas": 1}})
        await world.rolled_out()
        await world.quiet(controller)
        (entries,) = controller.decision_log.history().values()
    assert await world.revision() == ""
    assert await world.events() == []
    assert any(
        entry.reason.endswith("no pods are running; new pods read the new content")
        for entry in entries
    )


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({"updateStrategy": {"type": "OnDelete"}}, "(OnDelete)"),
        (
            {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}},
            "from ordinal 2 (partition)",
        ),
    ],
)
async def test_stateful_set_partition_is_respected(
    world: World, fields: dict[str, Any], outcome: str
) -> None:
    """OnDelete and partitions are respected; the reason says what the rollout waits for."""
    await world.config_map(LEVEL="info")
    await world.workload(kind="StatefulSet", replicas=3, **fields)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.rollout(kind="StatefulSet")
        assert outcome in await world.event("RolledOut")


async def test_immutable_source_in_use_is_known_after_the_controller_ends(world: World) -> None:
    """It came into use and was recreated before any decision: kubelets may serve the first one."""
    await world.config_map(LEVEL="info")
    await world.config_map("extra", MODE="fast")
    await world.merge("ConfigMap", "extra", {"immutable": True})
    await world.workload(annotations={**FOLLOW, "hotmap.dev/settle": "60s"})
    async with world.controller() as controller:
        await world.quiet(controller)
        spec = env("LEVEL")
        spec["containers"][0]["env"] += env("MODE", source="extra")["containers"][0]["env"]
        await world.merge("Deployment", "web", {"spec": {"template": {"spec": spec}}})

        async def is_remembered() -> bool:
            return any(record.immutable_uses for record in controller.records.values())

        await world.until(is_remembered, "the immutable source in use is remembered")
    (record,) = (await world.recorded()).values()
    assert [use.name for use in record.immutable_uses] == ["extra"]
    await world.delete("ConfigMap", "extra")
    await world.config_map("extra", MODE="slow")
    await world.rolled_out()
    async with world.controller():
        message = await world.event("Held")
    assert message.startswith("ConfigMap default/extra was immutable and has been recreated")


async def test_immutable_source_that_came_into_use_while_down_is_known_before_a_decision(
    world: World,
) -> None:
    """The decision waits for the rollout that the template's change has begun."""
    await world.config_map(LEVEL="info")
    await world.config_map("extra", MODE="fast")
    extra = await world.merge("ConfigMap", "extra", {"immutable": True})
    await world.workload()
    await world.run_once()
    spec = env("LEVEL")
    spec["containers"][0]["env"] += env("MODE", source="extra")["containers"][0]["env"]
    await world.merge("Deployment", "web", {"spec": {"template": {"spec": spec}}})
    await world.edit(LEVEL="debug")
    async with world.controller() as controller:
        await world.until(lambda: _decided(controller), "a decision waits")
    (record,) = (await world.recorded()).values()
    assert [source.name for source in record.sources] == ["app"]
    assert [use.uid for use in record.immutable_uses] == [extra["metadata"]["uid"]]


async def _decided(controller: Controller) -> bool:
    (web,) = controller.index.consumers["Deployment"]
    latest = controller.decision_log.latest(web)
    return latest is not None and latest.verdict == "wait"
