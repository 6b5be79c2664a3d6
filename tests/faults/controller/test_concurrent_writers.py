"""People, autoscalers, GitOps tools and kubelets are at work while hotmap is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest
from tests.support.scenario import Object, Scenario

from hotmap.kube.resources import PODS

#: Minutes of waiting or of processor time, too much after each edit.
pytestmark = pytest.mark.slow

#: Seconds by which clocks of nodes and API server may differ.
SKEW = 600


def _template(**annotations: str | None) -> Object:
    """A patch of the pod template's annotations; `version` is the owner's, `revision` hotmap's."""
    names = {"version": "shop.test/version", "revision": "hotmap.dev/revision"}
    wanted = {names[name]: value for name, value in annotations.items()}
    return {"spec": {"template": {"metadata": {"annotations": wanted}}}}


async def test_hundred_edits_in_two_seconds_converge(podless_scenario: Scenario) -> None:
    """With the default settle time, each consumer is rolled twice at most."""
    await podless_scenario.set_up()
    names = [f"web-{number}" for number in range(10)]
    await podless_scenario.deployments(names)
    async with podless_scenario.started_controller("--settle=500ms", "--settle-max=5s"):
        began = time.monotonic()
        for number in range(100):
            await podless_scenario.edit(LEVEL=f"v{number}")
            await asyncio.sleep(0.02)
        for name in names:
            await podless_scenario.wait_for_rollouts(name)
        # A machine that takes longer for them has room for more.
        most = 2 + int((time.monotonic() - began) / 5)
        await podless_scenario.check_invariants({"web": most, **dict.fromkeys(names, most)})


async def test_autoscaler_writes_cause_no_rollout(shop: Scenario) -> None:
    """Decisions on what it has just changed are made again, and its count is never touched."""
    await shop.set_up()
    counts = [2 + number % 5 for number in range(60)]

    async def scale() -> None:
        for count in counts:
            await shop.patch("Deployment", "web", {"spec": {"replicas": count}}, manager="hpa")
            await asyncio.sleep(0.02)

    async with shop.started_controller():
        scaling = asyncio.create_task(scale())
        for number in range(3):
            await shop.edit(LEVEL=f"v{number}")
            await asyncio.sleep(0.4)
        await scaling
        await shop.wait_for_rollouts()
        await shop.check_invariants({"web": 3})
    assert (await shop.get("Deployment", "web"))["spec"]["replicas"] == counts[-1]


@pytest.mark.parametrize(
    "revision",
    [
        pytest.param(None, id="stripped", marks=pytest.mark.slow),
        pytest.param("AAAA.forged-value", id="forged with another key", marks=pytest.mark.slow),
        pytest.param("own", id="forged with our key"),
    ],
)
async def test_foreign_revision_write_is_left_alone(shop: Scenario, revision: str | None) -> None:
    """It is theirs to do: hotmap does not fight, and the next edit counts as ever."""
    await shop.set_up()
    async with shop.started_controller():
        for times in (1, 2):
            await shop.edit(LEVEL=f"v{times}")
            await shop.wait_for_rollouts(times=times)
            await shop.wait_for_rollout_end()
            if revision == "own":
                revision = (await shop.revision()).split(".")[0] + ".forged-value"
            await shop.patch("Deployment", "web", _template(revision=revision), manager="gitops")
            await shop.wait_for_rollout_end()
            await shop.wait_until_handled()
            assert len(shop.rollouts.of("web")) == times
        assert not await shop.stale_pods()
        await shop.check_invariants({"web": 2}, left_alone=("web",))


@pytest.mark.parametrize(
    "skews",
    [
        (0, SKEW, -SKEW),
        pytest.param((-SKEW,), marks=pytest.mark.slow),
        pytest.param((SKEW,), marks=pytest.mark.slow),
    ],
)
async def test_wrong_node_clocks_are_tolerated(shop: Scenario, skews: Sequence[int]) -> None:
    """A restart causes no rollout, an edit one, an edit that is reverted none."""
    shop.pods.skews = skews
    await shop.set_up(replicas=2)
    async with shop.started_controller("--settle=1s", "--settle-max=9s") as controller:
        await shop.edit(LEVEL="debug")
        await shop.wait_for_rollouts()
        await shop.wait_until_current()
        await shop.wait_until_pods_are_older()
        await shop.edit(LEVEL="trace")
        await shop.edit(LEVEL="debug")
        await shop.wait_until_handled()
        assert len(shop.rollouts.of("web")) == 1
        assert await controller.stop() == 0
    async with shop.controller() as controller:
        await controller.ready()
        await shop.check_invariants({"web": 1})


@pytest.mark.parametrize(
    "skew",
    [
        -SKEW,
        pytest.param(0, marks=pytest.mark.slow),
        pytest.param(SKEW, marks=pytest.mark.slow),
    ],
)
async def test_source_and_image_edited_together_are_one_rollout(shop: Scenario, skew: int) -> None:
    """As `helm upgrade` does: the owner's own rollout brings the content; no second one."""
    shop.pods.skews = (skew,)
    await shop.set_up(replicas=3)
    # Long enough for both on a busy machine.
    async with shop.started_controller("--settle=1s", "--settle-max=9s"):
        await shop.edit(LEVEL="debug")
        await shop.patch("Deployment", "web", _template(version="2"), manager="helm")
        await shop.wait_for_rollout_end()
        await shop.wait_until_handled()
        await shop.wait_until_current()
        await shop.check_invariants({"web": 0})


async def test_undo_rolls_nothing(shop: Scenario) -> None:
    """It brings back an old template, whose pods read what is there now: nothing to do."""
    await shop.set_up(replicas=2)
    async with shop.started_controller():
        for times in (1, 2):
            await shop.edit(LEVEL=f"v{times}")
            await shop.wait_for_rollouts(times=times)
            await shop.wait_until_current()
        first = shop.rollouts.of("web")[0]
        await shop.patch("Deployment", "web", _template(revision=first), manager="kubectl-rollout")
        await shop.wait_for_rollout_end()
        await shop.wait_until_handled()
        await shop.wait_until_current()
        assert await shop.revision() == first
        await shop.edit(LEVEL="v3")
        await shop.wait_for_rollouts(times=3)
        await shop.wait_until_current()
        await shop.check_invariants({"web": 3})


@pytest.mark.parametrize(
    ("skews", "ahead"),
    [
        pytest.param((0,), 0, id="all clocks are right", marks=pytest.mark.slow),
        pytest.param((-SKEW,), 0, id="nodes are behind", marks=pytest.mark.slow),
        pytest.param((SKEW,), 0, id="nodes are ahead", marks=pytest.mark.slow),
        pytest.param((0, SKEW, -SKEW), 0, id="some nodes are wrong", marks=pytest.mark.slow),
        pytest.param((0,), -SKEW, id="the controller is behind", marks=pytest.mark.slow),
        pytest.param((0, SKEW), SKEW, id="the controller is ahead, and some nodes"),
    ],
)
async def test_pod_recreated_between_edit_and_revert_is_rolled(
    shop: Scenario, skews: Sequence[int], ahead: int
) -> None:
    """The pod holds the other content, so its consumer is rolled: no mixed fleet stays."""
    shop.pods.skews = skews
    await shop.set_up(replicas=3)
    async with shop.started_controller("--settle=1s", "--settle-max=5s", ahead=ahead):
        await shop.edit(LEVEL="debug")
        victim = next(name for name in shop.pods.read if name.startswith("web-"))
        await shop.client.delete(PODS, shop.namespace, victim, grace_period=0)

        async def mixed() -> bool:
            levels = [read["LEVEL"] for name, read in shop.pods.read.items() if "web-" in name]
            return sorted(levels) == ["debug", "info", "info"]

        await shop.until(mixed, "the pod was recreated")
        await shop.edit(LEVEL="info")
        await shop.wait_for_rollouts()
        await shop.wait_until_current()
        await shop.check_invariants({"web": 1})


async def test_recreated_immutable_source_is_held(shop: Scenario) -> None:
    """Kubelets would go on serving the old content: held, with a Warning that names the remedy."""
    await shop.set_up()
    await shop.patch("ConfigMap", "app", {"immutable": True})
    async with shop.started_controller():
        await shop.delete("ConfigMap", "app")
        await shop.config_map(LEVEL="debug")
        await shop.wait_until_handled()
        held = await shop.messages("Held")
        assert "Use a new name, or scale to zero until it is not held any more" in held[-1], held
        await shop.check_invariants({"web": 0})


async def test_recreated_source_rolls_only_with_other_content(shop: Scenario) -> None:
    """With the same content nothing is done, with other content it is a change."""
    await shop.set_up()
    async with shop.started_controller():
        await shop.wait_until_pods_are_older()
        await shop.delete("ConfigMap", "app")
        await shop.config_map(LEVEL="info")
        await shop.wait_until_handled()
        assert shop.rollouts.of("web") == []
        await shop.delete("ConfigMap", "app")
        await shop.config_map(LEVEL="debug")
        await shop.wait_for_rollouts()
        await shop.wait_until_current()
        await shop.check_invariants({"web": 1})


async def test_workloads_deleted_and_created_during_fan_out(podless_scenario: Scenario) -> None:
    """Deleted between decision and write, or recreated: nothing fails, nothing is made."""
    await podless_scenario.set_up()
    names = [f"web-{number}" for number in range(30)]
    await podless_scenario.deployments(names)
    async with podless_scenario.started_controller("--workers=1") as controller:
        await podless_scenario.edit(LEVEL="debug")
        for name in names[::2]:
            await podless_scenario.delete("Deployment", name)
        for name in names[1::2]:
            await podless_scenario.wait_for_rollouts(name)
        await podless_scenario.check_invariants({"web": 1, **dict.fromkeys(names[1::2], 1)})
        assert "retrying in" not in controller.log()
