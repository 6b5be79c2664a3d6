"""Others write where hotmap's rollouts are written: told once, never fought, never a loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

import pytest
from tests.support.controller_process import ControllerProcess
from tests.support.reloader_process import reloader
from tests.support.scenario import OWN, Object, Scenario

from hotmap.kube.resources import NAMESPACES

#: Minutes of waiting or of processor time, too much after each edit.
pytestmark = pytest.mark.slow


def _template(revision: str | None) -> Object:
    annotations = {"hotmap.dev/revision": revision}
    return {"spec": {"template": {"metadata": {"annotations": annotations}}}}


async def _list_warnings(scenario: Scenario, reason: str) -> list[tuple[str, int]]:
    """List what Warnings of a reason say of web, and how often."""
    return [
        (event["message"], event.get("count", 1))
        for event in await scenario.events(reason)
        if event["type"] == "Warning" and event["involvedObject"]["name"] == "web"
    ]


async def _count(controller: ControllerProcess, kind: str) -> float:
    """Read how many writes of others a controller has told of."""
    line = f'hotmap_template_conflicts_total{{kind="{kind}"}} '
    found = [item for item in (await controller.get("/metrics")).splitlines() if line in item]
    return float(found[0].removeprefix(line))


@asynccontextmanager
async def taking_back(scenario: Scenario, name: str = "web") -> AsyncIterator[list[str]]:
    """Take back every rollout of a consumer at once, as a GitOps tool that replaces it does."""
    taken: list[str] = []

    async def run() -> None:
        while True:
            if revision := await scenario.revision(name):
                taken.append(revision)
                await scenario.patch("Deployment", name, _template(None), manager="argocd")
            await asyncio.sleep(0.02)

    task = asyncio.create_task(run())
    try:
        yield taken
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(
    ("revision", "words", "kind"),
    [
        pytest.param(None, "was removed from its pod template", "removed", id="stripped"),
        pytest.param("AAAA.forged", "was overwritten by gitops", "overwritten", id="forged"),
    ],
)
async def test_conflict_is_reported_once(
    shop: Scenario, revision: str | None, words: str, kind: str
) -> None:
    """By a Warning that says what to do, and by a metric; not again by the next controller."""
    await shop.set_up()
    async with shop.started_controller() as controller:
        await shop.edit(LEVEL="debug")
        await shop.wait_for_rollouts()
        await shop.wait_for_rollout_end()
        await shop.patch("Deployment", "web", _template(revision), manager="gitops")
        await shop.wait_for_rollout_end()

        async def is_reported() -> list[tuple[str, int]]:
            return await _list_warnings(shop, "RevisionChanged")

        ((message, count),) = await shop.until(is_reported, "a Warning tells of it")
        assert words in message
        assert "docs/guides/gitops.md" in message
        await shop.wait_until_handled()
        assert (await _count(controller, kind), count) == (1, 1)
        status = await controller.get("/v1/status?workload=shop/web")
        assert words in status
        assert await controller.stop() == 0
    async with shop.started_controller() as controller:
        assert await _list_warnings(shop, "RevisionChanged") == [(message, 1)]
        assert await _count(controller, kind) == 0
        await shop.edit(LEVEL="trace")
        await shop.wait_for_rollouts(times=2)
        await shop.wait_until_current()
        await shop.check_invariants({"web": 2})


async def test_reverted_rollouts_are_held(shop: Scenario) -> None:
    """Each change is rolled once, and told of once: two who write never drive each other."""
    await shop.set_up()
    async with shop.controller() as controller, taking_back(shop) as taken:
        await controller.ready()
        await shop.wait_until_handled()
        for times in (1, 2, 3):
            await shop.edit(LEVEL=f"v{times}")
            await shop.wait_for_rollouts(times=times)

            async def back(times: int = times) -> bool:
                return len(taken) == times and await _count(controller, "removed") == times

            await shop.until(back, "it is taken back, and that is told")
        await shop.wait_until_handled()
        assert len(taken) == len(shop.rollouts.of("web")) == 3
        warnings = await _list_warnings(shop, "RevisionChanged")
        assert sum(count for _, count in warnings) == 3
        await shop.check_invariants({"web": 3}, left_alone=("web",))


async def test_hold_names_the_writer_of_the_source(shop: Scenario) -> None:
    """The flap breaker says who keeps changing the source, and what becomes of the rollouts."""
    await shop.set_up()
    async with (
        shop.controller("--flap-limit=2", "--settle=0s") as controller,
        taking_back(shop) as taken,
    ):
        await controller.ready()
        await shop.wait_until_handled()
        for times in (1, 2):
            await shop.edit(LEVEL=f"v{times}")
            await shop.wait_for_rollouts(times=times)

            async def back(times: int = times) -> bool:
                return len(taken) == times and await _count(controller, "removed") == times

            await shop.until(back, "it is taken back")
        await shop.edit(LEVEL="v3")

        async def held() -> list[tuple[str, int]]:
            return await _list_warnings(shop, "Held")

        ((message, _),) = await shop.until(held, "a Warning says that it is held")
        assert "rollout suppressed since" in message
        assert "2 rollouts in 1m" in message
        assert "last modified by kubectl-edit" in message
        assert "was removed from its pod template. " in message, "a removal leaves no trace"
        assert len(shop.rollouts.of("web")) == 2


# -- others of our kind ------------------------------------------------------------------------


@pytest.fixture
async def second_home(shop: Scenario) -> str:
    """A namespace for the Secrets of another hotmap, whose keys are others then."""
    name = f"{shop.namespace}-{OWN}-2"
    await shop.client.create(NAMESPACES, None, {"metadata": {"name": name}}, type=Object)
    return name


async def _settled(scenario: Scenario, processes: Collection[ControllerProcess]) -> None:
    """Wait until no controller has anything to do at once; holds may remain."""

    async def quiet() -> bool:
        texts = [await process.get("/metrics") for process in processes]
        return not any(
            line.startswith("hotmap_queue_depth") and not line.endswith(" 0.0")
            for text in texts
            for line in text.splitlines()
            if 'state="ready"' in line or 'state="processing"' in line
        )

    await scenario.until(quiet, "no controller has anything to do")


@pytest.mark.slow
async def test_second_hotmap_is_reported(shop: Scenario, second_home: str) -> None:
    """The second controller reports it: a Warning, a metric, and one rollout for each change.

    The other one goes, the next change after its time is ours alone.
    """
    await shop.set_up(replicas=2)
    ours = shop.controller("--settle=400ms")
    other = shop.controller(f"--namespace={second_home}", "--settle=50ms")
    async with ours as controller, other as another:
        await controller.ready()
        await another.ready()
        await _settled(shop, (controller, another))
        for times in (1, 2, 3):
            await shop.edit(LEVEL=f"v{times}")
            await shop.wait_for_rollouts(times=times)
            await shop.wait_until_current()

            async def is_reported(times: int = times) -> bool:
                return await _count(controller, "hotmap") == times

            await shop.until(is_reported, "ours tells of the other")
            await shop.wait_until_pods_are_older()
        assert len(shop.rollouts.of("web")) == 3
        assert await _count(another, "hotmap") == 0
        ((message, count),) = await _list_warnings(shop, "OtherController")
        assert (message[:34], count) == ("another hotmap also rolls it out, ", 3)
        await another.kill()
        await shop.edit(LEVEL="alone")

        async def held() -> list[tuple[str, int]]:
            return await _list_warnings(shop, "Held")

        ((message, _),) = await shop.until(held, "ours waits whether the other does it")
        assert "another hotmap also rolls it out" in message
        assert len(shop.rollouts.of("web")) == 3


@pytest.mark.slow
async def test_reloader_beside_is_reported_once(shop: Scenario) -> None:
    """It rolls whatever hotmap does: a Warning, a metric, and then hotmap leaves it to Reloader."""
    await shop.set_up(replicas=2)
    async with (
        shop.started_controller("--settle=50ms") as controller,
        reloader(shop.kubeconfig, shop.namespace),
    ):
        await shop.edit(LEVEL="v1")

        async def is_reported() -> bool:
            return await _count(controller, "reloader") == 1

        await shop.until(is_reported, "a metric tells of it")
        await shop.wait_until_current()
        ((message, count),) = await _list_warnings(shop, "OtherController")
        assert (message[:28], count) == ("Reloader also rolls it out, ", 1)
        before = len(shop.rollouts.of("web"))
        await shop.wait_until_pods_are_older()
        for level in ("v2", "v3"):
            await shop.edit(LEVEL=level)
            await shop.wait_until_current()
            await shop.wait_until_pods_are_older()
        assert len(shop.rollouts.of("web")) == before <= 1
