"""Which state of the API server is enough to conclude from the pods of a workload."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.controller.pod_check_results import SOON, wait_for_state
from tests.controller.world import NAMESPACE, World

from hotmap.controller.watch import pods as pods_module
from hotmap.kube.paging import list_items


@pytest.fixture
def lagging_cache(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Let cached lists of pods lack web-2; returns whether each list took a cached state."""
    lists = []

    async def listed(*arguments: Any, cached: bool, **options: Any) -> AsyncIterator[Any]:
        lists.append(cached)
        async for pod in list_items(*arguments, cached=cached, **options):
            if not cached or pod.metadata.name != "web-2":
                yield pod

    monkeypatch.setattr(pods_module, "list_items", listed)
    return lists


async def test_pod_that_a_lagging_cache_lacks_is_examined(
    world: World, lagging_cache: list[bool]
) -> None:
    """An API server of several may lag by minutes: its cache lacks a pod from before the edit."""
    await world.config_map(LEVEL="info")
    await world.workload(replicas=2)
    await world.pod("web-1", started=time.time() + 2)
    await world.pod("web-2")
    await world.rolled_out("web")
    async with world.controller(pod_checks=SOON) as controller:
        document = await wait_for_state(world, controller, "latent")
    assert "1 of 2 pods may run with older content (web-2: " in document["reason"]
    assert lagging_cache[:2] == [True, False]


async def test_complete_cached_list_is_sufficient(world: World, lagging_cache: list[bool]) -> None:
    """It costs the API server less."""
    await world.config_map(LEVEL="info")
    await world.workload(replicas=1)
    await world.pod("web-1", started=time.time() + 2)
    await world.rolled_out("web")
    async with world.controller(pod_checks=SOON) as controller:
        await wait_for_state(world, controller, "current")
    assert set(lagging_cache) == {True}


async def test_pods_of_an_adopted_replica_set_are_examined(world: World) -> None:
    """It has the name of a Deployment that was deleted without its pods (--cascade=orphan)."""
    await world.config_map(LEVEL="info")
    web = await world.workload(replicas=1)
    labels = {"app": "web"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "app:1"}]},
    }
    found = []
    for name, owner in (("old-6d4f", web), ("foreign-6d4f", None)):
        uid = owner["metadata"]["uid"] if owner else "another"
        deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": uid}
        body = {
            "metadata": {
                "name": name,
                "labels": labels,
                "ownerReferences": [{**deployment, "controller": True}],
            },
            "spec": {"selector": {"matchLabels": labels}, "replicas": 1, "template": template},
        }
        made = await world.registry.create("replicasets", NAMESPACE, body, manager="kube")
        found.append(made["metadata"]["uid"])
        replica_set = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name}
        owners = [{**replica_set, "uid": found[-1], "controller": True}]
        await world.pod(f"{name}-1")
        await world.merge("Pod", f"{name}-1", {"metadata": {"ownerReferences": owners}})
    await world.rolled_out("web")
    async with world.controller(pod_checks=SOON) as controller:
        document = await wait_for_state(world, controller, "latent")
    assert "1 of 1 pod may run with older content (old-6d4f-1: " in document["reason"]


async def test_pods_of_a_reverted_edit_are_listed_consistently(
    world: World, lagging_cache: list[bool]
) -> None:
    """A cache that lags has the pod from before, and not the one with the edited content."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await world.pod("web-1")
    async with world.controller(settle=2.0, settle_max=5.0) as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.pod("web-2", started=time.time())
        await world.edit(LEVEL="info")
        await world.rollout()
        message = await world.event("RolledOut")
    assert message == "web-2 may have started while other content was current: rolling out"
    assert False in lagging_cache
