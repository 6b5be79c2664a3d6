"""A kubelet that answers from memory."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal

from hotmap.core.errors import api_error

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from hotmap.local.kubelet_api import LogOptions, StreamOptions


class EchoSession:
    """Says its command on stderr, repeats its input on stdout, ends with the input."""

    def __init__(self, command: Sequence[str]) -> None:
        self.output: asyncio.Queue[tuple[Literal["stdout", "stderr"], bytes] | None]
        self.output = asyncio.Queue()
        self.output.put_nowait(("stderr", " ".join(command).encode()))
        self.size: tuple[int, int] | None = None
        self.closed = asyncio.Event()
        self.code = 7

    async def read(self) -> tuple[Literal["stdout", "stderr"], bytes] | None:
        return await self.output.get()

    async def write(self, data: bytes) -> None:
        self.output.put_nowait(("stdout", data))

    async def close_input(self) -> None:
        self.output.put_nowait(None)

    async def resize(self, width: int, height: int) -> None:
        self.size = (width, height)

    async def wait(self) -> int:
        return self.code

    async def close(self) -> None:
        self.output.put_nowait(None)
        self.closed.set()


class FakeKubelet:
    """Remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.sessions: list[EchoSession] = []
        #: Where the ports of pods are on this machine.
        self.ports: dict[int, int] = {}
        #: The addresses of pods, by their names.
        self.addresses: dict[str, str] = {}

    async def logs(
        self, namespace: str, pod: str, container: str, options: LogOptions
    ) -> AsyncIterator[bytes]:
        self.asked.append((namespace, pod, container, options))

        async def lines() -> AsyncIterator[bytes]:
            yield b"one\n"
            yield b"two\n"

        return lines()

    async def exec(
        self,
        namespace: str,
        pod: str,
        container: str,
        command: Sequence[str],
        options: StreamOptions,
    ) -> EchoSession:
        self.asked.append((namespace, pod, container, command, options.stdin, options.tty))
        self.sessions.append(EchoSession(command))
        return self.sessions[-1]

    async def attach(
        self, namespace: str, pod: str, container: str, options: StreamOptions
    ) -> EchoSession:
        self.asked.append((namespace, pod, container, *options))
        self.sessions.append(EchoSession(["attached"]))
        return self.sessions[-1]

    async def connect(
        self, namespace: str, pod: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if port not in self.ports:
            raise api_error(500, "connection refused", reason="InternalError")
        return await asyncio.open_connection("127.0.0.1", self.ports[port])

    def address(self, namespace: str, pod: str) -> str:
        return self.addresses.get(pod, "") if namespace == "default" else ""
