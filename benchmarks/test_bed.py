"""The real Kubernetes of tests/cluster, for the length of a benchmark.

A node is the only one of its machine: one that runs already is used and left running.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from tests.cluster import cluster as test_bed
from tests.cluster import layout, machine

from benchmarks.clusters import Cluster

__all__ = ["real_control_plane", "real_node"]


@asynccontextmanager
async def real_control_plane() -> AsyncIterator[Cluster]:
    """Run a real control plane without a node, on free ports.

    Raises:
        TestBedError: it cannot run here; the message says what is missing.
    """
    with tempfile.TemporaryDirectory(prefix="hotmap-bench-") as directory:
        settings = layout.Settings(machine.free_base_port(len(layout.PORTS)), node=False)
        real = test_bed.Cluster(Path(directory), settings)
        with _up(real):
            yield Cluster(_name(real), real.kubeconfig, kubelet=None, image="")


@asynccontextmanager
async def real_node() -> AsyncIterator[Cluster]:
    """Use the machine's real node, or run it.

    Raises:
        TestBedError: it cannot run here; the message says what is missing.
    """
    folder = layout.default_folder(node=True)
    present = test_bed.running(folder)
    real = present or test_bed.Cluster(folder, layout.default_settings(node=True))
    cluster = Cluster(
        f"{_name(real)} with its kubelet",
        real.kubeconfig,
        kubelet=folder / "kubelet",
        image="hotmap.test/busybox:1",
    )
    if present is not None:
        yield cluster
        return
    with _up(real):
        yield cluster


@contextmanager
def _up(real: test_bed.Cluster) -> Iterator[None]:
    try:
        real.up(lambda _: None)
        yield
    finally:
        real.down(lambda _: None)


def _name(real: test_bed.Cluster) -> str:
    return f"real Kubernetes {real.layout.settings.minor}"
