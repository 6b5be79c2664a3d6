"""What a person does in a walkthrough, whatever cluster it is done to.

A scenario is written once, in these words. `local` does it to the local control plane with
hotmap's own client, `cluster` to a real Kubernetes with the real kubectl. Each test has a
namespace of its own. Manifests name the test bed's images; to the local control plane any name
means the host's programs.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from tests.support.processes import child_environment

__all__ = ["TIMEOUT", "Backend", "PatchType", "controller_process", "until"]

T = TypeVar("T")
JsonObject = dict[str, Any]
#: As kubectl patch --type names them; strategic is its default.
PatchType = Literal["strategic", "merge", "json"]

#: Seconds that anything may take before a test fails; less than a kubelet's sync period, so
#: that what is seen within it has a cause.
TIMEOUT = 45.0

ROOT = Path(__file__).parents[2]


class Backend(Protocol):
    """A namespace of a running cluster, as a person uses it."""

    #: Where the test's objects are.
    namespace: str
    #: The administrator's kubeconfig.
    kubeconfig: Path
    #: Seconds after which the node has synced each of its pods at least once.
    sync_limit: float

    async def create(self, manifests: str) -> None:
        """Create every object of a YAML text."""
        ...

    async def get(self, kind: str, name: str) -> JsonObject:
        """Read an object."""
        ...

    async def find(self, kind: str, *, selector: str = "") -> list[JsonObject]:
        """List the objects of a kind."""
        ...

    async def patch(
        self,
        kind: str,
        name: str,
        body: Mapping[str, Any] | Sequence[Any],
        *,
        type: PatchType = "strategic",
    ) -> None:
        """Patch an object; `edit` in the walkthroughs is this."""
        ...

    async def delete(self, kind: str, name: str) -> None:
        """Delete an object."""
        ...

    async def logs(self, pod: str) -> str:
        """Read what a pod's container has printed."""
        ...

    async def exec(self, pod: str, *command: str, container: str = "") -> str:
        """Run a command in a pod's container, "" for the first; return its standard output.

        Raises:
            AssertionError: it ended with another status than 0.
        """
        ...

    async def start_settled(self) -> None:
        """Wait until the node has no more to do for the start of a pod that is ready."""
        ...

    async def rolled_out(self, deployment: str) -> None:
        """Wait for a rollout as `kubectl rollout status` does."""
        ...

    async def history(self, deployment: str) -> list[int]:
        """List the revisions as `kubectl rollout history` does, oldest first."""
        ...

    async def undo(self, deployment: str) -> None:
        """Go back to the revision before as `kubectl rollout undo` does."""
        ...

    async def volume(self, pod: str, volume: str) -> Path:
        """Find the directory of a ConfigMap volume on the node, which is this machine."""
        ...

    def running_controller(self) -> AbstractAsyncContextManager[None]:
        """Have hotmap's controller serve the namespace while a block lasts."""
        ...


async def until(
    check: Callable[[], Awaitable[T | None]], told: str, *, within: float = TIMEOUT
) -> T:
    """Ask again and again until the answer is something; `told` says what is waited for."""
    deadline = time.monotonic() + within
    while True:
        if (found := await check()) is not None:
            return found
        assert time.monotonic() < deadline, f"not within {within:g} s: {told}"
        await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def controller_process(backend: Backend) -> AsyncIterator[None]:
    """Run hotmap's controller as a process outside of the cluster while a block lasts.

    It keeps its records in the test's namespace, so that tests do not know of each other.
    """
    controller = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "hotmap", "controller", "--listen", "none"),
        *("--kubeconfig", str(backend.kubeconfig), "--namespace", backend.namespace),
        stderr=asyncio.subprocess.PIPE,
        stdin=asyncio.subprocess.DEVNULL,
        env=child_environment(),
        cwd=ROOT,
    )
    assert controller.stderr is not None
    said = bytearray()
    try:
        async with asyncio.timeout(TIMEOUT):
            while b"ready" not in said:
                line = await controller.stderr.readline()
                assert line, f"the controller ended: {said.decode()}"
                said += line
        yield
        assert controller.returncode is None, "the controller ended by itself"
    finally:
        with contextlib.suppress(ProcessLookupError):
            controller.terminate()
        said += await controller.stderr.read()
        await controller.wait()
        # Shown by pytest when the test fails.
        sys.stderr.write(said.decode())
    assert controller.returncode == 0
