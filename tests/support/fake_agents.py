"""Agents that answer by the real protocol, for hundreds of pods in one process.

Each listens at an address of its own below 127.0.0.0/8, as the pods of the local control plane do,
and says whatever its test sets.
"""

from __future__ import annotations

import asyncio
import ipaddress
import itertools
import json
import os
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["FakeAgent", "FakeAgents"]

#: 127.64.0.0/10: other addresses than a local control plane gives to its pods, and other ones in
#: each process.
_FIRST = int(ipaddress.IPv4Address("127.64.0.0")) + (os.getpid() % 4096 << 10)
_ADDRESSES = (str(ipaddress.IPv4Address(_FIRST + number)) for number in itertools.count(1))


class FakeAgent:
    """One agent; `document` is what it answers, `respond` what it sends instead of that."""

    def __init__(self, uid: str) -> None:
        self.address = next(_ADDRESSES)
        self.document: dict[str, Any] = {
            "protocol": 1,
            "uid": uid,
            "live": "",
            "frozen": "",
            "directories": [{"state": "loaded", "evidence": "", "payload": "", "age": None}],
        }
        #: Returns the response, None for none, or its pieces, of which one is sent every 50 ms.
        self.respond: Callable[[], bytes | Iterator[bytes] | None] = self._respond
        #: Requests so far, and bytes that were sent in pieces.
        self.requests = self.sent = 0
        self._server: asyncio.Server | None = None

    def _respond(self) -> bytes:
        body = json.dumps(self.document).encode()
        return (
            f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
            + body
        )

    def tell(self, target: str, *, state: str = "loaded", **fields: Any) -> None:
        """Let it have an announcement and be in a state with the files of it."""
        _, live, frozen, payloads, *_ = [*target.split("/"), ""]
        exact = [payload for payload in payloads.split(".") if payload]
        self.document |= {"live": live, "frozen": frozen, **fields}
        self.document["directories"] = [
            {"state": state, "evidence": "exact", "payload": payload, "age": 0.5}
            for payload in exact
        ] or [{"state": state, "evidence": "order", "payload": "", "age": 0.5}]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.requests += 1
        try:
            await reader.readuntil(b"\r\n\r\n")
            response = self.respond()
            if response is None:
                await reader.read()  # it never answers; the client goes
            elif isinstance(response, bytes):
                writer.write(response)
                await writer.drain()
            else:
                for piece in response:
                    writer.write(piece)
                    await writer.drain()
                    self.sent += len(piece)
                    await asyncio.sleep(0.05)
        except (OSError, EOFError):
            return
        finally:
            writer.close()

    async def start(self, port: int) -> None:
        self._server = await asyncio.start_server(self._serve, self.address, port)

    async def stop(self) -> None:
        """Go away: connections are refused from now on."""
        if self._server is not None:
            self._server.close()
            self._server = None


class FakeAgents:
    """Starts agents and stops them all at the end of a block."""

    #: The port of all of them, which is not a default of anything; each has its own address.
    PORT = 29533

    def __init__(self) -> None:
        self._agents: list[FakeAgent] = []

    async def __aenter__(self) -> FakeAgents:
        return self

    async def __aexit__(self, *_: object) -> None:
        for agent in self._agents:
            await agent.stop()

    async def start(self, uid: str) -> FakeAgent:
        agent = FakeAgent(uid)
        await agent.start(self.PORT)
        self._agents.append(agent)
        return agent
