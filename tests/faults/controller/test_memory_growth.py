"""What one namespace's owner creates does not stay in the controller's memory once it is gone.

Sizes as one tenant may reach them on a real cluster. The figures are printed; what is asserted is
far above them, and far below what each cost while nothing was dropped (58, 98 and 79 MiB).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.support.control_plane import ControlPlane
from tests.support.hostile_tenants import config_map, deployment, pod_spec
from tests.support.scenario import Scenario

from hotmap.kube.resources import NAMESPACES

EVIL = "evil"

#: MiB.
_MOST_GROWTH = 40.0


async def short_lived_config_maps(plane: ControlPlane) -> None:
    """24,000 ConfigMaps that are created and deleted."""
    for number in range(24_000):
        name = f"gone-{number}"
        await plane.registry.create(
            "configmaps", EVIL, config_map(name, {"LEVEL": "1"}), manager="evil"
        )
        await plane.registry.delete("configmaps", EVIL, name)
        if not number % 50:
            await asyncio.sleep(0)


async def large_annotations(plane: ControlPlane) -> None:
    """200 workloads with 250 KB of annotations."""
    said = {"hotmap.dev/follow": "auto", "hotmap.dev/settle": "x" * 125_000, "n": "y" * 125_000}
    for number in range(200):
        body = deployment(f"evil-{number}", pod_spec(), dict(said))
        await plane.registry.create("deployments", EVIL, body, manager="evil")
        await asyncio.sleep(0)


async def foreign_config_maps(plane: ControlPlane) -> None:
    """5 MB of ConfigMaps without a consumer, with very many data keys."""
    for number in range(50):
        data = {f"key-{number}-{k}": "" for k in range(5_000)}
        await plane.registry.create(
            "configmaps", EVIL, config_map(f"many-{number}", data), manager="evil"
        )
        await asyncio.sleep(0)


def resident(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no VmRSS")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "attack",
    [short_lived_config_maps, large_annotations, foreign_config_maps],
    ids=lambda attack: attack.__name__,
)
async def test_memory_does_not_grow_with_what_a_tenant_creates(
    podless_scenario: Scenario,
    plane: ControlPlane,
    attack: Callable[[ControlPlane], Awaitable[None]],
    record_property: Callable[[str, object], None],
) -> None:
    """Measured when everything has arrived: an edit of the others comes after it."""
    await podless_scenario.set_up()
    body = {"metadata": {"name": EVIL}}
    await podless_scenario.client.create(NAMESPACES, None, body, type=dict)
    async with podless_scenario.controller("--log-level=info", also=EVIL) as controller:
        await controller.ready()
        await podless_scenario.edit(LEVEL="before")
        await podless_scenario.wait_for_rollouts(times=1, within=120)
        pid = controller.process.pid
        before = resident(pid)
        await attack(plane)
        await podless_scenario.edit(LEVEL="after")
        await podless_scenario.wait_for_rollouts(times=2, within=300)
        await asyncio.sleep(2)
        grown = resident(pid) - before
        record_property("resident", f"{before:.1f} MiB, {grown:+.1f} MiB after it")
        assert grown < _MOST_GROWTH
        longest = max(map(len, controller.log().splitlines()), default=0)
        assert longest < 4096, "a log line has a whole annotation"
