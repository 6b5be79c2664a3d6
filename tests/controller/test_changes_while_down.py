"""Edits that no controller saw are rolled out, and edits that were reverted meanwhile are not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from tests.controller.pod_check_results import SOON, status, wait_for_state
from tests.controller.world import FOLLOW, NAMESPACE, World, env

from hotmap.controller import term_factory
from hotmap.core.errors import api_error
from hotmap.core.model.objects import Pod
from hotmap.core.policy.policy import Defaults
from hotmap.core.reloader.annotations import DialectSettings


async def test_edit_during_downtime_is_rolled(world: World) -> None:
    """The source differs from the last applied content, so the consumer is rolled at the start."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await world.run_once()
    await world.edit(LEVEL="debug")
    async with world.controller():
        await world.rollout()
    assert len(await world.messages("RolledOut")) == 1


@pytest.mark.parametrize(
    ("created", "edited", "down", "rolled"),
    [
        pytest.param("while down", "after the pod", 60, True, id="both while down"),
        pytest.param("while down", "before the pod", 60, False, id="pod has the edit"),
        pytest.param("before", "after the pod", 60, False, id="followed only now"),
        pytest.param("while down", "after the pod", 4000, False, id="installed again"),
    ],
)
async def test_workload_of_the_downtime_is_rolled_for_an_edit_after_its_pods(
    world: World, created: str, edited: str, down: float, rolled: bool
) -> None:
    """It would have been adopted at its creation; one that was not followed is adopted now."""

    async def create() -> None:
        await world.config_map(LEVEL="info")
        await world.workload(annotations={} if created == "before" else FOLLOW)
        if edited == "before the pod":
            await asyncio.sleep(5)
            await world.edit(LEVEL="debug")
            await asyncio.sleep(5)
        await world.pod("web-1", started=time.time())
        await asyncio.sleep(5)

    await world.config_map("old", LEVEL="info")
    await world.workload("old", env("LEVEL", source="old"))
    if created == "before":
        await create()
    await world.run_once()
    await asyncio.sleep(5)
    if created == "before":
        await world.annotate("web", follow="auto")
    else:
        await create()
    if edited == "after the pod":
        await world.edit(LEVEL="debug")
    await asyncio.sleep(down)
    await world.run_once()
    assert bool(await world.revision()) is rolled


@pytest.mark.parametrize("obstacle", ["suspended", "turn"])
async def test_workload_of_the_downtime_is_rolled_after_its_first_decision_had_to_wait(
    world: World, obstacle: str
) -> None:
    """Nothing is recorded until then, so that the decision is made again as a first one."""
    await world.config_map("old", LEVEL="info")
    await world.workload("old", env("LEVEL", source="old"))
    await world.run_once()
    await asyncio.sleep(5)
    await world.config_map(LEVEL="info")
    limit = {"hotmap.dev/max-concurrent-rollouts": "1"}
    await world.merge("ConfigMap", "app", {"metadata": {"annotations": limit}})
    names = ("web", "other") if obstacle == "turn" else ("web",)
    for name in names:
        await world.workload(name)
        await world.pod(f"{name}-1", of=name, started=time.time())
    if obstacle == "suspended":
        await world.annotate("web", suspend="true")
    await asyncio.sleep(5)
    await world.edit(LEVEL="debug")
    await asyncio.sleep(5)
    async with world.controller():
        await asyncio.sleep(5)
        await world.edit(LEVEL="trace")
        await asyncio.sleep(5)
        await world.annotate("web", suspend=None)
        first = await world.until(partial(_find_rolled, world, names), "one is rolled out")
        await world.rolled_out(first)
        for name in names:
            await world.rollout(name)


@pytest.mark.parametrize(
    ("edited", "rolled"),
    [
        pytest.param("after the pod", True, id="after its pod had started"),
        pytest.param("with the pod", True, id="in the second in which its pod started"),
        pytest.param("before the pod", False, id="before its pod started"),
        pytest.param("", False, id="never"),
    ],
)
async def test_source_that_was_waited_for_is_rolled_for_an_edit_in_the_downtime(
    world: World, edited: str, rolled: bool
) -> None:
    """Pods that require it start once it is there, which says nothing about an edit after that."""
    await world.workload()
    await world.run_once()
    await asyncio.sleep(5)
    await world.config_map(LEVEL="info")
    if edited == "before the pod":
        await asyncio.sleep(5)
        await world.edit(LEVEL="debug")
    await asyncio.sleep(5)
    await world.pod("web-1", started=time.time())
    if edited == "after the pod":
        await asyncio.sleep(5)
    if edited in ("after the pod", "with the pod"):
        await world.edit(LEVEL="debug")
    await asyncio.sleep(60)
    await world.run_once()
    assert bool(await world.revision()) is rolled


async def _find_rolled(world: World, names: Sequence[str]) -> str:
    rolled = [name for name in names if await world.revision(name)]
    return rolled[0] if rolled else ""


@pytest.mark.parametrize(("age", "rolled"), [(3600, True), (-60, False)])
async def test_catch_up_rolls_unseen_change(world: World, age: float, rolled: bool) -> None:
    """With `catch-up`, pods that are older than their source's last change are replaced."""
    await world.config_map(LEVEL="info")
    await world.workload(annotations={**FOLLOW, "hotmap.dev/catch-up": "true"})
    await world.pod("web-1", started=time.time() - age)
    await world.run_once()
    assert bool(await world.revision()) is rolled


async def test_edit_and_revert_during_downtime_change_nothing(world: World) -> None:
    """The content equals the last applied one, so nothing is done."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await world.run_once()
    await world.edit(LEVEL="debug")
    await world.edit(LEVEL="info")
    await world.run_once()
    assert await world.revision() == ""


@pytest.mark.parametrize("after", [-20.0, 20.0], ids=["before the end", "after it"])
async def test_pods_that_started_between_two_controllers_are_replaced_for_a_write(
    world: World, after: float
) -> None:
    """It may have been an edit and its revert. When a term ends all is read once more, so the time
    that is not known begins there, and not with what the watch has shown last.
    """
    await world.config_map(LEVEL="info")
    await world.workload()
    async with world.controller() as controller:
        await world.quiet(controller)
        await asyncio.sleep(30)
    ended = time.time()
    await world.pod("web-1", started=ended + after)
    await asyncio.sleep(40)
    await world.merge("ConfigMap", "app", {"metadata": {"labels": {"a": "b"}}})
    async with world.controller() as controller:
        await world.quiet(controller)
        await asyncio.sleep(5)
        await world.quiet(controller)
    assert bool(await world.revision()) is (after > 0)


async def test_source_recreated_during_downtime_counts_by_its_content(world: World) -> None:
    """Another object with the same content is no change, with other content it is one."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await world.run_once()
    await world.delete("ConfigMap", "app")
    await world.config_map(LEVEL="info")
    await world.run_once()
    assert await world.revision() == ""
    await world.delete("ConfigMap", "app")
    await world.config_map(LEVEL="debug")
    async with world.controller():
        await world.rollout()


async def test_pod_that_started_without_a_source_is_replaced_when_that_is_as_before(
    world: World,
) -> None:
    """It was deleted, and came back, while no controller ran; another one ran in between."""
    await world.config_map(LEVEL="info")
    await world.workload(spec=env("LEVEL", optional=True))
    await world.run_once()
    await asyncio.sleep(5)
    await world.delete("ConfigMap", "app")
    await asyncio.sleep(5)
    async with world.controller() as controller:
        await world.quiet(controller)
        await asyncio.sleep(5)
        await world.pod("web-1", started=time.time())
        await asyncio.sleep(5)
    await world.config_map(LEVEL="info")
    await asyncio.sleep(5)
    async with world.controller():
        await world.rollout()


@pytest.mark.parametrize(
    ("existed", "state"),
    [
        pytest.param(True, "latent", id="ignored when it was deleted"),
        pytest.param(False, "current", id="it has never existed"),
    ],
)
async def test_ignored_source_that_is_deleted_while_down_stays_in_pods(
    world: World, existed: bool, state: str
) -> None:
    """Without its annotation it is followed, and nothing else shows that it has existed."""
    await world.config_map("other", LEVEL="info")
    spec = env("LEVEL", source="other")
    spec["containers"][0]["env"] += env("LEVEL", optional=True)["containers"][0]["env"]
    await world.workload(spec=spec)
    if existed:
        await world.config_map(LEVEL="info")
        ignored = {"metadata": {"annotations": {"hotmap.dev/ignore": "true"}}}
        await world.merge("ConfigMap", "app", ignored)
    await world.pod("web-1", started=time.time() + 5)
    await asyncio.sleep(20)
    await world.run_once()
    if existed:
        await world.delete("ConfigMap", "app")
    async with world.controller(pod_checks=SOON) as controller:
        await wait_for_state(world, controller, state)
    assert not await world.revision()


def _every_key(image: str = "app:1") -> dict[str, object]:
    """A pod spec that reads every data key of app into its environment."""
    container = {"name": "main", "image": image, "envFrom": [{"configMapRef": {"name": "app"}}]}
    return {"containers": [container]}


async def test_edit_and_removal_while_down_are_not_proven_by_the_edit(world: World) -> None:
    """The pods started after the edit and before the removal, which left no time behind."""
    now = time.time()
    world.registry.ahead = -600
    await world.config_map(LEVEL="info", EXTRA="on")
    world.registry.ahead = 0.0
    await world.workload(spec=_every_key())
    await world.pod("web-1", started=now - 500)
    await world.run_once()
    world.registry.ahead = -60
    await world.edit(LEVEL="debug")
    world.registry.ahead = 0.0
    await world.delete("Pod", "web-1")
    await world.merge("Deployment", "web", {"spec": {"template": {"spec": _every_key("app:2")}}})
    await world.rolled_out()
    await world.pod("web-2", started=now - 30)
    await world.edit(EXTRA=None)
    async with world.controller():
        await world.rollout()


async def test_revert_while_down_rolls_a_pod_that_started_in_between(world: World) -> None:
    """The content is what was recorded, and one pod has another."""
    await world.config_map(LEVEL="info")
    await world.workload(replicas=2)
    await world.pod("web-1")
    await world.run_once()
    await world.edit(LEVEL="debug")
    await world.pod("web-2", started=time.time())
    await world.edit(LEVEL="info")
    async with world.controller():
        await world.rollout()


async def test_revert_while_down_is_remembered_until_pods_could_be_listed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A controller that may not list pods decides nothing, so the next one has to know."""
    await world.config_map(LEVEL="info")
    await world.workload(replicas=2)
    await world.pod("web-1")
    await world.run_once()
    await world.edit(LEVEL="debug")
    await world.pod("web-2", started=time.time())
    await world.edit(LEVEL="info")
    await asyncio.sleep(10)  # so that pods are listed at once
    attempts = 0

    async def refused(*arguments: object, cached: bool) -> list[Pod]:
        nonlocal attempts
        attempts += 1
        raise api_error(403, "pods is forbidden")

    async def is_refused() -> bool:
        return attempts > 0

    with monkeypatch.context() as patches:
        patches.setattr(term_factory, "list_pods", refused)
        async with world.controller():
            await world.until(is_refused, "pods cannot be listed")
            await asyncio.sleep(1)
    async with world.controller():
        await world.rollout()


async def test_revert_while_down_rolls_no_workload_where_no_pod_started(world: World) -> None:
    """Nothing holds other content."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await world.pod("web-1")
    await world.run_once()
    await world.edit(LEVEL="debug")
    await world.edit(LEVEL="info")
    async with world.controller() as controller:
        await world.quiet(controller)
        await asyncio.sleep(3)  # a pod may be on its way until then
        await world.quiet(controller)
        assert await world.revision() == ""


async def test_edit_of_an_unused_data_key_while_down_casts_no_doubt_on_the_creation(
    world: World,
) -> None:
    """A pod that started in the second of the creation cannot have read what was there before."""
    await world.config_map(LEVEL="info", MODE="a")
    await world.workload(spec=env("LEVEL", optional=True))
    await world.pod("web-1", started=time.time())
    await asyncio.sleep(20)
    async with world.controller(pod_checks=SOON) as controller:
        await wait_for_state(world, controller, "current")
    await asyncio.sleep(20)
    await world.edit(MODE="b")
    async with world.controller(pod_checks=SOON) as controller:
        await asyncio.sleep(20)
        checked = await status(controller, f"?workload=Deployment/{NAMESPACE}/web")
    assert checked["workloads"][0]["state"] == "current", checked
    assert not await world.revision()


#: Flags by which a controller does not watch the namespace of the tests, or its ConfigMaps.
NARROW: dict[str, dict[str, Any]] = {
    "another namespace is served": {"watch_namespaces": ("bank",)},
    "the namespace is ignored": {"ignored_namespaces": (NAMESPACE,)},
    "ConfigMaps are ignored": {
        "defaults": Defaults(dialect=DialectSettings(ignored_sources=frozenset(("ConfigMap",))))
    },
}


@pytest.mark.parametrize("flags", NARROW.values(), ids=NARROW)
async def test_sources_out_of_scope_do_not_count_as_deleted(
    world: World, flags: dict[str, Any]
) -> None:
    """Who does not watch them knows nothing of them, so pods that start meanwhile are kept."""
    await world.namespace("bank")
    await world.config_map(LEVEL="info")
    await world.workload(replicas=3)
    await world.pod("web-1")
    await world.run_once()
    await world.pod("web-2", started=time.time())
    async with world.controller(**flags):
        await asyncio.sleep(1)
    await world.pod("web-3", started=time.time())
    async with world.controller() as controller:
        await world.quiet(controller)
        await asyncio.sleep(30)  # pods of what is new to it are checked later
        await world.quiet(controller)
        assert await world.revision() == ""


@pytest.mark.parametrize("flags", list(NARROW.values())[:2], ids=list(NARROW)[:2])
async def test_revert_while_out_of_scope_rolls_a_pod_that_started_in_between(
    world: World, flags: dict[str, Any]
) -> None:
    """As if no controller had run: the one that did has not watched the namespace."""
    await world.namespace("bank")
    await world.config_map(LEVEL="info")
    await world.workload(replicas=2)
    await world.pod("web-1")
    await world.run_once()
    async with world.controller(**flags):
        await world.edit(LEVEL="debug")
        await world.pod("web-2", started=time.time())
        await world.edit(LEVEL="info")
        await asyncio.sleep(10)
    async with world.controller():
        await world.rollout()


async def test_undo_finds_pods_that_missed_an_edit_of_a_key_unused_meanwhile(world: World) -> None:
    """The template at the edit did not use the data key; pods from before it do, and remain."""
    world.registry.ahead = -60.0
    await world.config_map(LEVEL="info", MODE="fast")
    world.registry.ahead = 0.0
    await world.workload(spec=env("LEVEL", "MODE"))
    await world.pod("web-1", started=time.time() - 30)

    async def use(*keys: str) -> None:
        template = {"spec": env(*keys)}
        await world.merge("Deployment", "web", {"spec": {"template": template, "paused": True}})

    async with world.controller() as controller:
        await world.quiet(controller)
        await use("LEVEL")
        await world.quiet(controller)
        await world.edit(MODE="slow")
        await world.quiet(controller)
        assert await world.revision() == ""
    await use("LEVEL", "MODE")
    await world.merge("Deployment", "web", {"spec": {"paused": False}})
    await world.rolled_out()
    async with world.controller() as controller:
        await world.rollout()
        await world.quiet(controller)  # the decision is logged after its patch
        (entries,) = controller.decision_log.history().values()
        assert "adopt" not in [entry.verdict for entry in entries]


async def test_revert_while_not_followed_rolls_a_pod_that_started_in_between(world: World) -> None:
    """The controller that saw the edits ends before the workload is followed again."""
    await world.config_map(LEVEL="info")
    await world.workload(replicas=2)
    await world.pod("web-1")
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.annotate("web", follow="off")
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.pod("web-2", started=time.time())
        await world.edit(LEVEL="info")
        await world.quiet(controller)
        # So that only what it has stored shows when that was.
        await asyncio.sleep(90)
        await world.quiet(controller)
    async with world.controller() as controller:
        await world.quiet(controller)
        assert await world.revision() == ""
        await world.annotate("web", follow="auto")
        await world.rollout()
