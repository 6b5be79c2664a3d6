"""Simulates the agents of many pods in one process: `python -m benchmarks.simulated_agents`.

Reads {address: uid} as one line of JSON, watches the pods for announcements, and answers as an
agent does that loads what is announced some time later. Prints a line for each burst of loads, and
the number of requests for each line that it reads.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from benchmarks.clusters import ClusterUser
from hotmap.core.target import TARGET
from hotmap.kube.client import Client
from hotmap.kube.kubeconfig import load_kubeconfig


class _Agent:
    """One agent."""

    def __init__(self, uid: str) -> None:
        self.uid = uid
        self.target = ""
        self.loaded = ""

    def document(self) -> bytes:
        parts = [*self.target.split("/"), "", "", "", ""]
        done = self.loaded == self.target
        directory = {
            "state": "loaded" if done else "loading",
            "evidence": "exact" if parts[3] else "",
            "payload": parts[3],
            "age": 0.1,
        }
        document = {
            "protocol": 1,
            "uid": self.uid,
            "live": parts[1],
            "frozen": parts[2],
            "directories": [directory],
        }
        return json.dumps(document).encode()


class _Agents:
    def __init__(self, uids: dict[str, str], seconds: float) -> None:
        self._seconds = seconds
        self.by_uid = {uid: _Agent(uid) for uid in uids.values()}
        self.requests = self.loads = 0
        self._printed = 0

    async def listen(self, uids: dict[str, str], port: int) -> None:
        for address, uid in uids.items():
            agent = self.by_uid[uid]
            await asyncio.start_server(
                lambda reader, writer, agent=agent: self._serve(agent, reader, writer),  # type: ignore[misc]
                address,
                port,
            )

    async def _serve(
        self, agent: _Agent, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.requests += 1
        await reader.readuntil(b"\r\n\r\n")
        body = agent.document()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        writer.close()

    def announce(self, uid: str, target: str) -> None:
        """Have an agent load what is announced; a repetition changes nothing."""
        agent = self.by_uid.get(uid)
        if agent is None or not target:
            return
        new = target.split("/")[1:4] != agent.target.split("/")[1:4]
        done = agent.loaded == agent.target
        agent.target = target
        if new:
            asyncio.get_running_loop().call_later(self._seconds, self._load, agent)
        elif done:
            agent.loaded = target

    def _load(self, agent: _Agent) -> None:
        agent.loaded = agent.target
        self.loads += 1

    async def tell(self) -> None:
        """Print how many loads there were, whenever there were more."""
        at = 0.0
        while True:
            if self.loads != self._printed:
                self._printed, at = self.loads, time.perf_counter()
                print(json.dumps({"loads": self._printed, "at": at}), flush=True)
            await asyncio.sleep(0.01)


async def _main() -> None:
    kubeconfig, port, seconds = sys.argv[1:4]
    reader = asyncio.StreamReader(limit=1 << 24)
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    uids: dict[str, str] = json.loads(await reader.readline())
    agents = _Agents(uids, float(seconds))
    await agents.listen(uids, int(port))
    async with Client(load_kubeconfig(kubeconfig), user_agent="hotmap-benchmarks") as client:

        async def follow() -> None:
            async for _, pod in ClusterUser(client).watch_pods():
                target = (pod.metadata.annotations or {}).get(TARGET, "")
                agents.announce(pod.metadata.uid, target)

        tasks = [asyncio.create_task(follow()), asyncio.create_task(agents.tell())]
        print("{}", flush=True)
        while await reader.readline():
            print(json.dumps({"requests": agents.requests}), flush=True)
        for task in tasks:
            task.cancel()


if __name__ == "__main__":
    asyncio.run(_main())
