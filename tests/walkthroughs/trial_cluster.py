"""What a random trial runs on: a namespace with workloads, their sources, and a controller.

It records every state of every source, with the time at which the API server acknowledged it.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import aiohttp
from tests.agent.agents import free_port
from tests.support.processes import child_environment
from tests.walkthroughs.backend import ROOT, JsonObject
from tests.walkthroughs.trial_workloads import KEYS, Shape, TrialWorkload

from hotmap.core.errors import NotFound
from hotmap.kube.client import Client
from hotmap.kube.kubeconfig import load_kubeconfig
from hotmap.kube.resources import BY_KIND, NAMESPACES, PODS

__all__ = ["MARK", "Edit", "Source", "TrialCluster"]

#: Seconds in which a workload starts on a busy machine.
_START = 120.0

#: The beginning of every value of a Secret.
MARK = "classified"

_CONTENT_TYPE = "application/merge-patch+json"


class Edit(NamedTuple):
    """One state of a source."""

    #: When the API server had acknowledged it, on this process' clock.
    at: float
    version: int
    #: None: it was deleted.
    data: Mapping[str, str] | None


class Source:
    """A ConfigMap or Secret, with all states that it has had."""

    def __init__(self, kind: str, name: str) -> None:
        self.kind, self.name = kind, name
        self.edits: list[Edit] = []
        self.immutable = False

    @property
    def data(self) -> Mapping[str, str] | None:
        return self.edits[-1].data if self.edits else None

    def known(self, at: float, version: str) -> int:
        """Return the index of the newest edit that a status of a moment had to know."""
        number = int(version) if version.isdecimal() else 0
        found = [
            index
            for index, edit in enumerate(self.edits)
            if edit.at <= at or (number and edit.version <= number)
        ]
        return max(found, default=0)


class TrialCluster:
    """One namespace, and what happens in it."""

    def __init__(self, kubeconfig: Path, folder: Path, seed: int, shapes: list[Shape]) -> None:
        self._kubeconfig = kubeconfig
        self.namespace = f"trial-{seed}-{os.getpid()}"
        self.client = Client(load_kubeconfig(str(kubeconfig)), user_agent="trial")
        self.workloads = [TrialWorkload(number, shape) for number, shape in enumerate(shapes)]
        self.sources = {
            name: Source(kind, name)
            for workload in self.workloads
            for name, kind in workload.sources.items()
        }
        #: Gets every document that the controller answers with.
        self.on_status: Callable[[str], None] = lambda _: None
        self.controller: asyncio.subprocess.Process | None = None
        self.port = free_port()
        self.log = folder / f"controller-{seed}.log"
        self._values = 0
        self.began = time.monotonic()
        #: Serializes writes of sources, so that they are recorded in their order.
        self._lock = asyncio.Lock()

    def say(self, text: str) -> None:
        """Write what happens; pytest shows it if the trial fails."""
        sys.stderr.write(f"{time.monotonic() - self.began:7.2f} {text}\n")

    # -- life ----------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run workloads and controller while a block lasts."""
        async with self.client, aiohttp.ClientSession() as self.http:
            namespace = {"metadata": {"name": self.namespace}}
            await self.client.create(NAMESPACES, None, namespace, type=JsonObject)
            try:
                for source in self.sources.values():
                    await self.create_source(source, self.new_data(source, KEYS))
                for workload in self.workloads:
                    await self.create(workload)
                await asyncio.gather(*(self.wait_for_start(each) for each in self.workloads))
                await self.start_controller()
                yield
            finally:
                await self.kill_controller(signal.SIGTERM)
                await self.client.delete(NAMESPACES, None, self.namespace)

    async def create(self, workload: TrialWorkload) -> None:
        body = await asyncio.to_thread(workload.manifest)
        await self.client.create(
            BY_KIND[workload.shape.kind],
            self.namespace,
            body,
            type=JsonObject,
            field_manager="kubectl",
        )

    async def wait_for_start(self, workload: TrialWorkload) -> None:
        async def answers() -> bool:
            pods = await self.pods(workload)
            return bool(pods) and all([await self.ask(workload, pod) for pod in pods])

        assert await _until(answers, _START), f"{workload.name} does not start: {workload.shape}"

    async def start_controller(self) -> None:
        with self.log.open("ab") as written:
            self.controller = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "hotmap", "controller", "--no-leader-elect"),
                *("--listen", f"127.0.0.1:{self.port}", "--kubeconfig", str(self._kubeconfig)),
                *("--namespace", self.namespace, "--namespaces", self.namespace),
                stderr=written,
                stdin=asyncio.subprocess.DEVNULL,
                env=child_environment(),
                cwd=ROOT,
            )

        async def answers() -> bool:
            return bool((await self.status("")).get("ready"))

        assert await _until(answers, _START), self.log.read_text()

    async def kill_controller(self, number: signal.Signals) -> None:
        if self.controller is not None:
            with contextlib.suppress(ProcessLookupError):
                self.controller.send_signal(number)
            await self.controller.wait()
            self.controller = None

    async def status(self, query: str) -> JsonObject:
        """Get /v1/status; empty while no controller answers."""
        url = f"http://127.0.0.1:{self.port}/v1/status?{query}"
        with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError):
            async with self.http.get(url, timeout=aiohttp.ClientTimeout(30)) as response:
                text = await response.text()
                self.on_status(text)
                found: JsonObject = await response.json(content_type=None)
                return found
        return {}

    async def wait_by_command(self, workload: TrialWorkload, seconds: int) -> tuple[int, str]:
        """Run `hotmap status --wait`; returns its exit status and what it printed."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "hotmap", "status"),
            f"{workload.shape.kind.lower()}/{workload.name}",
            *("--namespace", self.namespace, "--kubeconfig", str(self._kubeconfig)),
            *("--url", f"http://127.0.0.1:{self.port}", f"--wait={seconds}s"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=child_environment(),
            cwd=ROOT,
        )
        try:
            printed, _ = await process.communicate()
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        assert process.returncode is not None
        return process.returncode, printed.decode()

    async def pods(self, workload: TrialWorkload) -> list[JsonObject]:
        page = await self.client.list_page(
            PODS, self.namespace, type=JsonObject, label_selector=f"app={workload.name}"
        )
        return [pod for pod in page.items if "deletionTimestamp" not in pod["metadata"]]

    async def ask(self, workload: TrialWorkload, pod: JsonObject) -> dict[str, str] | None:
        """Ask the process in a pod what it has loaded; None: it does not answer."""
        address = pod.get("status", {}).get("podIP")
        if not address:
            return None
        with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError):
            async with self.http.get(
                f"http://{address}:{workload.port}/", timeout=aiohttp.ClientTimeout(2)
            ) as response:
                found: dict[str, str] = await response.json(content_type=None)
                return found
        return None

    def new_data(self, source: Source, keys: tuple[str, ...]) -> dict[str, str]:
        """Make new values for some data keys; each value is used once."""
        before = dict(source.data or {})
        for key in keys:
            self._values += 1
            value = f"{MARK}-{self._values}" if source.kind == "Secret" else f"v{self._values}"
            before[f"{source.name}{key}"] = value
        return before

    async def wait_until_gone(self, workload: TrialWorkload) -> None:
        """Wait until no pod of a workload is left."""

        async def is_gone() -> bool:
            page = await self.client.list_page(
                PODS, self.namespace, type=JsonObject, label_selector=f"app={workload.name}"
            )
            return not page.items

        assert await _until(is_gone, _START), f"pods of {workload.name} are not deleted"

    async def patch_workload(self, workload: TrialWorkload, body: JsonObject) -> None:
        await self.client.patch(
            BY_KIND[workload.shape.kind],
            self.namespace,
            workload.name,
            body,
            type=JsonObject,
            content_type=_CONTENT_TYPE,
            field_manager="kubectl",
        )

    async def restart(self, workload: TrialWorkload) -> None:
        self._values += 1
        annotations = {"kubectl.kubernetes.io/restartedAt": str(self._values)}
        body = {"spec": {"template": {"metadata": {"annotations": annotations}}}}
        await self.patch_workload(workload, body)

    async def set_mode(self, workload: TrialWorkload, mode: str) -> None:
        for pod in await self.pods(workload):
            address = pod.get("status", {}).get("podIP")
            with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError):
                await self.http.post(
                    f"http://{address}:{workload.port}/mode/{mode}",
                    timeout=aiohttp.ClientTimeout(2),
                )

    # -- sources -------------------------------------------------------------------------------

    async def create_source(
        self, source: Source, data: Mapping[str, str], *, immutable: bool = False
    ) -> None:
        body = {
            "apiVersion": "v1",
            "kind": source.kind,
            "metadata": {"name": source.name},
            "data": _encoded(source, data),
            **({"immutable": True} if immutable else {}),
        }
        async with self._lock:
            found = await self.client.create(
                BY_KIND[source.kind],
                self.namespace,
                body,
                type=JsonObject,
                field_manager="kubectl",
            )
            self._record(source, found, data)

    async def patch_source(self, source: Source, data: Mapping[str, str]) -> None:
        removed = dict.fromkeys(set(source.data or {}) - set(data))
        async with self._lock:
            found = await self.client.patch(
                BY_KIND[source.kind],
                self.namespace,
                source.name,
                {"data": {**removed, **_encoded(source, data)}},
                type=JsonObject,
                field_manager="kubectl",
            )
            self._record(source, found, data)

    async def edit(self, source: Source, keys: tuple[str, ...]) -> None:
        """Give new values to some data keys."""
        await self.patch_source(source, self.new_data(source, keys))

    async def delete_pod(self, pod: JsonObject) -> None:
        """Delete a pod, unless it is gone."""
        with contextlib.suppress(NotFound):
            await self.client.delete(PODS, self.namespace, pod["metadata"]["name"])

    def query(self, workload: TrialWorkload) -> str:
        """Make the query for the status of one workload."""
        return f"workload={workload.shape.kind}/{self.namespace}/{workload.name}"

    async def delete_source(self, source: Source) -> None:
        async with self._lock:
            await self.client.delete(BY_KIND[source.kind], self.namespace, source.name)
            version = source.edits[-1].version
            source.edits.append(Edit(time.monotonic(), version, None))

    def _record(self, source: Source, found: JsonObject, data: Mapping[str, str]) -> None:
        version = int(found["metadata"]["resourceVersion"])
        source.edits.append(Edit(time.monotonic(), version, dict(data)))
        self.say(f"{source.kind} {source.name} {version}: {data}")


def _encoded(source: Source, data: Mapping[str, str]) -> dict[str, str]:
    if source.kind != "Secret":
        return dict(data)
    return {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}


async def _until(check: Callable[[], Awaitable[bool]], within: float) -> bool:
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        if await check():
            return True
        await asyncio.sleep(0.1)
    return False
