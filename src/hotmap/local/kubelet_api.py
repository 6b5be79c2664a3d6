"""The kubelet's API for the API server: container logs and exec.

Upstream speaks HTTP to the node for this; here the kubelet is in the same process, so the
contract is this pair of protocols. The kubelet implements them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence


class LogOptions(NamedTuple):
    """Which part of a log is wanted (core/v1 PodLogOptions); None means no restriction.

    `since` is POSIX seconds: lines written before it are left out. `tail_lines` counts from
    the end, `limit_bytes` from the beginning of what is sent. With `follow` the log goes on
    until the container is gone for good.
    """

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since: float | None = None
    limit_bytes: int | None = None


class ExecOptions(NamedTuple):
    """A command and its streams (core/v1 PodExecOptions)."""

    command: Sequence[str]
    stdin: bool = False
    tty: bool = False


class ExecSession(Protocol):
    """A command that runs inside a container."""

    async def read(self) -> tuple[Literal["stdout", "stderr"], bytes] | None:
        """Wait for output; None when both streams have ended."""
        ...

    async def write(self, data: bytes) -> None:
        """Pass on input; raises nothing when the command no longer reads."""
        ...

    async def close_input(self) -> None:
        """End the command's input."""
        ...

    async def resize(self, width: int, height: int) -> None:
        """Set the size of the terminal; without one, do nothing."""
        ...

    async def wait(self) -> int:
        """Wait for the end of the command; return its exit code (128 + n after signal n)."""
        ...

    async def close(self) -> None:
        """Kill the command if it still runs, and free what it used."""
        ...


class KubeletAPI(Protocol):
    """The node's side of the pod subresources `log` and `exec`."""

    async def logs(
        self, namespace: str, pod: str, container: str, options: LogOptions
    ) -> AsyncIterator[bytes]:
        """Open a container's log; chunks are not necessarily lines.

        Raises:
            BadRequest: there is no such container, or it has not started yet.
        """
        ...

    async def exec(
        self, namespace: str, pod: str, container: str, options: ExecOptions
    ) -> ExecSession:
        """Start a command inside a running container.

        Raises:
            BadRequest: there is no such container, or it does not run.
        """
        ...
