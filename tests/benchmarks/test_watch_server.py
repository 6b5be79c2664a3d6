"""The made-up cluster is one: a client of the real protocol finds everything, by every way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.support.fleet import Fleet, Sizes
from tests.support.polling import wait_until
from tests.support.watch_server import WatchServer

from hotmap.core.errors import Conflict, NotFound
from hotmap.core.model.objects import ConfigMap, ObjectKey, Secret, Workload
from hotmap.kube.client import Client
from hotmap.kube.config import BearerToken, ClusterConfig
from hotmap.kube.reflector import Reflector
from hotmap.kube.resources import (
    BY_KIND,
    CONFIGMAPS,
    DEPLOYMENTS,
    EVENTS,
    SECRETS,
    Resource,
    Selection,
)
from hotmap.kube.store import Store
from hotmap.kube.store_writer import StoreWriter

#: Minutes of waiting or of processor time, too much after each edit.
pytestmark = pytest.mark.slow

SIZES = Sizes(
    config_maps=1200, secrets=30, deployments=20, stateful_sets=5, daemon_sets=5, namespaces=4
)
TYPES: dict[str, Any] = {"ConfigMap": ConfigMap, "Secret": Secret}


class Served:
    """A server in the test's own process, and a client of it."""

    def __init__(self, server: WatchServer, fleet: Fleet, client: Client) -> None:
        self.server, self.fleet, self.client = server, fleet, client

    def truth(self, kind: str) -> dict[ObjectKey, str]:
        """What a store should hold: resourceVersions by object key."""
        collection = self.fleet.collections[BY_KIND[kind].path(None)]
        bodies = [json.loads(item)["metadata"] for item in collection]
        return {
            ObjectKey(kind, body.get("namespace", ""), body["name"]): body["resourceVersion"]
            for body in bodies
        }

    def reflector(self, kind: str) -> tuple[Reflector[Any, str], Store[str]]:
        store: Store[str] = Store()
        reflector = Reflector(
            self.client,
            Selection(BY_KIND[kind]),
            type=TYPES.get(kind, Workload),
            writer=StoreWriter(store, lambda item: item.metadata.resource_version),
        )
        return reflector, store


@pytest.fixture(params=["streams", "lists"])
async def served(request: pytest.FixtureRequest) -> AsyncIterator[Served]:
    fleet = Fleet(SIZES)
    server = WatchServer(fleet, streams=request.param == "streams")
    listening = await asyncio.start_server(server.accept, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    config = ClusterConfig(server=url, origin="the test", credentials=BearerToken(""))
    async with Client(config) as client:
        yield Served(server, fleet, client)
    await server.aclose()
    listening.close()
    await listening.wait_closed()


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret", "Deployment", "StatefulSet", "DaemonSet"])
async def test_reflector_finds_everything_and_follows_it(served: Served, kind: str) -> None:
    """First what there is, in pages or as a stream, then each change as it is made."""
    reflector, store = served.reflector(kind)
    running = asyncio.create_task(reflector.run())
    await wait_until(store.synced.is_set)
    assert {key: store.get(key) for key in store} == served.truth(kind)
    await served.client.request("POST", "/pump", params={"rate": "2000", "seconds": "0.2"})
    await wait_until(lambda: reflector.statistics().connected)
    await asyncio.gather(*(task for task in served.server.tasks if task.get_name() == "pump"))
    await wait_until(lambda: {key: store.get(key) for key in store} == served.truth(kind))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def deployment(served: Served) -> Workload:
    page = await served.client.list_page(DEPLOYMENTS, type=Workload)
    assert len(page.items) == SIZES.deployments
    return page.items[3]


def rollout(item: Workload) -> dict[str, Any]:
    annotations = {"hotmap.dev/revision": "k.content"}
    metadata = {"uid": item.metadata.uid, "resourceVersion": item.metadata.resource_version}
    return {"metadata": metadata, "spec": {"template": {"metadata": {"annotations": annotations}}}}


async def patched(served: Served, item: Workload) -> Workload:
    namespace, name = item.metadata.namespace, item.metadata.name
    return await served.client.patch(DEPLOYMENTS, namespace, name, rollout(item), type=Workload)


async def test_patch_marks_template_once(served: Served) -> None:
    """The answer shows it with the next generation; the same precondition fails afterwards."""
    before = await deployment(served)
    after = await patched(served, before)
    assert after.spec.template.metadata.annotations is not None
    assert after.spec.template.metadata.annotations["hotmap.dev/revision"] == "k.content"
    assert after.metadata.generation == before.metadata.generation + 1
    assert after.status.observed_generation == before.status.observed_generation
    with pytest.raises(Conflict):
        await patched(served, before)


async def test_forgotten_position_is_expired(served: Served) -> None:
    """A watch from before what is remembered is told 410, and the client lists again."""
    reflector, store = served.reflector("ConfigMap")
    running = asyncio.create_task(reflector.run())
    await wait_until(store.synced.is_set)
    served.server.forget(CONFIGMAPS)
    await wait_until(lambda: reflector.statistics().connected)
    await wait_until(lambda: {key: store.get(key) for key in store} == served.truth("ConfigMap"))
    statistics = reflector.statistics()
    assert statistics.lists + statistics.watches > 2
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_client_records_are_stored(served: Served) -> None:
    """Records of its own: created, read, replaced, and seen by a list."""

    async def read(resource: Resource) -> Secret:
        return await served.client.get(resource, "hotmap", "state", type=Secret)

    with pytest.raises(NotFound):
        await read(SECRETS)
    body = {"metadata": {"name": "state"}, "data": {"a": "Yg=="}}
    await served.client.create(SECRETS, "hotmap", body, type=Secret)
    assert (await read(SECRETS)).data == {"a": "Yg=="}
    body["data"] = {"a": "Yw=="}
    await served.client.replace(SECRETS, "hotmap", "state", body, type=Secret)
    assert (await read(SECRETS)).data == {"a": "Yw=="}
    page = await served.client.list_page(SECRETS, type=Secret)
    assert page.items[-1].metadata.name == "state"


async def test_count_of_event_is_patched(served: Served) -> None:
    """A recorder writes repeats so, without a word of the Event's metadata."""
    event = {"metadata": {"name": "web.1"}, "count": 1}
    await served.client.create(EVENTS, "ns-0", event, type=dict)
    written = await served.client.patch(EVENTS, "ns-0", "web.1", {"count": 2}, type=dict)
    assert written["count"] == 2


def test_largest_secrets_are_half_megabyte() -> None:
    """Sizes are mixed as promised: most are small, one in some hundred is very large."""
    fleet = Fleet(Sizes(config_maps=0, secrets=5_000, deployments=0))
    lengths = sorted(map(len, fleet.collections[SECRETS.path(None)]))
    assert lengths[len(lengths) // 2] < 2_000
    assert lengths[-1] > 500_000


def test_same_sizes_give_same_cluster() -> None:
    """The same sizes give the same bytes."""
    first, other = Fleet(SIZES), Fleet(SIZES)
    for path, collection in first.collections.items():
        assert list(collection) == list(other.collections[path])
