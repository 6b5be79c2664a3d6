"""The kubelet's API for the API server: container logs, exec, attach and port-forward.

Upstream speaks HTTP to the node for this; here the kubelet is in the same process, so the
contract is these protocols. The kubelet implements them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    import asyncio
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


class StreamOptions(NamedTuple):
    """The streams of a command or a container that a client wants (core/v1 PodExecOptions)."""

    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False


class RemoteSession(Protocol):
    """The streams of a command that runs inside a container, or of the container itself."""

    async def read(self) -> tuple[Literal["stdout", "stderr"], bytes] | None:
        """Wait for output; None when both streams have ended."""
        ...

    async def write(self, data: bytes) -> None:
        """Pass on input; wait while it is not read, raise nothing when it never will be."""
        ...

    async def close_input(self) -> None:
        """End the command's input."""
        ...

    async def resize(self, width: int, height: int) -> None:
        """Set the size of the terminal; without one, do nothing."""
        ...

    async def wait(self) -> int:
        """Wait for the end; return the exit code of a command (128 + n after signal n).

        Raises:
            ApiError: the command could not be executed.
        """
        ...

    async def close(self) -> None:
        """Kill a command that still runs, or leave a container; free what it used."""
        ...


class KubeletAPI(Protocol):
    """The node's side of the pod subresources that hold a connection open."""

    async def logs(
        self, namespace: str, pod: str, container: str, options: LogOptions
    ) -> AsyncIterator[bytes]:
        """Open a container's log; chunks are not necessarily lines.

        Raises:
            BadRequest: there is no such container, or it has not started yet.
        """
        ...

    async def exec(
        self,
        namespace: str,
        pod: str,
        container: str,
        command: Sequence[str],
        options: StreamOptions,
    ) -> RemoteSession:
        """Start a command inside a running container.

        Raises:
            BadRequest: there is no such container.
            ApiError: 500, it does not run.
        """
        ...

    async def attach(
        self, namespace: str, pod: str, container: str, options: StreamOptions
    ) -> RemoteSession:
        """Join a client and the streams of a running container.

        Raises:
            BadRequest: there is no such container.
            ApiError: 500, it does not run.
        """
        ...

    async def connect(
        self, namespace: str, pod: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection to a port of a pod.

        Raises:
            ApiError: nothing listens there, or the pod does not run.
        """
        ...

    def address(self, namespace: str, pod: str) -> str:
        """Return the address that the node has given to a pod, "" if it has none here."""
        ...
