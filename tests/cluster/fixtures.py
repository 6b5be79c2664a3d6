"""Fixtures that give a test a real cluster: a running one, or one that lives as long as pytest.

A conftest.py imports the fixtures it wants by name. Tests that use them carry the marker
`cluster`. A cluster that was started here is taken down even when pytest is killed: a guard
process waits for the end of this one.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cluster import layout, machine
from tests.cluster.cluster import Cluster, running
from tests.cluster.errors import TestBedError
from tests.cluster.layout import Settings
from tests.support.requires import requires

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def real_control_plane() -> Iterator[Cluster]:
    """Return a real control plane without a node: the running default one, or one of our own.

    Shared by the session: use a namespace per test, and break nothing that others need.
    """
    settings = layout.default_settings(node=False)
    if present := running(layout.default_folder(node=False)):
        yield present
        return
    with private_control_plane(settings.minor) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def real_cluster() -> Iterator[Cluster]:
    """Return a real one-node cluster: the running default one, or one that ends with the session.

    Shared by the session, and the only one of the machine: use a namespace per test.
    """
    folder = layout.default_folder(node=True)
    found = Cluster.present(folder)
    cluster = found or Cluster(folder, layout.default_settings(node=True))
    require(cluster)
    if found is not None:  # started by the user: left running
        found.up()  # mends what died, and loads the hotmap image of the present source
        yield found
        return
    with _lasting(cluster):
        yield cluster


def require(cluster: Cluster) -> None:
    """Skip the test where `cluster` cannot run at all; fail where HOTMAP_REQUIRE promises it."""
    try:
        cluster.require_machine()
    except TestBedError as error:
        requires("cluster", available=False, reason=str(error))


@contextmanager
def private_control_plane(minor: str, *, kwok_nodes: int = 0) -> Iterator[Cluster]:
    """Run a control plane for the length of a with block, on free ports, for tests that break it.

    Skips the test where none can run.
    """
    base = machine.free_base_port(len(layout.PORTS))
    folder = machine.cache_folder() / "clusters" / f"tests-{os.getpid()}-{base}"
    settings = Settings(base, node=False, minor=minor, kwok_nodes=kwok_nodes)
    cluster = Cluster(folder, settings)
    require(cluster)
    with _lasting(cluster):
        yield cluster
    shutil.rmtree(folder)


@contextmanager
def _lasting(cluster: Cluster) -> Iterator[None]:
    """Run a cluster for the length of a with block, or of this process if that is shorter."""
    down = (sys.executable, "-m", "tests.cluster", "down", "--dir", str(cluster.layout.folder))
    with subprocess.Popen(
        [*down, "--after", str(os.getpid())],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as guard:
        try:
            cluster.up()
            yield
        finally:
            cluster.down()
            guard.kill()
