"""Between a decision and its write, and between a source and its consumer, things move on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.controller.world import FOLLOW, World

from hotmap.core.errors import api_error


def once_before_a_rollout(world: World, act: Callable[[], Awaitable[Any]]) -> list[str]:
    """Let something happen between hotmap's first rollout decision and its write.

    Returns the list of rollouts that were sent, by name, as it grows.
    """
    sent: list[str] = []

    async def guard(plural: str, namespace: str | None, name: str, patch: Any) -> None:
        if plural == "deployments":
            sent.append(name)
            if len(sent) == 1:
                await act()

    world.registry.guards.append(guard)
    return sent


async def test_conflict_is_decided_again(world: World) -> None:
    """The write meets a conflict and is decided again at once, on the newer object."""
    await world.config_map(LEVEL="info")
    await world.workload()
    sent = once_before_a_rollout(
        world,
        lambda: world.merge("Deployment", "web", {"metadata": {"labels": {"team": "shop"}}}),
    )
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.rollout()
        await world.quiet(controller)
    assert len(sent) == 2
    assert (await world.get("Deployment", "web"))["metadata"]["labels"] == {"team": "shop"}
    assert len(await world.messages()) == 1


async def test_lasting_conflicts_are_retried_with_backoff_and_one_read(world: World) -> None:
    """Beside a stalled watch all writes are refused: one read after three, ever fewer writes."""
    await world.config_map(LEVEL="info")
    await world.workload()
    sent = 0

    async def refuse(plural: str, namespace: str | None, name: str, patch: Any) -> None:
        nonlocal sent
        if plural == "deployments":
            sent += 1
            raise api_error(409, "the object has been modified", reason="Conflict")

    async with world.controller() as controller:
        await world.quiet(controller)
        reads = world.plane.fail("list", "deployments.apps")
        world.registry.guards.append(refuse)
        await world.edit(LEVEL="debug")
        await asyncio.sleep(30)
        assert 5 <= sent <= 15
        assert reads.met == 1
        world.registry.guards.clear()
        await world.rollout()


async def test_opt_out_before_the_write_prevents_it(world: World) -> None:
    """The newer object says that it is not hotmap's business any more."""
    await world.config_map(LEVEL="info")
    await world.workload()
    sent = once_before_a_rollout(world, lambda: world.annotate("web", follow="off"))
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.until(_done(sent), "a rollout was sent")
        await world.quiet(controller)
    assert await world.revision() == ""
    assert len(sent) == 1


async def test_source_edited_again_before_the_write_is_another_change(world: World) -> None:
    """The write goes through; the second edit is a change of its own."""
    await world.config_map(LEVEL="info")
    await world.workload()
    once_before_a_rollout(world, lambda: world.edit(LEVEL="trace"))
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        first = await world.rollout()
        await world.rolled_out()
        await world.rollout(after=first)


async def test_workload_deleted_before_the_write_is_not_a_failure(world: World) -> None:
    """That is a fact, not a failure: nothing is made, told or tried again."""
    await world.config_map(LEVEL="info")
    await world.workload()
    sent = once_before_a_rollout(world, lambda: world.delete("Deployment", "web"))
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.until(_done(sent), "a rollout was sent")
        await world.quiet(controller)
        assert len(controller.records) == 0
    assert len(sent) == 1
    assert not await world.exists("Deployment", "web")
    assert await world.messages() == []


async def test_workload_recreated_before_the_write_is_left_alone(world: World) -> None:
    """The new one has another uid, so it is left alone; its pods read the new content anyway."""

    async def replace() -> None:
        await world.delete("Deployment", "web")
        await world.workload()

    await world.config_map(LEVEL="info")
    await world.workload()
    sent = once_before_a_rollout(world, replace)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.until(_done(sent), "a rollout was sent")
        await world.quiet(controller)
        assert len(controller.records) == 1
        assert await world.revision() == ""
        await world.edit(LEVEL="trace")
        await world.rollout()
    assert len(sent) == 2
    assert len(await world.messages()) == 1


async def test_workload_recreated_over_its_pods_gets_an_edit_that_was_settling(
    world: World,
) -> None:
    """It was deleted with --cascade=orphan, so its pods still have the content from before.

    The first decision finds that; it is not left to a check of the pods.
    """
    settling = {**FOLLOW, "hotmap.dev/settle": "5s"}
    await world.config_map(LEVEL="info")
    await world.workload(annotations=settling)
    await world.pod("web-1")
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await asyncio.sleep(1)
        await world.delete("Deployment", "web")
        await asyncio.sleep(1)
        await world.workload(annotations=settling)
        await world.rollout()
    (message,) = await world.messages("RolledOut")
    assert message.startswith("ConfigMap default/app is new to hotmap, and changed after some pods")


async def test_lost_write_response_rolls_once(world: World) -> None:
    """It was carried out all the same, which the next look finds: there is no second one."""
    lost = 0

    async def carry_out_and_fail(plural: str, namespace: str | None, name: str, patch: Any) -> None:
        nonlocal lost
        if plural == "deployments" and not lost:
            lost += 1
            await world.registry.patch(
                plural, namespace, name, patch, kind="merge", manager="hotmap"
            )
            raise api_error(500, "the answer is lost")

    world.registry.guards.append(carry_out_and_fail)
    await world.config_map(LEVEL="info")
    generation = (await world.workload())["metadata"]["generation"]
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        first = await world.rollout()
        await world.rolled_out()
        await world.quiet(controller)
        assert lost == 1
        after = await world.get("Deployment", "web")
        assert after["metadata"]["generation"] == generation + 1
        await world.edit(LEVEL="trace")
        await world.rollout(after=first)


async def test_rollout_rejected_by_policy_is_reported(world: World) -> None:
    """One Warning says who refuses; it is tried again, and done when it is allowed."""
    refused = False

    async def refuse(plural: str, namespace: str | None, name: str, patch: Any) -> None:
        nonlocal refused
        if plural == "deployments" and not refused:
            refused = True
            raise api_error(403, 'admission webhook "freeze.example.org" denied the request')

    world.registry.guards.append(refuse)
    await world.config_map(LEVEL="info")
    await world.workload()
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.rollout()
        await world.quiet(controller)
    (event,) = await world.events("Failed")
    assert event["type"] == "Warning"
    assert 'admission webhook "freeze.example.org" denied' in event["message"]
    assert "retrying" in event["message"]
    assert len(await world.messages("RolledOut")) == 1


async def test_rollout_that_a_webhook_removes_is_reported(world: World) -> None:
    """The answer is a success, and pods keep the old content until the webhook lets it pass."""
    removed = False

    async def remove(plural: str, namespace: str | None, name: str, patch: Any) -> None:
        nonlocal removed
        if plural == "deployments" and not removed:
            removed = True
            del patch["spec"]

    world.registry.guards.append(remove)
    await world.config_map(LEVEL="info")
    await world.workload()
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.rollout()
        await world.quiet(controller)
    (event,) = await world.events("Failed")
    assert event["type"] == "Warning"
    assert "an admission policy or webhook removed the change" in event["message"]
    assert len(await world.messages("RolledOut")) == 1


async def test_retries_of_a_rejected_rollout_are_logged_once_an_hour(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """A tenant's policy may reject those of 1,000 workloads, and they are retried forever."""
    attempts = 0

    async def refuse(plural: str, namespace: str | None, name: str, patch: Any) -> None:
        nonlocal attempts
        if plural == "deployments":
            attempts += 1
            raise api_error(403, "no changes before the holidays")

    world.registry.guards.append(refuse)
    await world.config_map(LEVEL="info")
    await world.workload()
    async with world.controller() as controller:
        await world.quiet(controller)
        caplog.clear()
        await world.edit(LEVEL="debug")
        await asyncio.sleep(3000)
        assert attempts > 10
        levels = [
            each.levelname for each in caplog.records if "before the holidays" in each.message
        ]
        assert levels == ["WARNING", "INFO"]
        await asyncio.sleep(1200)
        assert len([each for each in caplog.records if "before the holidays" in each.message]) == 3


async def test_failing_workload_does_not_delay_others(world: World) -> None:
    """Each has its own queue place and its own retries."""

    async def refuse(plural: str, namespace: str | None, name: str, patch: Any) -> None:
        if name == "web":
            raise api_error(403, "no changes before the holidays")

    world.registry.guards.append(refuse)
    await world.config_map(LEVEL="info")
    await world.workload("web")
    await world.workload("api")
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.rollout("api")
    assert await world.revision("web") == ""


# -- the consumer's own rollouts (rule 6) -----------------------------------------------------


async def _edit_with_image(world: World) -> None:
    """Edit source and image in one go, as `helm upgrade` does."""
    await world.edit(LEVEL="debug")
    await world.merge(
        "Deployment", "web", {"spec": {"template": {"metadata": {"annotations": {"v": "2"}}}}}
    )


async def test_source_and_workload_edited_together_need_no_further_rollout(world: World) -> None:
    """hotmap waits for the consumer's own rollout, whose pods all have the new content."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await world.pod("web-old")
    async with world.controller() as controller:
        await world.quiet(controller)
        await _edit_with_image(world)
        await _wait_for_reason(world, controller, "while another rollout is in progress")
        assert await world.revision() == ""
        await world.registry.delete("pods", "default", "web-old", grace_period=0)
        await world.pod("web-new", started=time.time() + 5)
        await world.rolled_out()
        await world.quiet(controller)
        assert await world.revision() == ""
        await world.edit(LEVEL="trace")
        await world.rollout()
    assert len(await world.messages("RolledOut")) == 1


async def test_pods_of_a_new_template_need_no_rollout_within_the_same_second(world: World) -> None:
    """Clocks do not tell such pods apart, but the template was seen to change after the source."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await _note_template(world, "1")
    async with world.controller() as controller:
        await world.quiet(controller)
        await _edit_with_image(world)
        await _note_template(world, "2")
        await world.pod("web-new", started=time.time())
        await world.rolled_out()
        await world.quiet(controller)
        assert await world.revision() == ""
        await world.edit(LEVEL="trace")
        await world.rollout()
    assert len(await world.messages("RolledOut")) == 1


async def test_restart_before_an_edit_does_not_hide_it(world: World) -> None:
    """A restart, then an edit, then the Deployment controller's count: the pods are too old."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await _note_template(world, "1")
    async with world.controller() as controller:
        await world.quiet(controller)
        template = {"metadata": {"annotations": {"restarted": "now"}}}
        await world.merge("Deployment", "web", {"spec": {"template": template}})
        await world.quiet(controller)
        await world.pod("web-new", started=time.time())
        await world.edit(LEVEL="debug")
        await _note_template(world, "2")
        await world.rolled_out()
        await world.rollout()


async def _note_template(world: World, number: str) -> None:
    """Count the templates as the Deployment controller does."""
    annotations = {"deployment.kubernetes.io/revision": number}
    await world.merge("Deployment", "web", {"metadata": {"annotations": annotations}})


async def test_rollout_before_the_edit_does_not_count(world: World) -> None:
    """Its pods started too early to have the new content, so they are replaced once more."""
    await world.config_map(LEVEL="info")
    await world.workload()
    async with world.controller() as controller:
        await world.quiet(controller)
        await _edit_with_image(world)
        await world.pod("web-new", started=time.time() - 60)
        await world.rolled_out()
        await world.rollout()
        message = await world.event("RolledOut")
    assert message.startswith("ConfigMap default/app LEVEL changed")


async def test_undo_rolls_nothing(world: World) -> None:
    """An undo of the template is the owner's will: nothing is rolled for it."""
    await world.config_map(LEVEL="a")
    await world.workload()
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="b")
        first = await world.rollout()
        await world.rolled_out()
        await world.edit(LEVEL="c")
        await world.rollout(after=first)
        await world.rolled_out()
        await world.quiet(controller)
        old = {"metadata": {"annotations": {"hotmap.dev/revision": first}}}
        await world.merge("Deployment", "web", {"spec": {"template": old}})
        await world.rolled_out()
        await world.quiet(controller)
    assert await world.revision() == first


async def test_removed_revision_annotation_rolls_nothing(world: World) -> None:
    """`kubectl replace` of the original manifest takes it off; hotmap does not fight."""
    await world.config_map(LEVEL="info")
    await world.workload(annotations=FOLLOW)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.rollout()
        await world.rolled_out()
        none = {"metadata": {"annotations": None}}
        await world.merge("Deployment", "web", {"spec": {"template": none}})
        await world.rolled_out()
        await world.quiet(controller)
        assert await world.revision() == ""
        await world.pod("web-1", started=time.time() - 60)
        await world.edit(LEVEL="trace")
        await world.rollout()


def _done(sent: list[str]) -> Callable[[], Awaitable[list[str]]]:
    async def done() -> list[str]:
        return sent

    return done


async def _wait_for_reason(world: World, controller: Any, words: str) -> None:
    """Wait until the latest decision on the only consumer has some words in its reason."""

    async def is_logged() -> bool:
        entries = [item[-1] for item in controller.decision_log.history().values()]
        return any(words in entry.reason for entry in entries)

    await world.until(is_logged, f"a decision says {words!r}")
