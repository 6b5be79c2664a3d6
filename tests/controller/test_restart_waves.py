"""Restarts in place: pods are told a few at a time, and the next when the former are back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import pytest
from tests.controller.world import FOLLOW, NAMESPACE, World, both, files

from hotmap.controller import term_factory
from hotmap.controller.reconcile import nudges as nudging
from hotmap.controller.reconcile import restart_waves
from hotmap.controller.reconcile.restart_waves import RestartWaves
from hotmap.core.decide import restart_wave
from hotmap.core.decide.restart_wave import RestartProgress
from hotmap.core.decide.snapshot import Snapshot
from hotmap.core.errors import AlreadyExists
from hotmap.core.model.objects import Pod

NAMES = ("web-1", "web-2", "web-3", "web-4", "web-5")

AGENT = {**FOLLOW, "hotmap.dev/agent": "port=9533;restart=term"}


class Agents:
    """What the agents of all pods would say."""

    def __init__(self) -> None:
        self.words: dict[str, RestartProgress] = {}

    async def read(self, snapshot: Snapshot, pods: Sequence[Pod]) -> Mapping[str, RestartProgress]:
        return {
            pod.metadata.uid: self.words.get(pod.metadata.name, RestartProgress(loaded=False))
            for pod in pods
        }


@pytest.fixture
def agents(monkeypatch: pytest.MonkeyPatch) -> Agents:
    """Let the controller ask agents of ours, and look again soon."""
    found = Agents()

    def make(**options: Any) -> RestartWaves:
        return RestartWaves(**{**options, "read_agents": found.read})

    monkeypatch.setattr(term_factory, "RestartWaves", make)
    monkeypatch.setattr(restart_wave, "_CONFIRMED_READY_TIME", 0.0)
    monkeypatch.setattr(nudging, "_WAVE_INTERVAL", 0.05)
    return found


async def nudged_pods(world: World) -> list[str]:
    """List the pods that have a target."""
    return [name for name in NAMES if await world.target(name)]


async def restart_one_after_the_other(world: World, agents: Agents) -> None:
    """Let each pod load the content once it is nudged; no other one is nudged before."""
    for number in range(1, len(NAMES) + 1):

        async def reached(number: int = number) -> bool:
            return len(await nudged_pods(world)) == number

        await world.until(reached, f"{number} pods are told")
        await asyncio.sleep(0.3)
        assert await nudged_pods(world) == list(NAMES[:number])
        agents.words[NAMES[number - 1]] = RestartProgress(loaded=True)


async def prepare(world: World) -> None:
    await world.config_map(LEVEL="info")
    await world.workload(annotations=AGENT, replicas=len(NAMES))
    for name in NAMES:
        await world.pod(name)


async def test_pods_restart_one_after_the_other(world: World, agents: Agents) -> None:
    """A Deployment of five may miss one (25 %); each waits for the one before it."""
    await prepare(world)
    async with world.controller() as controller:
        await world.quiet(controller)
        assert await nudged_pods(world) == []
        await world.edit(LEVEL="debug")
        await restart_one_after_the_other(world, agents)
        await world.quiet(controller)


async def test_pods_that_are_nudged_only_restart_one_after_the_other(
    world: World, agents: Agents
) -> None:
    """Strategy nudge tells their agents of the variables too, which restart the application."""
    await world.config_map(LEVEL="info")
    annotations = {**AGENT, "hotmap.dev/strategy": "nudge"}
    await world.workload(spec=both("LEVEL"), annotations=annotations, replicas=len(NAMES))
    for name in NAMES:
        await world.pod(name, spec=both("LEVEL"))
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.until(lambda: nudged_pods(world), "the first is told")
        await asyncio.sleep(0.3)
        assert await nudged_pods(world) == ["web-1"]


async def prepare_files(world: World) -> None:
    """Create pods whose agents restart the application when files change, as a supervisor does."""
    await world.config_map(LEVEL="info")
    agent = {**FOLLOW, "hotmap.dev/agent": "port=9533;restart=none;files=restart"}
    await world.workload(spec=files(), annotations=agent, replicas=len(NAMES))
    for name in NAMES:
        await world.pod(name, spec=files())


async def test_pods_that_restart_for_files_do_so_one_after_the_other(
    world: World, agents: Agents
) -> None:
    """A nudge makes the kubelet update the files, and the agent restart the application."""
    await prepare_files(world)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await restart_one_after_the_other(world, agents)
        await world.quiet(controller)


async def test_files_that_every_kubelet_has_updated_wait_for_no_budget(
    world: World, agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their agents have restarted the application without a nudge, so that none is prevented."""
    monkeypatch.setattr(nudging, "_STALLED_INTERVAL", 0.05)
    monkeypatch.setattr(restart_waves, "KUBELET_SYNC", 3.0)
    await prepare_files(world)
    await write_budget(world, 0, required=5)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.event("RestartStopped")
        assert await nudged_pods(world) == []

        async def over() -> bool:
            return await nudged_pods(world) == list(NAMES)

        await world.until(over, "all are told")


async def test_next_leader_continues_a_wave(world: World, agents: Agents) -> None:
    """A controller that starts in the middle of a wave restarts the other pods in turn."""
    await prepare(world)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")

        async def begun() -> bool:
            return await nudged_pods(world) == ["web-1"]

        await world.until(begun, "the first is told")
        await asyncio.sleep(0.3)
    agents.words = dict.fromkeys(NAMES, RestartProgress(loaded=True))
    async with world.controller():

        async def over() -> bool:
            return await nudged_pods(world) == list(NAMES)

        await world.until(over, "all are told")


async def test_failure_stops_the_others(world: World, agents: Agents) -> None:
    """An Event says where; other content starts again with the pods that wait."""
    await prepare(world)
    agents.words["web-1"] = RestartProgress(loaded=True)
    agents.words["web-2"] = RestartProgress(loaded=False, failure="did not load the content")
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")

        async def stopped() -> bool:
            return any("web-2 did not load the content" in item for item in await world.messages())

        await world.until(stopped, "an Event")
        assert await nudged_pods(world) == ["web-1", "web-2"]
        (message,) = [item for item in await world.messages() if "web-2" in item]
        assert message == (
            "Pod web-2 did not load the content: 3 of 5 pods keep running with the previous content"
        )
        agents.words = dict.fromkeys(NAMES, RestartProgress(loaded=True))
        await world.edit(LEVEL="info again")

        async def over() -> bool:
            return await nudged_pods(world) == list(NAMES)

        await world.until(over, "all are told")


async def write_budget(
    world: World,
    allowed: int,
    *,
    required: int = 4,
    selector: Mapping[str, Any] | None = None,
) -> None:
    """Create the budget of all pods, or write its status, as kube-controller-manager does."""
    budgets = "poddisruptionbudgets"
    if selector is None:
        selector = {"matchLabels": {"app": "web"}}
    spec = {"selector": selector, "minAvailable": required}
    with suppress(AlreadyExists):
        await world.registry.create(
            budgets, NAMESPACE, {"metadata": {"name": "web"}, "spec": spec}, manager="kubectl"
        )
    status = {
        "observedGeneration": 1,
        "disruptionsAllowed": allowed,
        "desiredHealthy": required,
        "currentHealthy": required + allowed,
        "expectedPods": len(NAMES),
    }
    await world.registry.modify(
        budgets,
        NAMESPACE,
        "web",
        lambda obj: {**obj, "status": status},
        subresource="status",
        manager="kube",
    )


async def test_disruption_budget_limits_restarts(world: World, agents: Agents) -> None:
    """Three may be unavailable, but the budget permits one, and then none."""
    await prepare(world)
    strategy = {"rollingUpdate": {"maxUnavailable": 3}}
    await world.merge("Deployment", "web", {"spec": {"strategy": strategy}})
    await world.rolled_out("web")
    await write_budget(world, 1)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")

        async def first() -> bool:
            return await nudged_pods(world) == ["web-1"]

        await world.until(first, "the first is told")
        await asyncio.sleep(0.3)
        assert await nudged_pods(world) == ["web-1"]
        await write_budget(world, 0)
        agents.words["web-1"] = RestartProgress(loaded=True)
        await asyncio.sleep(0.3)
        assert await nudged_pods(world) == ["web-1"]
        await write_budget(world, 3, required=2)

        async def more() -> bool:
            return await nudged_pods(world) == list(NAMES[:4])

        await world.until(more, "three more are told")


async def test_budget_of_every_pod_is_an_event(
    world: World, agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pods keep their content until the budget changes."""
    monkeypatch.setattr(nudging, "_STALLED_INTERVAL", 0.05)
    agents.words = dict.fromkeys(NAMES, RestartProgress(loaded=True))
    await prepare(world)
    await write_budget(world, 0, required=5)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        assert await world.event("RestartStopped") == (
            "PodDisruptionBudget web requires 5 healthy pods of 5: 5 of 5 pods keep running with "
            "the previous content"
        )
        assert await nudged_pods(world) == []
        await write_budget(world, 1)

        async def over() -> bool:
            return await nudged_pods(world) == list(NAMES)

        await world.until(over, "all are told")


async def test_workloads_share_a_budget(world: World, agents: Agents) -> None:
    """A pod that was told counts for both, before the status of the budget shows it."""
    await world.config_map(LEVEL="info")
    names = ("web-1", "other-1")
    for name in names:
        workload = name.removesuffix("-1")
        await world.workload(workload, annotations=AGENT)
        await world.pod(name, of=workload)
    await write_budget(world, 1, selector={})

    async def nudged() -> list[str]:
        return [name for name in names if await world.target(name)]

    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.until(nudged, "one is told")
        await asyncio.sleep(0.3)
        (first,) = await nudged()
        agents.words[first] = RestartProgress(loaded=True)

        async def both() -> bool:
            return len(await nudged()) == 2

        await world.until(both, "the other is told as well")


async def test_restarts_go_on_without_permission_to_list_budgets(
    world: World, agents: Agents, caplog: pytest.LogCaptureFixture
) -> None:
    """By maxUnavailable, with one line in the log."""
    agents.words = dict.fromkeys(NAMES, RestartProgress(loaded=True))
    await prepare(world)
    world.plane.fail("list", "poddisruptionbudgets.policy", code=403)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")

        async def over() -> bool:
            return await nudged_pods(world) == list(NAMES)

        await world.until(over, "all are told")
    lines = [each for each in caplog.messages if "PodDisruptionBudgets" in each]
    assert len(lines) == 1
    assert lines[0].startswith(
        "cannot list PodDisruptionBudgets: pods restart in place by maxUnavailable only: "
    )


@pytest.mark.parametrize("strategy", ["notify", "rollout"])
@pytest.mark.parametrize("interval", [0.05, 1.0])
async def test_other_strategy_ends_the_wait(
    world: World,
    agents: Agents,
    monkeypatch: pytest.MonkeyPatch,
    strategy: str,
    interval: float,
) -> None:
    """In the middle of the restarts, the pods that wait are not restarted in place any more.

    Neither if their turn was to come before the decision that does not want it, nor after.
    """
    monkeypatch.setattr(nudging, "_WAVE_INTERVAL", interval)
    await prepare(world)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")

        async def begun() -> bool:
            return await nudged_pods(world) == ["web-1"]

        await world.until(begun, "the first is told")
        (before,) = (await world.until(world.recorded, "a record is written")).values()
        await world.annotate("web", strategy=strategy)
        await world.rolled_out("web")

        async def is_recorded() -> bool:
            (record,) = (await world.recorded()).values()
            return bool(record.sources[0].frozen != before.sources[0].frozen)

        await world.until(is_recorded, "the change is recorded")
        await asyncio.sleep(interval)
        await world.quiet(controller)
        assert await nudged_pods(world) == ["web-1"]


async def test_suspension_ends_the_wait(world: World, agents: Agents) -> None:
    """The pods that wait are not told until it is over, though the first one is back."""
    await prepare(world)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")

        async def begun() -> bool:
            return await nudged_pods(world) == ["web-1"]

        await world.until(begun, "the first is told")
        await world.annotate("web", suspend="true")
        await world.rolled_out("web")
        await world.event("Held")
        agents.words = dict.fromkeys(NAMES, RestartProgress(loaded=True))
        await world.quiet(controller)
        assert await nudged_pods(world) == ["web-1"]
        await world.annotate("web", suspend=None)
        await world.rolled_out("web")

        async def over() -> bool:
            return await nudged_pods(world) == list(NAMES)

        await world.until(over, "all are told")
