"""Whatever the API server does, what was edited meanwhile is found, and nothing else is done."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.cluster.proxy import FaultProxy
from tests.faults.controller.conftest import Through
from tests.support.control_plane import ControlPlane
from tests.support.scenario import Scenario

from hotmap.core.errors import api_error

#: Minutes of waiting or of processor time, too much after each edit.
pytestmark = pytest.mark.slow


async def test_watches_resume_after_a_restart_of_the_api_server(
    plane: ControlPlane, podless_scenario: Scenario
) -> None:
    """Watches are resumed where they were, and what was edited in the gap is done."""
    await podless_scenario.set_up()
    async with podless_scenario.started_controller():
        await plane.stop()
        await plane.registry.modify(
            "configmaps",
            podless_scenario.namespace,
            "app",
            _with_level("debug"),
            manager="kubectl-edit",
        )
        await asyncio.sleep(1)  # so that some attempts meet a closed port
        await plane.start()
        await podless_scenario.wait_for_rollouts()
        await podless_scenario.check_invariants({"web": 1})


async def test_outage_longer_than_the_lease_rolls_only_what_changed(
    plane: ControlPlane, through: Through, podless_scenario: Scenario
) -> None:
    """The Lease is lost and taken again; edits that were reverted meanwhile cause no rollout."""
    await podless_scenario.set_up()
    await podless_scenario.config_map("calm", LEVEL="info")
    await podless_scenario.deployment("calm", source="calm")
    with FaultProxy(plane.port) as wire:
        behind = podless_scenario.controller("--leader-elect", kubeconfig=through(wire.port))
        async with behind as controller:
            await controller.ready()
            await podless_scenario.wait_until_handled()
            wire.cut()
            await podless_scenario.edit(LEVEL="debug")
            await podless_scenario.edit("calm", LEVEL="debug")
            await controller.wait_for_output("lost leadership")
            await podless_scenario.edit("calm", LEVEL="info")
            wire.heal()
            await podless_scenario.wait_for_rollouts(within=120)
            await podless_scenario.check_invariants({"web": 1})


async def test_slow_apiserver_rolls_once(
    plane: ControlPlane, through: Through, podless_scenario: Scenario
) -> None:
    """Every answer comes a second late: things take longer, and nothing is done twice."""
    await podless_scenario.set_up()
    with FaultProxy(plane.port) as wire:
        async with podless_scenario.started_controller(
            "--leader-elect", kubeconfig=through(wire.port)
        ):
            wire.delay(0.5)
            await podless_scenario.edit(LEVEL="debug")
            await podless_scenario.wait_for_rollouts()
            await podless_scenario.edit(LEVEL="trace")
            await podless_scenario.wait_for_rollouts(times=2)
            wire.heal()
            await podless_scenario.check_invariants({"web": 2})


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        pytest.param(429, "TooManyRequests", id="429", marks=pytest.mark.slow),
        pytest.param(500, "InternalError", id="500"),
    ],
)
async def test_failing_writes_are_retried(
    plane: ControlPlane, podless_scenario: Scenario, code: int, reason: str
) -> None:
    """Rollouts and records are tried again until they are taken, each consumer by itself."""
    await podless_scenario.set_up()
    names = [f"web-{number}" for number in range(10)]
    await podless_scenario.deployments(names)
    met: dict[str, int] = {}

    async def fail(plural: str, namespace: str | None, name: str, patch: Any) -> None:
        met[name] = met.get(name, 0) + 1
        if name in names and met[name] <= 1:
            raise api_error(code, "not now", reason=reason)

    async with podless_scenario.started_controller():
        plane.registry.guards.append(fail)
        await podless_scenario.edit(LEVEL="debug")
        for name in ("web", *names):
            await podless_scenario.wait_for_rollouts(name)
        assert all(met[name] >= 2 for name in names)
        plane.registry.guards.clear()
        await podless_scenario.check_invariants({"web": 1, **dict.fromkeys(names, 1)})


@pytest.mark.cluster  # slow, and no more
async def test_silent_watch_is_restarted(
    plane: ControlPlane, through: Through, podless_scenario: Scenario
) -> None:
    """The connection looks alive; the silence is noticed within 75 s, and the edit found."""
    await podless_scenario.set_up()
    with FaultProxy(plane.port) as wire:
        async with podless_scenario.started_controller(kubeconfig=through(wire.port)):
            wire.half_open()
            await podless_scenario.edit(LEVEL="debug")
            await podless_scenario.wait_for_rollouts(within=120)
            await podless_scenario.check_invariants({"web": 1})


def _with_level(level: str) -> Any:
    return lambda config_map: {**config_map, "data": {**config_map["data"], "LEVEL": level}}
