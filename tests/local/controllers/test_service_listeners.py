"""The proxy listens on a bounded number of ports, and says which Services have more."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.polling import wait_until

from hotmap.local import proxy
from hotmap.local.apiserver.bootstrap import create_system_namespaces
from hotmap.local.apiserver.registry import Registry
from hotmap.local.informer import Informers
from hotmap.local.proxy import ServiceProxy
from hotmap.local.store import MVCCStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.real_time

FIRST, SECOND = "127.96.77.1", "127.96.77.2"


@pytest.fixture
async def registry(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Registry]:
    """A plane whose proxy listens on 3 ports for a namespace and on 4 for all."""
    monkeypatch.setattr(proxy, "_MOST_OF_NAMESPACE", 3)
    monkeypatch.setattr(proxy, "_MOST", 4)
    registry = Registry(MVCCStore())
    await create_system_namespaces(registry)
    informers = Informers(registry)
    serving = ServiceProxy(registry, informers)
    tasks = [asyncio.create_task(informers.run())]
    await informers.wait_for_sync()
    tasks.append(asyncio.create_task(serving.run()))
    yield registry
    for task in tasks:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def create(
    registry: Registry, name: str, address: str, ports: int, namespace: str = "default"
) -> None:
    listed = [{"name": f"p{n}", "port": 20_000 + n} for n in range(ports)]
    body = {"metadata": {"name": name}, "spec": {"clusterIP": address, "ports": listed}}
    await registry.create("services", namespace, body, manager="t")


async def listens(address: str, number: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(address, 20_000 + number)
    except OSError:
        return False
    writer.close()
    return True


async def count(address: str, ports: int) -> int:
    return sum([await listens(address, number) for number in range(ports)])


async def events(registry: Registry, namespace: str = "default") -> list[dict[str, Any]]:
    async def found() -> list[dict[str, Any]]:
        return (await registry.list("events", namespace)).items

    await wait_until(found)
    return await found()


async def test_service_with_more_ports_than_a_namespace_may_have(registry: Registry) -> None:
    """It is served in part, with an Event that says what is not; other namespaces are served."""
    await create(registry, "many", FIRST, 5)
    (event,) = await events(registry)
    assert (event["type"], event["reason"]) == ("Warning", "PortsNotServed")
    assert event["message"] == (
        f"2 ports are not served, the first is {FIRST}:20003: the local plane listens on at most "
        "3 ports for the Services of a namespace, and 4 for all"
    )
    assert await count(FIRST, 5) == 3
    await create(registry, "other", SECOND, 2, "kube-system")
    await events(registry, "kube-system")
    assert await count(SECOND, 2) == 1


async def test_ports_are_served_once_others_are_gone(registry: Registry) -> None:
    """Existing listeners stay, whichever Service comes after them."""
    await create(registry, "b", FIRST, 2)
    await wait_until(lambda: listens(FIRST, 1))
    await create(registry, "a", SECOND, 2)
    await events(registry)
    assert (await count(FIRST, 2), await count(SECOND, 2)) == (2, 1)
    await registry.delete("services", "default", "b")
    await wait_until(lambda: listens(SECOND, 1))


def test_exhausted_files_are_logged_once_a_minute() -> None:
    """asyncio says so each second for each listener."""
    is_shown = proxy._limited_accept_errors()

    def record(text: str) -> logging.LogRecord:
        return logging.LogRecord("asyncio", logging.ERROR, "", 0, text, None, None)

    exhausted = record("socket.accept() out of system resource\nsocket: <socket>")
    assert [is_shown(exhausted), is_shown(exhausted), is_shown(record("other"))] == [
        True,
        False,
        True,
    ]
