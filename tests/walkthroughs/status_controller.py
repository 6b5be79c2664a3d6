"""A controller as a process, and the ways in which people and scripts ask for its status."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sys
import time
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

from tests.support.processes import child_environment
from tests.walkthroughs.backend import ROOT, Backend, JsonObject, until

__all__ = ["StatusController", "Wait", "get_text", "running_status_controller"]


def get_text(url: str, seconds: float = 5.0) -> str:
    """Get a page; "" while there is no answer."""
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=seconds) as answer:
        return str(answer.read().decode())
    return ""


class Wait(NamedTuple):
    """How `hotmap status --wait` ended."""

    status: int
    seconds: float
    #: The workload's document that it printed; empty if it printed none.
    document: JsonObject
    #: What it wrote to standard error.
    errors: str

    @property
    def text(self) -> str:
        """Describe it for the message of a failed test."""
        state, reason = self.document.get("state"), self.document.get("reason")
        return (
            f"exit status {self.status} after {self.seconds:.1f}s: {state}: {reason}\n{self.errors}"
        )


class StatusController:
    """hotmap's controller as a process, and its status."""

    def __init__(self, backend: Backend, url: str) -> None:
        self._backend = backend
        self._url = url

    async def status(self, query: str) -> JsonObject:
        """Get /v1/status for a query."""
        text = await asyncio.to_thread(get_text, f"{self._url}/v1/status?{query}", 30.0)
        assert text, "the controller does not answer"
        found: JsonObject = json.loads(text)
        return found

    async def overview(self) -> dict[str, JsonObject]:
        """Get all workloads of the namespace by name, without a request for any of their pods."""
        found = await self.status(f"namespace={self._backend.namespace}")
        return {workload["name"]: workload for workload in found["workloads"]}

    async def workload(self, name: str) -> JsonObject:
        """Get a Deployment with its pods."""
        found = await self.status(f"workload=deployment/{self._backend.namespace}/{name}")
        (document,) = found["workloads"]
        assert isinstance(document, dict)
        return document

    async def pods_metric(self) -> dict[str, int]:
        """Get `hotmap_pods` by state."""
        text = await asyncio.to_thread(get_text, f"{self._url}/metrics")
        found = re.findall(r'^hotmap_pods\{state="(.*)"\} (\d+)', text, re.MULTILINE)
        return {state: int(count) for state, count in found}

    async def wait(self, name: str, seconds: int) -> Wait:
        """Run `hotmap status --wait` for a Deployment."""
        began = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "hotmap", "status", f"deployment/{name}"),
            *("--namespace", self._backend.namespace, "--wait", f"{seconds}s"),
            *(
                "--url",
                self._url,
                "--output",
                "json",
                "--kubeconfig",
                str(self._backend.kubeconfig),
            ),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=child_environment(),
            cwd=ROOT,
        )
        printed, errors = await process.communicate()
        assert process.returncode is not None
        workloads = json.loads(printed)["workloads"] if printed else []
        document: JsonObject = workloads[0] if workloads else {}
        took = time.monotonic() - began
        return Wait(process.returncode, took, document, errors.decode())


@contextlib.asynccontextmanager
async def running_status_controller(
    backend: Backend, folder: Path
) -> AsyncIterator[StatusController]:
    """Run a controller for the namespace as a process; its log is printed afterwards."""
    log = folder / "controller.log"
    with log.open("wb") as written:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "hotmap", "controller", "--listen", "127.0.0.1:0"),
            *("--kubeconfig", str(backend.kubeconfig), "--namespace", backend.namespace),
            *("--namespaces", backend.namespace),
            stderr=written,
            stdin=asyncio.subprocess.DEVNULL,
            env=child_environment(),
            cwd=ROOT,
        )
    try:

        async def port() -> str | None:
            assert process.returncode is None, log.read_text()
            found = re.search(r"status on port (\d+)", log.read_text())
            return found[1] if found else None

        yield StatusController(
            backend, f"http://127.0.0.1:{await until(port, 'the controller runs')}"
        )
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
        sys.stderr.write(log.read_text())  # shown by pytest when a test fails
