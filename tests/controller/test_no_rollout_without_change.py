"""Changes of unused content cause no rollout, no nudge and no Event."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from tests.controller.pod_check_results import SOON, status
from tests.controller.world import FOLLOW, NAMESPACE, World, env

from hotmap.controller.settings import PodCheckSettings
from hotmap.core.model.objects import ObjectKey
from hotmap.core.status.consumer import State

#: One hour ago, when the pods of these tests started.
EARLIER = 3600

#: Seconds: longer than a busy machine pauses between two edits.
SETTLE = 30.0


@asynccontextmanager
async def undisturbed(world: World) -> AsyncIterator[None]:
    """Run a controller on a consumer of app, and check that what the block does rolls nothing."""
    await world.config_map(LEVEL="info", MODE="fast")
    before = await world.workload()
    await world.pod("web-1", started=time.time() - EARLIER)
    async with world.controller(settle=SETTLE, settle_max=2 * SETTLE) as controller:
        await world.quiet(controller)
        yield
        await world.quiet(controller)
        changes = controller.index.history.changes(ObjectKey("ConfigMap", "default", "app"))
    after = await world.get("Deployment", "web")
    pod = await world.registry.get("pods", "default", "web-1")
    seen = f"{changes} {pod['metadata']} {pod['status']} {time.time()}"
    assert after["spec"] == before["spec"], seen
    assert await world.target("web-1") == ""
    assert world.answers()["PATCH"] == 0
    assert await world.messages("RolledOut") == []


async def _unused(world: World) -> None:
    await world.edit(MODE="slow")


async def _added(world: World) -> None:
    await world.edit(COLOUR="blue")


async def _removed(world: World) -> None:
    await world.edit(MODE=None)


async def _labelled(world: World) -> None:
    await world.merge("ConfigMap", "app", {"metadata": {"labels": {"team": "shop"}}})


async def _annotated(world: World) -> None:
    await world.merge("ConfigMap", "app", {"metadata": {"annotations": {"note": "read me"}}})


async def _rewritten(world: World) -> None:
    found = await world.get("ConfigMap", "app")
    await world.registry.update("configmaps", "default", "app", found, manager="helm")


async def _deleted(world: World) -> None:
    await world.delete("ConfigMap", "app")


async def _recreated(world: World) -> None:
    await world.delete("ConfigMap", "app")
    await world.config_map(LEVEL="info", MODE="fast")


async def _taken_back(world: World) -> None:
    await world.edit(LEVEL="debug")
    await world.edit(LEVEL="info")


async def _relabelled(world: World) -> None:
    await world.merge("Deployment", "web", {"metadata": {"labels": {"team": "shop"}}})


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(_unused, id="an unused data key changes"),
        pytest.param(_added, id="a data key is added"),
        pytest.param(_removed, id="an unused data key is removed"),
        pytest.param(_labelled, id="the source is labelled"),
        pytest.param(_annotated, id="the source is annotated"),
        pytest.param(_rewritten, id="the same data is written by another manager"),
        pytest.param(_deleted, id="a required source is deleted"),
        pytest.param(_recreated, id="the source is deleted and created with the same content"),
        pytest.param(_taken_back, id="an edit is taken back within the settle time"),
        pytest.param(_relabelled, id="the consumer is labelled"),
    ],
)
async def test_unused_change_causes_no_rollout(
    world: World, change: Callable[[World], Awaitable[None]]
) -> None:
    """A change that no container reads costs at most one list of the pods."""
    async with undisturbed(world):
        await change(world)


async def test_unused_data_key_edit_is_explained(world: World) -> None:
    """The decision to do nothing has its reason in words, as every other."""
    await world.config_map(LEVEL="info", MODE="fast")
    await world.workload()
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(MODE="slow")
        await world.quiet(controller)
        entries = [item[-1] for item in controller.decision_log.history().values()]
    assert [e.reason for e in entries] == ["ConfigMap default/app MODE changed, but is not used"]
    assert [e.actions for e in entries] == [()]


async def test_replaced_variable_is_rolled_out_once_it_is_visible(world: World) -> None:
    """A later envFrom wins, until it lacks the data key."""
    await world.config_map(LEVEL="info", MODE="fast")
    await world.config_map("later", LEVEL="debug")
    imports = [{"configMapRef": {"name": name}} for name in ("app", "later")]
    container = {"name": "main", "image": "app:1", "envFrom": imports}
    await world.workload(spec={"containers": [container]})
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="warn")
        await world.quiet(controller)
        assert await world.revision() == ""
        entries = [item[-1] for item in controller.decision_log.history().values()]
        assert [e.reason for e in entries] == [
            "ConfigMap default/app LEVEL changed, but is not used"
        ]
        await world.edit("later", LEVEL=None)
        first = await world.rollout()
        await world.edit(LEVEL="error")
        await world.rollout(after=first)


async def test_recreated_source_with_other_content_rolls(world: World) -> None:
    """A source that comes back with other content is a change like any other."""
    await world.config_map(LEVEL="info")
    await world.workload()
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.delete("ConfigMap", "app")
        await world.quiet(controller)
        assert await world.revision() == ""
        await world.config_map(LEVEL="debug")
        await world.rollout()


async def test_pod_started_between_edit_and_revert_is_rolled(world: World) -> None:
    """It may hold the other content, so its consumer is rolled under a name of its own."""
    await world.config_map(LEVEL="a")
    await world.workload()
    async with world.controller(settle=0.3) as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="b")
        first = await world.rollout()
        await world.rolled_out()
        await world.quiet(controller)
        await world.edit(LEVEL="c")
        await world.pod("web-1", started=time.time())
        await world.edit(LEVEL="b")
        assert await world.rollout(after=first) == f"{first}.1"
        await world.quiet(controller)
    messages = await world.messages("RolledOut")
    assert messages[-1] == "web-1 may have started while other content was current: rolling out"


async def test_reverted_edit_casts_no_doubt_on_pods_of_the_second_of_the_creation(
    world: World,
) -> None:
    """Source and workload are often created together. Nothing could be read before that."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await world.pod("web-1", started=time.time())
    async with world.controller(settle=5, settle_max=10, pod_checks=SOON) as controller:
        await asyncio.sleep(20)
        await world.edit(LEVEL="debug")
        await asyncio.sleep(1)
        await world.edit(LEVEL="info")
        await asyncio.sleep(20)
        await world.quiet(controller)
        found = await status(controller, f"?workload=Deployment/{NAMESPACE}/web")
    assert found["workloads"][0]["state"] == "current", found
    assert await world.revision() == ""


async def test_revert_after_rollout_rolls_back(world: World) -> None:
    """Once acted on, a revert is a change: the consumer returns to its earlier revision."""
    await world.config_map(LEVEL="a")
    await world.workload()
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="b")
        revision = await world.rollout()
        await world.rolled_out()
        await world.edit(LEVEL="a")
        await world.rollout(after=revision)


async def test_workload_without_opt_in_is_not_rolled(world: World) -> None:
    """Without an annotation, no consumer is hotmap's business."""
    await world.config_map(LEVEL="info")
    before = await world.workload(annotations={})
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.quiet(controller)
    assert await world.get("Deployment", "web") == before
    assert await world.records() == {}


@pytest.mark.parametrize("order", ["after", "before"])
async def test_new_workload_beside_an_edit_is_rolled_only_if_it_is_older(
    world: World, order: str
) -> None:
    """One `kubectl apply` of both: the start of its pods, in whole seconds, proves nothing."""
    await world.config_map(LEVEL="info")
    checks = PodCheckSettings(rate=100.0, initial_delay=0.5, rollout_delay=0.1)
    async with world.controller(pod_checks=checks) as controller:
        await world.quiet(controller)
        await world.passes_a_second()
        if order == "after":
            await world.edit(LEVEL="debug")
        await world.workload()
        await world.pod("web-1", started=time.time())
        if order == "before":
            await world.edit(LEVEL="debug")
            await world.rollout()
            return
        await asyncio.sleep(5)
        await world.quiet(controller)
        assert controller._leadership.term is not None
        (consumer,) = controller.index.all_consumers()
        states = controller._leadership.term.leader_view.consumer_states

        async def verified() -> bool:
            return states.get(consumer).state is not State.UNVERIFIED

        await world.until(verified, "the pods are checked")
        status = states.get(consumer)
        assert (status.state, status.reason) == (State.CURRENT, "content is up to date")
    assert await world.revision() == ""
    assert await world.messages("Latent") == []


async def test_late_opt_in_rolls_nothing(world: World) -> None:
    """What changed before is not made up for; from then on every change counts."""
    await world.config_map(LEVEL="info")
    await world.workload(annotations={})
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.quiet(controller)
        await world.annotate("web", follow="auto")
        await world.rolled_out()
        await world.quiet(controller)
        assert await world.revision() == ""
        await world.edit(LEVEL="trace")
        await world.rollout()


async def test_opt_out_rolls_nothing(world: World) -> None:
    """From then on nothing is done, whatever changes."""
    await world.config_map(LEVEL="info")
    await world.workload(annotations=FOLLOW)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.annotate("web", follow="off")
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.quiet(controller)
        assert await world.revision() == ""


async def test_missing_source_that_appears_rolls_nothing(world: World) -> None:
    """The source that it could not start without appears: its containers start with it."""
    await world.workload()
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.config_map(LEVEL="info")
        await world.quiet(controller)
        assert await world.revision() == ""
        await world.edit(LEVEL="debug")
        await world.rollout()


async def test_optional_source_that_appears_rolls(world: World) -> None:
    """Its consumers run without it, so its first content is a change."""
    await world.workload(spec=env("LEVEL", optional=True))
    await world.pod("web-old", started=time.time() - 60)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.config_map(LEVEL="info")
        await world.rollout()


async def test_image_pull_secret_edit_rolls_nothing(world: World) -> None:
    """Kubelets read them at each pull; no process in the pod does."""
    await world.secret("registry", token="old")
    spec = {**env("LEVEL", optional=True), "imagePullSecrets": [{"name": "registry"}]}
    await world.workload(spec=spec)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit("registry", kind="Secret", token="new")
        await world.quiet(controller)
    assert await world.revision() == ""
