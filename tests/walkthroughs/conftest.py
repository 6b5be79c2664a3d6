"""Gives a scenario its backend: the local control plane, and where asked for a real Kubernetes.

Both are started once a session; each test has a namespace of its own.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager

import pytest
from tests.cluster.fixtures import real_cluster
from tests.walkthroughs.backend import Backend
from tests.walkthroughs.cluster import ClusterBackend
from tests.walkthroughs.local import LocalBackend, Plane, running_plane

__all__ = ["real_cluster"]

BACKENDS = [
    pytest.param("local", marks=pytest.mark.slow),
    pytest.param("cluster", marks=pytest.mark.cluster),
]


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A local control plane as it is by default, with a node that syncs like a real one."""
    with running_plane(tmp_path_factory.mktemp("walkthroughs") / "plane") as plane:
        yield plane


@pytest.fixture(scope="session")
def restless_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A local control plane whose node syncs every pod after half a second."""
    directory = tmp_path_factory.mktemp("walkthroughs") / "restless"
    with running_plane(directory, "--sync-period=500ms") as plane:
        yield plane


@pytest.fixture(params=BACKENDS)
async def backend(request: pytest.FixtureRequest) -> AsyncIterator[Backend]:
    """A cluster in which files follow an edit after the kubelet's own time, 60 to 90 s."""
    async with _backend(request, "plane", sync_limit=100.0) as backend:
        yield backend


@pytest.fixture(params=BACKENDS)
async def waitable(request: pytest.FixtureRequest) -> AsyncIterator[Backend]:
    """A cluster whose sync period is worth waiting for: short on the local control plane."""
    async with _backend(request, "restless_plane", sync_limit=30.0) as backend:
        yield backend


def _backend(
    request: pytest.FixtureRequest, local: str, *, sync_limit: float
) -> AbstractAsyncContextManager[Backend]:
    namespace = f"walk-{uuid.uuid4().hex[:8]}"
    if request.param == "cluster":
        return ClusterBackend(request.getfixturevalue("real_cluster"), namespace)
    return LocalBackend(request.getfixturevalue(local), namespace, sync_limit=sync_limit)
