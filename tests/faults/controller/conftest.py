"""Scenarios on the test's own API server: one with pods, one for many consumers without any."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.control_plane import ControlPlane, control_plane
from tests.support.scenario import Scenario, scenario

from hotmap.kube.client import Client
from hotmap.local.controllers.run import Controllers
from hotmap.local.pki import ServerPKI, create_pki


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run all tests in real time: their controllers are processes."""
    return {"real_time": asyncio.new_event_loop}


#: Writes a kubeconfig that reaches the plane at a port of 127.0.0.1, and returns its path.
Through = Callable[[int], Path]


@pytest.fixture(scope="session")
def pki(tmp_path_factory: pytest.TempPathFactory) -> ServerPKI:
    return create_pki(tmp_path_factory.mktemp("pki"))


@pytest.fixture
async def plane(pki: ServerPKI) -> AsyncIterator[ControlPlane]:
    async with control_plane(pki) as plane:
        yield plane


@pytest.fixture
def through(plane: ControlPlane, pki: ServerPKI, tmp_path: Path) -> Through:
    def write(port: int) -> Path:
        config = plane.config()
        token = config.credentials.authorization().removeprefix("Bearer ")
        authority = b64encode(pki.ca_certificate.read_bytes()).decode()
        server = {"server": f"https://127.0.0.1:{port}", "certificate-authority-data": authority}
        path = tmp_path / f"kubeconfig-{port}"
        path.write_text(
            json.dumps(
                {
                    "current-context": "test",
                    "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
                    "clusters": [{"name": "test", "cluster": server}],
                    "users": [{"name": "test", "user": {"token": token}}],
                }
            )
        )
        return path

    return write


@asynccontextmanager
async def _run_scenario(
    plane: ControlPlane, through: Through, folder: Path, *, is_alive: bool
) -> AsyncIterator[Scenario]:
    async with (
        Client(plane.config()) as client,
        scenario(client, folder, through(plane.port), namespace="shop", is_alive=is_alive) as found,
    ):
        yield found


@pytest.fixture
async def podless_scenario(
    plane: ControlPlane, through: Through, tmp_path: Path
) -> AsyncIterator[Scenario]:
    """A scenario without workload controllers: consumers are cheap, and have no pods."""
    async with _run_scenario(plane, through, tmp_path, is_alive=False) as found:
        yield found


@pytest.fixture
async def shop(plane: ControlPlane, through: Through, tmp_path: Path) -> AsyncIterator[Scenario]:
    """A scenario with workload controllers and simulated kubelets: Deployments have pods."""
    controllers = Controllers(plane.registry)
    await controllers.start()
    try:
        async with _run_scenario(plane, through, tmp_path, is_alive=True) as found:
            yield found
    finally:
        await asyncio.shield(controllers.stop())
