"""People, autoscalers, GitOps tools and kubelets are at work while hotmap is."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from tests.support.story import Object, Story

from hotmap.kube.resources import PODS

#: Seconds by which clocks of nodes and API server may differ.
SKEW = 600


def _template(**annotations: str | None) -> Object:
    """A patch of the pod template's annotations; `version` is the owner's, `revision` hotmap's."""
    names = {"version": "shop.test/version", "revision": "hotmap.dev/revision"}
    wanted = {names[name]: value for name, value in annotations.items()}
    return {"spec": {"template": {"metadata": {"annotations": wanted}}}}


async def test_hundred_edits_in_two_seconds_converge(crowd: Story) -> None:
    """With the default settle time, each consumer is rolled twice at most."""
    await crowd.set_up()
    names = [f"web-{number}" for number in range(10)]
    await crowd.deployments(names)
    async with crowd.controller("--settle=500ms", "--settle-max=5s") as controller:
        await controller.ready()
        await crowd.arrived()
        for number in range(100):
            await crowd.edit(LEVEL=f"v{number}")
            await asyncio.sleep(0.02)
        for name in names:
            await crowd.rolled(name)
        await crowd.ends_well({"web": 2, **dict.fromkeys(names, 2)})


async def test_autoscaler_writes_cause_no_rollout(shop: Story) -> None:
    """Decisions on what it has just changed are made again, and its count is never touched."""
    await shop.set_up()
    counts = [2 + number % 5 for number in range(60)]

    async def scale() -> None:
        for count in counts:
            await shop.patch("Deployment", "web", {"spec": {"replicas": count}}, manager="hpa")
            await asyncio.sleep(0.02)

    async with shop.controller() as controller:
        await controller.ready()
        await shop.arrived()
        scaling = asyncio.create_task(scale())
        for number in range(3):
            await shop.edit(LEVEL=f"v{number}")
            await asyncio.sleep(0.4)
        await scaling
        await shop.rolled()
        await shop.ends_well({"web": 3})
    assert (await shop.get("Deployment", "web"))["spec"]["replicas"] == counts[-1]


@pytest.mark.parametrize(
    "revision",
    [
        pytest.param(None, id="stripped"),
        pytest.param("AAAA.forged-value", id="forged with another key"),
        pytest.param("own", id="forged with our key"),
    ],
)
async def test_foreign_revision_write_is_left_alone(shop: Story, revision: str | None) -> None:
    """It is theirs to do: hotmap does not fight, and the next edit counts as ever."""
    await shop.set_up()
    async with shop.controller() as controller:
        await controller.ready()
        await shop.arrived()
        for times in (1, 2):
            await shop.edit(LEVEL=f"v{times}")
            await shop.rolled(times=times)
            await shop.rolled_out()
            if revision == "own":
                revision = (await shop.revision()).split(".")[0] + ".forged-value"
            await shop.patch("Deployment", "web", _template(revision=revision), manager="gitops")
            await shop.rolled_out()
            await shop.arrived()
            assert len(shop.rollouts.of("web")) == times
        assert not await shop.stale_pods()
        await shop.ends_well({"web": 2}, left_alone=("web",))


@pytest.mark.parametrize("skews", [(-SKEW,), (SKEW,), (0, SKEW, -SKEW)])
async def test_wrong_node_clocks_are_tolerated(shop: Story, skews: Sequence[int]) -> None:
    """A restart rolls nobody, an edit is one rollout, an edit that is taken back is none."""
    shop.pods.skews = skews
    await shop.set_up(replicas=2)
    async with shop.controller("--settle=300ms") as controller:
        await controller.ready()
        await shop.arrived()
        await shop.edit(LEVEL="debug")
        await shop.rolled()
        await shop.runs_with_the_present_content()
        await shop.aged()
        await shop.edit(LEVEL="trace")
        await shop.edit(LEVEL="debug")
        await shop.arrived()
        assert len(shop.rollouts.of("web")) == 1
        assert await controller.stop() == 0
    async with shop.controller() as controller:
        await controller.ready()
        await shop.ends_well({"web": 1})


@pytest.mark.parametrize("skew", [0, -SKEW, SKEW])
async def test_source_and_image_edited_together(shop: Story, skew: int) -> None:
    """As `helm upgrade` does: the owner's own rollout brings the content; no second one."""
    shop.pods.skews = (skew,)
    await shop.set_up(replicas=3)
    async with shop.controller() as controller:
        await controller.ready()
        await shop.arrived()
        await shop.edit(LEVEL="debug")
        await shop.patch("Deployment", "web", _template(version="2"), manager="helm")
        await shop.rolled_out()
        await shop.arrived()
        await shop.runs_with_the_present_content()
        await shop.ends_well({"web": 0})


async def test_undo_rolls_nothing(shop: Story) -> None:
    """It brings back an old template, whose pods read what is there now: nothing to do."""
    await shop.set_up(replicas=2)
    async with shop.controller() as controller:
        await controller.ready()
        await shop.arrived()
        for times in (1, 2):
            await shop.edit(LEVEL=f"v{times}")
            await shop.rolled(times=times)
            await shop.runs_with_the_present_content()
        first = shop.rollouts.of("web")[0]
        await shop.patch("Deployment", "web", _template(revision=first), manager="kubectl-rollout")
        await shop.rolled_out()
        await shop.arrived()
        await shop.runs_with_the_present_content()
        assert await shop.revision() == first
        await shop.edit(LEVEL="v3")
        await shop.rolled(times=3)
        await shop.runs_with_the_present_content()
        await shop.ends_well({"web": 3})


@pytest.mark.parametrize(
    ("skews", "ahead"),
    [
        pytest.param((0,), 0, id="all clocks are right"),
        pytest.param((-SKEW,), 0, id="nodes are behind"),
        pytest.param((SKEW,), 0, id="nodes are ahead"),
        pytest.param((0, SKEW, -SKEW), 0, id="some nodes are wrong"),
        pytest.param((0,), -SKEW, id="the controller is behind"),
        pytest.param((0, SKEW), SKEW, id="the controller is ahead, and some nodes"),
    ],
)
async def test_pod_recreated_between_edit_and_revert_is_rolled(
    shop: Story, skews: Sequence[int], ahead: int
) -> None:
    """The pod holds the other content, so its consumer is rolled: no mixed fleet stays."""
    shop.pods.skews = skews
    await shop.set_up(replicas=3)
    async with shop.controller("--settle=1s", "--settle-max=5s", ahead=ahead) as controller:
        await controller.ready()
        await shop.arrived()
        await shop.edit(LEVEL="debug")
        victim = next(name for name in shop.pods.read if name.startswith("web-"))
        await shop.client.delete(PODS, shop.namespace, victim, grace_period=0)

        async def mixed() -> bool:
            levels = [read["LEVEL"] for name, read in shop.pods.read.items() if "web-" in name]
            return sorted(levels) == ["debug", "info", "info"]

        await shop.until(mixed, "the pod was made anew")
        await shop.edit(LEVEL="info")
        await shop.rolled()
        await shop.runs_with_the_present_content()
        await shop.ends_well({"web": 1})


async def test_recreated_immutable_source_is_held(shop: Story) -> None:
    """Kubelets would go on serving the old content: held, with a Warning that names the remedy."""
    await shop.set_up()
    await shop.patch("ConfigMap", "app", {"immutable": True})
    async with shop.controller() as controller:
        await controller.ready()
        await shop.arrived()
        await shop.delete("ConfigMap", "app")
        await shop.config_map(LEVEL="debug")
        await shop.arrived()
        held = await shop.messages("Held")
        assert "Use a new name, or scale to zero first" in held[-1], held
        await shop.ends_well({"web": 0})


async def test_recreated_source_rolls_only_with_other_content(shop: Story) -> None:
    """With the same content nothing is done, with other content it is a change."""
    await shop.set_up()
    async with shop.controller() as controller:
        await controller.ready()
        await shop.arrived()
        await shop.aged()
        await shop.delete("ConfigMap", "app")
        await shop.config_map(LEVEL="info")
        await shop.arrived()
        assert shop.rollouts.of("web") == []
        await shop.delete("ConfigMap", "app")
        await shop.config_map(LEVEL="debug")
        await shop.rolled()
        await shop.runs_with_the_present_content()
        await shop.ends_well({"web": 1})


async def test_workloads_deleted_and_created_during_fan_out(crowd: Story) -> None:
    """Deleted between decision and write, or made anew: nothing fails, nothing is made."""
    await crowd.set_up()
    names = [f"web-{number}" for number in range(30)]
    await crowd.deployments(names)
    async with crowd.controller("--workers=1") as controller:
        await controller.ready()
        await crowd.arrived()
        await crowd.edit(LEVEL="debug")
        for name in names[::2]:
            await crowd.delete("Deployment", name)
        for name in names[1::2]:
            await crowd.rolled(name)
        await crowd.ends_well({"web": 1, **dict.fromkeys(names[1::2], 1)})
        assert "retrying in" not in controller.log()
