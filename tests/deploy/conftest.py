"""Gives the scenarios of the walkthroughs a cluster in which hotmap is installed."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager

import pytest
from tests.cluster.cluster import Cluster
from tests.cluster.fixtures import real_cluster
from tests.deploy.installation import Installation, installed, refusals
from tests.walkthroughs.backend import Backend
from tests.walkthroughs.cluster import ClusterBackend

__all__ = ["real_cluster"]


class DeployedBackend(ClusterBackend):
    """A namespace of a cluster that an installed controller serves all the time.

    It stays when the test is over: to write an Event into a namespace that ends is forbidden to
    everybody, and here a refusal means that a right is missing.
    """

    async def __aexit__(self, *exc_info: object) -> None:
        pass

    def running_controller(self) -> AbstractAsyncContextManager[None]:
        return contextlib.nullcontext()


@pytest.fixture(scope="module")
def namespaces(real_cluster: Cluster) -> Iterator[list[str]]:
    """The namespaces of a file's tests, by name; they end after the controller has."""
    used: list[str] = []
    yield used
    if used:
        real_cluster.kubectl("delete", "namespace", *used, "--wait=false")


@pytest.fixture(scope="module")
def base(real_cluster: Cluster, namespaces: list[str]) -> Iterator[Installation]:
    """The installation of deploy/base, for the tests of one file."""
    with installed(real_cluster, "base.yaml", namespace="hotmap") as installation:
        yield installation


@pytest.fixture
async def backend(base: Installation, namespaces: list[str]) -> AsyncIterator[Backend]:
    """A namespace that deploy/base serves; afterwards it was refused nothing and never ended."""
    namespaces.append(f"walk-{uuid.uuid4().hex[:8]}")
    async with DeployedBackend(base.cluster, namespaces[-1]) as backend:
        yield backend
    assert base.restarts() == 0
    assert [refusals(metrics) for metrics in base.ask("metrics")] == [[]]


@pytest.fixture
def waitable(backend: Backend) -> Backend:
    """The same: a kubelet's sync period cannot be made shorter."""
    return backend
