"""A kind that a cluster may not have is watched while discovery shows it, and costs little else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from tests.faults.conftest import FAST
from tests.support.fault_server import (
    Behaviour,
    Exchange,
    FaultServer,
    Truth,
    broken,
    forbidden,
    status,
)
from tests.support.reflection import HEALED

from hotmap.controller.watch.optional_kind import OptionalKind
from hotmap.core.model.objects import ConfigMap
from hotmap.kube.client import Client, Limits
from hotmap.kube.config import TLS, BearerToken, ClusterConfig
from hotmap.kube.reflector import Reflector
from hotmap.kube.resources import Resource, Selection
from hotmap.kube.store import Store
from hotmap.kube.store_writer import StoreWriter
from hotmap.kube.supervisor import Supervisor

#: What the fault server serves, as if it were a custom resource.
KIND = Resource("argoproj.io", "v1alpha1", "configmaps", "ConfigMap")

#: Seconds between two looks.
POLL = 0.02


async def there(exchange: Exchange) -> None:
    """Discovery shows the kind."""
    await _resources(exchange, "configmaps", "configmaps/status")


async def neighbours(exchange: Exchange) -> None:
    """Discovery shows the group, with other kinds: Argo has many."""
    await _resources(exchange, "applications", "workflows")


async def nothing(exchange: Exchange) -> None:
    """Discovery does not know the group."""
    await exchange.answer(404, status(404, "NotFound", "the server could not find the resource"))


async def _resources(exchange: Exchange, *names: str) -> None:
    found = [{"name": name, "namespaced": True, "kind": "X", "verbs": ["list"]} for name in names]
    await exchange.answer(200, {"kind": "APIResourceList", "resources": found})


async def page(exchange: Exchange) -> None:
    """A proxy in between answers with a page of its own."""
    await exchange.answer(200, b"<html>down for maintenance</html>")


class Discovery:
    """Answers every question with the same behaviour until it is told another one."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        #: Answered first, one each.
        self.once: list[Behaviour] = []

    async def __call__(self, exchange: Exchange) -> None:
        await (self.once.pop(0) if self.once else self.behaviour)(exchange)


class Watched:
    """A presence at work on a fault server."""

    def __init__(
        self, server: FaultServer, discovery: Discovery, presence: OptionalKind, store: Store[str]
    ) -> None:
        self.server = server
        self.discovery = discovery
        self.presence = presence
        self.store = store

    def names(self) -> set[str]:
        return {key.name for key in self.store}

    async def until(self, check: Callable[[], bool]) -> None:
        async with asyncio.timeout(HEALED):
            while not check():  # noqa: ASYNC110  a store is polled
                await asyncio.sleep(0.005)

    async def looks(self, times: int) -> None:
        """Wait until discovery was asked so many times more."""
        async with asyncio.timeout(HEALED):
            await self.server.wait_for_requests("other", self.server.count("other") + times)


@asynccontextmanager
async def watched(server: FaultServer, behaviour: Behaviour) -> AsyncIterator[Watched]:
    discovery = Discovery(behaviour)
    server.script("other", *[discovery] * 100_000)
    store: Store[str] = Store()
    config = ClusterConfig(server.url, "the test", BearerToken(), TLS())
    async with Client(config, limits=Limits(connect=1, attempt=0.5, attempts=1)) as client:

        def make() -> list[Reflector[ConfigMap, str]]:
            reflector = Reflector(
                client,
                Selection(KIND),
                type=ConfigMap,
                writer=StoreWriter(store, lambda item: (item.data or {}).get("value", "")),
                timing=FAST,
            )
            return [reflector]

        presence = OptionalKind(
            client, KIND, make=make, store=store, supervisor=Supervisor(), poll=POLL
        )
        task = asyncio.create_task(presence.run())
        try:
            yield Watched(server, discovery, presence, store)
        finally:
            task.cancel()
            await asyncio.wait([task])


@pytest.mark.parametrize("behaviour", [nothing, neighbours])
async def test_absent_kind_counts_as_empty(server: FaultServer, behaviour: Behaviour) -> None:
    """It counts as complete and empty, and nothing but discovery is asked."""
    async with watched(server, behaviour) as kind:
        await kind.presence.answered.wait()
        assert kind.store.synced.is_set()
        assert kind.presence.reflectors == ()
        await kind.looks(5)
    assert {request.script for request in server.requests} == {"other"}
    assert {request.path for request in server.requests} == {"/apis/argoproj.io/v1alpha1"}


async def test_present_kind_is_watched(server: FaultServer) -> None:
    """What is answered says nothing of its objects: they are complete when the reflector is."""
    async with watched(server, there) as kind:
        await kind.presence.answered.wait()
        assert len(kind.presence.reflectors) == 1
        await kind.store.synced.wait()
        assert kind.names() == {"a", "b"}
        await kind.looks(5)
        assert server.count("stream") == 1


async def test_installed_kind_is_watched(server: FaultServer) -> None:
    """Its objects are those that are there by then, and go on being followed."""
    async with watched(server, nothing) as kind:
        await kind.presence.answered.wait()
        kind.discovery.behaviour = there
        await kind.until(lambda: kind.names() == {"a", "b"})
        server.truth.put("c", "1")
        await kind.until(lambda: kind.names() == {"a", "b", "c"})


async def test_reinstalled_kind_is_watched_again(server: FaultServer) -> None:
    """It is not watched, nothing of it is kept, and listeners are called for each object."""
    gone: list[str] = []
    async with watched(server, there) as kind:
        await kind.until(lambda: kind.names() == {"a", "b"})
        kind.store.subscribe(lambda key, old, new: gone.append(key.name) if new is None else None)
        kind.discovery.behaviour = nothing
        await kind.until(lambda: not len(kind.store))
        assert kind.presence.reflectors == ()
        assert sorted(gone) == ["a", "b"]
        wait_for_requests = server.count("stream")
        await kind.looks(5)
        assert server.count("stream") == wait_for_requests
        kind.discovery.behaviour = neighbours
        await kind.looks(3)
        kind.discovery.behaviour = there
        await kind.until(lambda: kind.names() == {"a", "b"})


async def test_lagging_apiserver_keeps_the_watch(server: FaultServer) -> None:
    """A single answer without the kind takes nothing away."""
    lost: list[str] = []
    async with watched(server, there) as kind:
        await kind.until(lambda: kind.names() == {"a", "b"})
        kind.store.subscribe(lambda key, old, new: lost.append(key.name))
        for _ in range(3):
            kind.discovery.once.append(nothing)
            await kind.looks(3)
        assert not kind.discovery.once
        assert lost == []
        assert server.count("stream") == 1


@pytest.mark.parametrize("failure", [broken, page])
async def test_failed_discovery_keeps_the_watch(
    server: FaultServer, caplog: pytest.LogCaptureFixture, failure: Behaviour
) -> None:
    """What is watched goes on being watched; it is said once, not each time."""
    async with watched(server, there) as kind:
        await kind.until(lambda: kind.names() == {"a", "b"})
        kind.discovery.behaviour = failure
        await kind.looks(5)
        server.truth.put("c", "1")
        await kind.until(lambda: kind.names() == {"a", "b", "c"})
        kind.discovery.behaviour = there
        await kind.looks(2)
    said = [record for record in caplog.records if "cannot determine whether" in record.message]
    assert len([record for record in said if record.levelname == "WARNING"]) == 1


async def test_forbidden_discovery_does_not_delay_others(server: FaultServer) -> None:
    """There is nothing to wait for; but that the kind has no objects is not known."""
    async with watched(server, forbidden) as kind:
        await kind.presence.answered.wait()
        assert not kind.store.synced.is_set()


async def test_unreachable_server_has_not_answered(truth: Truth) -> None:
    """Whether the kind is there is unknown, so an empty store has no consequence."""
    async with FaultServer(truth) as server:

        async def hang_up(exchange: Exchange) -> None:
            exchange.reset()

        async with watched(server, hang_up) as kind:
            await kind.looks(3)
            assert not kind.presence.answered.is_set()
            kind.discovery.behaviour = there
            await kind.store.synced.wait()
            assert kind.names() == {"a", "b"}


async def test_forbidden_kind_is_reported(server: FaultServer) -> None:
    """The refusal is shown, and the start does not wait."""
    server.script("stream", *[forbidden] * 1000)
    async with watched(server, there) as kind:
        await kind.presence.answered.wait()
        (reflector,) = kind.presence.reflectors
        await reflector.answered.wait()
        assert reflector.statistics().refused
        assert "forbidden" in reflector.statistics().last_error
        assert not kind.store.synced.is_set()


async def test_forbidden_discovery_counts_as_answer(server: FaultServer) -> None:
    """Silence asks for a restart; being refused forever does not, as it would not help."""
    server.script("stream", *[forbidden] * 1000)
    async with watched(server, there) as kind:
        await kind.until(lambda: server.count("stream") >= 4)
        (reflector,) = kind.presence.reflectors
        asked_for = server.requests[-1].at - server.requests[0].at
        assert reflector.statistics().last_byte_age < asked_for
