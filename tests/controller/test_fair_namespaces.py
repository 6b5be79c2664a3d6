"""Workloads with very many pods in one namespace delay no other namespace's.

Everything that takes long for them never ends here: what is measured is not how long they take, but
that others do not wait for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.controller.pod_check_results import status
from tests.controller.world import REREADS, World, files

from hotmap.controller.reconcile import nudge_round
from hotmap.controller.report.pod_reader import PodReader
from hotmap.controller.run import Controller
from hotmap.controller.settings import PodCheckSettings
from hotmap.controller.watch import consistent_reads
from hotmap.controller.watch.pods import list_pods
from hotmap.core.model.consumer import Consumer
from hotmap.kube.metadata import list_versions

MANY = "many"

#: More than there are workers.
WORKLOADS = 40

#: The workers that one namespace may have, of 32.
SHARE = 16


def never_for_many(
    real: Callable[..., Awaitable[Any]], namespace_of: Callable[..., str]
) -> Callable[..., Awaitable[Any]]:
    """Let a coroutine function never return where it is called for the one namespace."""

    async def call(*arguments: Any, **options: Any) -> Any:
        if namespace_of(*arguments) == MANY:
            await asyncio.Event().wait()
        return await real(*arguments, **options)

    return call


async def set_up(world: World, count: int) -> None:
    """Create workloads in the one namespace, and one with a pod in another."""
    await world.namespace(MANY)
    for namespace in (MANY, "default"):
        await world.config_map(namespace=namespace, LEVEL="info")
    for number in range(count):
        await world.workload(f"web-{number}", files(), annotations=REREADS, namespace=MANY)
    await world.workload(spec=files(), annotations=REREADS)
    await world.pod("web-1", started=time.time() + 5)


async def is_checked(world: World, controller: Controller) -> bool:
    """Return whether the pod in the other namespace was found to be up to date."""
    web = await world.get("Deployment", "web")
    record = controller.records.get(web["metadata"]["uid"])
    return record is not None and record.pods_checked.name in ("CURRENT", "DELIVERED")


async def test_nudges_of_many_pods_leave_workers_to_other_namespaces(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def namespace_of(client: object, consumer: Consumer) -> str:
        return consumer.key.namespace

    await set_up(world, WORKLOADS)
    async with world.controller() as controller:
        await world.quiet(controller)
        listing = never_for_many(list_pods, namespace_of)
        monkeypatch.setattr(nudge_round, "list_pods", listing)
        await world.edit(namespace=MANY, LEVEL="debug")
        await asyncio.sleep(1)
        assert controller.queue_statistics()["refresh"].processing == SHARE
        await world.edit(LEVEL="debug")
        assert await world.until(lambda: world.target("web-1"), "the other's pod is nudged")


async def test_checks_of_many_pods_do_not_delay_those_of_other_namespaces(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def namespace_of(reader: object, snapshot: Any) -> str:
        namespace: str = snapshot.consumer.key.namespace
        return namespace

    await set_up(world, 3)
    monkeypatch.setattr(PodReader, "check", never_for_many(PodReader.check, namespace_of))
    checks = PodCheckSettings(rate=100.0, initial_delay=0.0)
    async with world.controller(pod_checks=checks) as controller:
        await world.until(lambda: is_checked(world, controller), "the other's pod is checked")


async def test_reconciles_of_one_namespace_do_not_delay_checks_of_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checks wait for reconciles that wait for a worker, but not for those of its share alone."""

    def namespace_of(client: object, consumer: Consumer) -> str:
        return consumer.key.namespace

    await set_up(world, WORKLOADS)
    checks = PodCheckSettings(rate=100.0, initial_delay=3.0)
    async with world.controller(pod_checks=checks) as controller:
        await world.quiet(controller)
        monkeypatch.setattr(nudge_round, "list_pods", never_for_many(list_pods, namespace_of))
        await world.edit(namespace=MANY, LEVEL="debug")
        await asyncio.sleep(1)
        assert controller.queue_statistics()["refresh"].ready == WORKLOADS - SHARE
        await world.until(lambda: is_checked(world, controller), "the other's pod is checked")


async def test_status_queries_of_many_pods_do_not_delay_those_of_other_namespaces(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where agents do not answer: a user may ask again and again."""

    def namespace_of(reader: object, snapshot: Any) -> str:
        namespace: str = snapshot.consumer.key.namespace
        return namespace

    await set_up(world, 1)
    monkeypatch.setattr(PodReader, "check", never_for_many(PodReader.check, namespace_of))
    async with world.controller() as controller:
        await world.quiet(controller)
        about_many = f"?workload={MANY}/web-0"
        waiting = [asyncio.create_task(status(controller, about_many)) for _ in range(10)]
        document = await status(controller, "?workload=default/web&consistent=true")
        assert [each["name"] for each in document["workloads"][0]["pods"]] == ["web-1"]
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_consistent_reads_of_one_namespace_leave_requests_to_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where lists of it take long."""

    def namespace_of(client: object, resource: object, namespace: str | None) -> str:
        return namespace or ""

    await set_up(world, 1)
    async with world.controller() as controller:
        await world.quiet(controller)
        listing = never_for_many(list_versions, namespace_of)
        monkeypatch.setattr(consistent_reads, "list_versions", listing)
        query = f"?namespace={MANY}&consistent=true"
        waiting = [asyncio.create_task(status(controller, query)) for _ in range(10)]
        await asyncio.sleep(0.5)
        document = await status(controller, "?namespace=default&consistent=true")
        assert [each["name"] for each in document["workloads"]] == ["web"]
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
