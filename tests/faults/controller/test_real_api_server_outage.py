"""Upstream's own API server is gone for a minute, dies, and comes back without its history."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.cluster import layout, machine
from tests.cluster.cluster import Cluster
from tests.cluster.fixtures import private_control_plane
from tests.cluster.proxy import FaultProxy
from tests.support.scenario import Scenario, scenario

from hotmap.kube.client import Client
from hotmap.kube.kubeconfig import load_kubeconfig

pytestmark = pytest.mark.cluster

#: Seconds that it is out of reach.
GONE = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A control plane that these tests may break."""
    with private_control_plane(layout.default_settings(node=False).minor) as cluster:
        yield cluster


@pytest.fixture
async def shop(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Scenario]:
    name = f"away-{uuid.uuid4().hex[:6]}"
    path = cluster.kubeconfig
    async with (
        Client(load_kubeconfig(str(path))) as client,
        scenario(client, tmp_path, path, namespace=name, is_alive=True) as found,
    ):
        yield found


def _port(cluster: Cluster) -> int:
    return int(cluster.layout.server.rsplit(":", 1)[1])


def _through(cluster: Cluster, wire: FaultProxy, folder: Path) -> Path:
    server = f"https://127.0.0.1:{wire.port}"
    return cluster.kubeconfig_through(server, folder / "kubeconfig-wire")


async def test_apiserver_is_unreachable_for_a_minute(cluster: Cluster, shop: Scenario) -> None:
    """What was edited is done once, what was taken back is not, who was deleted is forgotten."""
    await shop.set_up(replicas=2)
    for name in ("calm", "gone"):
        await shop.config_map(name, LEVEL="info")
        await shop.deployment(name, source=name)
    # What a broken watch has shown last may be the first list.
    await shop.wait_until_pods_are_older()
    with FaultProxy(_port(cluster)) as wire:
        behind = _through(cluster, wire, shop.folder)
        async with shop.controller("--leader-elect", kubeconfig=behind) as controller:
            await controller.ready()
            await shop.until(controller.leads, "it leads")
            await shop.wait_until_handled()
            await shop.wait_until_pods_are_older()
            wire.cut()
            await shop.edit(LEVEL="debug")
            await shop.edit("calm", LEVEL="debug")
            await shop.edit("gone", LEVEL="debug")
            await asyncio.sleep(GONE)
            await shop.edit("calm", LEVEL="info")
            await shop.delete("Deployment", "gone")
            readiness = json.loads(await controller.get("/readyz"))
            assert readiness["role"] == "standby", readiness
            wire.heal()
            await shop.wait_for_rollouts(within=120)
            await shop.wait_until_current()
            await shop.check_invariants({"web": 1})
        assert controller.log().count("cannot be read") == 0


async def test_apiserver_is_killed_and_restarted(cluster: Cluster, shop: Scenario) -> None:
    """Its watches break in the middle; edits before and after are one rollout each."""
    await shop.set_up(replicas=2)
    async with shop.controller("--leader-elect") as controller:
        await controller.ready()
        await shop.until(controller.leads, "it leads")
        await shop.wait_until_handled()
        await shop.edit(LEVEL="debug")
        cluster.kill("kube-apiserver")

        async def is_free() -> bool:
            return not machine.used_ports([_port(cluster)])

        await shop.until(is_free, "the last thread of the killed one is gone")
        await asyncio.to_thread(cluster.restart, "kube-apiserver")
        await shop.wait_for_rollouts(within=120)
        await shop.edit(LEVEL="trace")
        await shop.wait_for_rollouts(times=2, within=120)
        await shop.wait_until_current()
        await shop.check_invariants({"web": 2})


async def test_outage_with_lost_history_loses_no_edit(cluster: Cluster, shop: Scenario) -> None:
    """A restarted server knows no old versions: everything is listed, and what is gone is gone."""
    await shop.set_up(replicas=2)
    for name in ("calm", "gone"):
        await shop.config_map(name, LEVEL="info")
        await shop.deployment(name, source=name)
    # What a broken watch has shown last may be the first list.
    await shop.wait_until_pods_are_older()
    with FaultProxy(_port(cluster)) as wire:
        behind = _through(cluster, wire, shop.folder)
        async with shop.started_controller(kubeconfig=behind) as controller:
            await shop.wait_until_pods_are_older()
            wire.cut()
            await shop.edit(LEVEL="debug")
            await shop.delete("Deployment", "gone")
            await shop.delete("ConfigMap", "gone")
            await shop.delete("ConfigMap", "calm")
            await shop.config_map("calm", LEVEL="info")
            await asyncio.to_thread(cluster.restart, "kube-apiserver")
            wire.heal()
            await shop.wait_for_rollouts(within=120)
            await shop.wait_until_current()

            async def shows_what_exists() -> bool:
                status = json.loads(await controller.get("/v1/status"))
                return {each["name"] for each in status["workloads"]} == {"web", "calm", "canary"}

            # Each resource is listed after a pause of its own.
            await shop.until(shows_what_exists, "the deleted workload is forgotten")
            await shop.check_invariants({"web": 1})
    assert "too old resource version" in controller.log()
