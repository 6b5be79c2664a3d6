"""What does a client notice of an edit that restarts the processes of five replicas in place?

Once with waves of one pod, as maxUnavailable 1 says, and once with all pods at once. The
application takes two seconds to start, and its agent restarts it inside its container.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.clusters import TIMEOUT, Cluster, ClusterUser, cluster_user
from benchmarks.figures import Comparison
from benchmarks.generate import config_map
from benchmarks.processes import controller, start_plane, stop
from benchmarks.scope import Scope, measured

__all__ = ["run"]

_REPLICAS = 5

#: Seconds that the application takes to start.
_START = 2.0

#: Seconds between two requests to each pod, and the time-out of one.
_INTERVAL, _TIMEOUT = 0.05, 0.5

_PORT, _AGENT_PORT = 8080, 9533

#: Serves the content that it read at its start.
_APPLICATION = """
import http.server, os, sys, time
text = open("/etc/files/text").read().encode()
time.sleep(float(sys.argv[1]))
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def log_message(self, *words): pass
http.server.ThreadingHTTPServer((os.environ["POD_IP"], int(sys.argv[2])), Handler).serve_forever()
"""


class _Outage(NamedTuple):
    #: Seconds until all pods served the new content, and with fewer pods than permitted.
    seconds: float
    below: float
    #: The fewest pods that served at once, and the longest time in seconds in which none did.
    fewest: int
    gap: float
    #: Requests of a client that asks one pod after the other, and how many of them failed.
    requests: int
    failed: int


async def run(scope: Scope) -> AsyncIterator[Comparison]:
    """Edit a ConfigMap that five pods have read at their start."""
    with measured("Outage of five replicas that restart in place") as result:
        async with (
            _quiet_plane() as cluster,
            cluster_user(cluster) as user,
            controller(cluster),
        ):
            waves = await _restart(user, "waves", max_unavailable=1)
            at_once = await _restart(user, "at-once", max_unavailable=_REPLICAS)
        result.notes = [
            f"Local plane; the application takes {_START:g} s to start; its agent restarts it.",
            f"Each pod is asked every {_INTERVAL * 1000:g} ms. "
            "A wave waits for readiness probes and for the agents' word.",
            "Permitted: maxUnavailable pods that do not serve.",
        ]
    rows = (
        ("seconds until all pods have the new content", "{0.seconds:.1f}"),
        ("seconds with fewer pods than permitted", "{0.below:.2f}"),
        ("fewest pods that served", "{0.fewest}"),
        ("longest gap in which none served, in seconds", "{0.gap:.2f}"),
        ("failed requests, one pod after the other", "{0.failed} of {0.requests}"),
    )
    yield result.comparison(
        ["", "maxUnavailable 1", f"maxUnavailable {_REPLICAS}"],
        [[what, row.format(waves), row.format(at_once)] for what, row in rows],
    )


@asynccontextmanager
async def _quiet_plane() -> AsyncIterator[Cluster]:
    """Run a plane whose kubelet updates files only when it is told to."""
    with tempfile.TemporaryDirectory(prefix="hotmap-bench-") as directory:
        plane = await start_plane(Path(directory) / "plane", "--sync-period", "1h")
        try:
            yield plane.cluster()
        finally:
            await stop(plane.process)


async def _restart(user: ClusterUser, name: str, *, max_unavailable: int) -> _Outage:
    """Let the pods of a new Deployment restart, and watch them as a client does."""
    await user.create([config_map(name, text="one"), _deployment(name, max_unavailable)])
    addresses = await _addresses(user, name)
    watch = _Watch(addresses)
    watching = asyncio.create_task(watch.run())
    try:
        await watch.until("one")
        await user.edit(name, {"text": "two"})
        began = time.perf_counter()
        watch.begin()
        await watch.until("two")
        return watch.outage(time.perf_counter() - began, _REPLICAS - max_unavailable)
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await user.remove(name)


async def _addresses(user: ClusterUser, name: str) -> list[str]:
    """Wait until all pods are Ready; returns their addresses."""
    async with asyncio.timeout(TIMEOUT):
        while True:
            pods = [
                pod
                for pod in await user.pods()
                if (pod.metadata.labels or {}).get("app") == name
                and any(each.ready for each in pod.status.container_statuses or ())
            ]
            if len(pods) == _REPLICAS:
                return [pod.status.pod_ip for pod in pods]
            await asyncio.sleep(_INTERVAL)


class _Watch:
    """Asks each pod all the time."""

    def __init__(self, addresses: list[str]) -> None:
        self._addresses = addresses
        #: By request of all pods: its time, and what each pod served.
        self._seen: list[tuple[float, list[str]]] = []

    def begin(self) -> None:
        """Forget what was before the edit."""
        self._seen.clear()

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            at = time.perf_counter()
            answers = await asyncio.gather(*map(_ask, self._addresses))
            self._seen.append((at, list(answers)))
            await asyncio.sleep(max(0.0, at + _INTERVAL - time.perf_counter()))

    async def until(self, text: str) -> None:
        """Wait until all pods serve a text."""
        async with asyncio.timeout(2 * TIMEOUT):
            while not self._serves(text):  # noqa: ASYNC110 - each look is a request
                await asyncio.sleep(_INTERVAL)

    def _serves(self, text: str) -> bool:
        return bool(self._seen) and self._seen[-1][1] == [text] * len(self._addresses)

    def outage(self, seconds: float, permitted: int) -> _Outage:
        """Sum up what was seen since the edit; `permitted`: pods that have to serve."""
        serving = [(at, sum(map(bool, answers))) for at, answers in self._seen]
        below = gap = none_since = 0.0
        for (at, count), (until, _) in pairwise(serving):
            below += (until - at) * (count < permitted)
            none_since = none_since or at if not count else 0.0
            gap = max(gap, until - none_since) if none_since else gap
        chosen = [answers[number % _REPLICAS] for number, (_, answers) in enumerate(self._seen)]
        return _Outage(
            seconds,
            below,
            min(count for _, count in serving),
            gap,
            len(chosen),
            chosen.count(""),
        )


async def _ask(address: str) -> str:
    """Return what a pod serves; "" if it does not."""
    try:
        async with asyncio.timeout(_TIMEOUT):
            reader, writer = await asyncio.open_connection(address, _PORT)
            try:
                writer.write(b"GET / HTTP/1.0\r\n\r\n")
                answer = await reader.read()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return ""
    return answer.partition(b"\r\n\r\n")[2].decode()


def _deployment(name: str, max_unavailable: int) -> dict[str, Any]:
    agent = (
        *(sys.executable, "-m", "hotmap", "agent", "--dir", "/etc/files"),
        *("--target-file", "/hotmap/pod/annotations", "--listen", f"$(POD_IP):{_AGENT_PORT}"),
        *("--restart", "supervised", "--"),
    )
    container = {
        "name": "main",
        "image": "host",
        "command": [*agent, sys.executable, "-c", _APPLICATION, str(_START), str(_PORT)],
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "readinessProbe": {"httpGet": {"path": "/", "port": _PORT}, "periodSeconds": 1},
        "volumeMounts": [
            {"name": "files", "mountPath": "/etc/files"},
            {"name": "pod", "mountPath": "/hotmap/pod"},
        ],
    }
    items = [
        {"path": path, "fieldRef": {"fieldPath": f"metadata.{path}"}}
        for path in ("annotations", "uid")
    ]
    labels = {"app": name}
    annotation = {"hotmap.dev/agent": f"port={_AGENT_PORT};restart=supervised"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "annotations": {"hotmap.dev/follow": "auto"}},
        "spec": {
            "replicas": _REPLICAS,
            "strategy": {"rollingUpdate": {"maxUnavailable": max_unavailable}},
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": annotation},
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [container],
                    "volumes": [
                        {"name": "files", "configMap": {"name": name}},
                        {"name": "pod", "downwardAPI": {"items": items}},
                    ],
                },
            },
        },
    }
