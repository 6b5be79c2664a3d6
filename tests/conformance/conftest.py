"""A local cluster in a process of its own, and the kubectl of this machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from tests.cluster.build import Programs
from tests.support.requires import requires

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_CLUSTER = """
import asyncio, pathlib, signal, sys
from hotmap.local.cluster import LocalCluster, PlaneSettings

async def main():
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    settings = PlaneSettings(rbac=True)
    node = sys.argv[2] == "node"
    async with LocalCluster(
        pathlib.Path(sys.argv[1]), start_node=node, settings=settings
    ) as cluster:
        print("ready", flush=True)
        stopping = asyncio.create_task(stop.wait())
        failing = asyncio.create_task(cluster.wait_for_failure())
        await asyncio.wait((stopping, failing), return_when=asyncio.FIRST_COMPLETED)
        if failing.done():
            failing.result()

asyncio.run(main())
"""

#: Seconds after which a command line hangs: far more than any needs on the busiest machine.
_HANGS = 300


def find_kubectl() -> str | None:
    """Find the kubectl that the test bed has built, else the one on the path.

    That of another release prints other texts than the recorded ones.
    """
    built = Programs().path("kubectl")
    return str(built) if built.exists() else shutil.which("kubectl")


class Result(NamedTuple):
    """What a command line gave; `output` has standard error after standard output."""

    status: int
    output: str


class Kubectl:
    """Runs kubectl against one cluster, with a home and a working directory of its own."""

    def __init__(self, program: str, kubeconfig: Path, directory: Path) -> None:
        self._program = program
        self.directory = directory
        self._environment = {
            **os.environ,
            "KUBECONFIG": str(kubeconfig),
            "HOME": str(directory),
            "KUBE_EDITOR": "sed -i s/colour/color/",
        }

    def run(
        self,
        *arguments: str,
        namespace: str = "default",
        input: str = "",
        env: Mapping[str, str] | None = None,
    ) -> Result:
        done = subprocess.run(
            [self._program, f"--namespace={namespace}", *arguments],
            cwd=self.directory,
            env={**self._environment, **(env or {})},
            input=input,
            capture_output=True,
            text=True,
            timeout=_HANGS,
            check=False,
        )
        return Result(done.returncode, done.stdout + done.stderr)

    @contextmanager
    def start(
        self, *arguments: str, env: Mapping[str, str], stderr: int | None = None
    ) -> Iterator[subprocess.Popen[str]]:
        """Run a command that goes on until it is ended, at the latest with the `with`."""
        with subprocess.Popen(
            [self._program, "--namespace=default", *arguments],
            cwd=self.directory,
            env={**self._environment, **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.terminate()


def run_cluster(directory: Path, mode: str) -> Iterator[Kubectl]:
    """Run a cluster until the caller is done; `mode` is "node" or "plane"."""
    program = find_kubectl()
    requires("kubectl", available=program is not None, reason="there is none on the path")
    assert program is not None
    state = directory / "state"
    command = [sys.executable, "-c", _CLUSTER, str(state), mode]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            ready = process.stdout.readline() == "ready\n"
            requires("namespaces", available=ready, reason="the cluster did not start")
            yield Kubectl(program, state / "kubeconfig", directory)
        finally:
            process.send_signal(signal.SIGTERM)


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """A cluster without a node: pods stay pending."""
    yield from run_cluster(tmp_path_factory.mktemp("plane"), "plane")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """A cluster whose node runs pods."""
    yield from run_cluster(tmp_path_factory.mktemp("cluster"), "node")
