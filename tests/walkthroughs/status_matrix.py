"""Workloads with an agent, each with a trouble of its own, observed while their sources are edited.

All of them run at once, in one namespace. What status, Events, metrics and `hotmap status --wait`
say is kept together with what the processes themselves answered at that moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from tests.agent.agents import free_port
from tests.walkthroughs.backend import Backend, JsonObject, until
from tests.walkthroughs.status_controller import (
    StatusController,
    Wait,
    get_text,
    running_status_controller,
)

from hotmap.cli.inject import Injection, default_image, inject

__all__ = ["TROUBLES", "USES", "WAIT_SECONDS", "Cell", "Observation", "Observations", "observe"]

USES = ("file", "env", "staged")
TROUBLES = (
    "no trouble",
    "agent refuses",
    "checker missing",
    "load fails",
    "agent killed",
    "agent stopped",
    "application not ready",
    "old agent",
    "no agent",
)

#: Seconds after the edit in which status and processes are compared again and again.
_WATCHED = 12.0

#: Seconds for which `hotmap status` waits for each.
WAIT_SECONDS = 6

#: Seconds in which all of them start.
_PATIENCE = 240.0

#: What each trouble makes of the edit; anything else becomes "two".
_EDITS = {"agent refuses": "broken two", "load fails": "fails two"}

#: Refuses a directory with a file that is broken; the agent's image has Python and no shell.
_CHECK = (
    'import pathlib, sys; found = pathlib.Path(sys.argv[1]).rglob("text"); '
    'sys.exit(any("broken" in path.read_text() for path in found))'
)

_SERVER = """
import http.server, os, pathlib, sys

use, port, ready = sys.argv[1:4]

def read():
    return os.environ["text"] if use == "env" else pathlib.Path("/conf/text").read_text()

loaded = read()
if loaded.startswith("fails"):
    sys.exit("invalid value")

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/v1/pod":
            self.answer(404, "")
        elif self.path == "/ready":
            self.answer(200 if ready == "ready" else 503, "")
        else:
            self.answer(200, loaded)
    def do_POST(self):
        global loaded
        found = read()
        if found.startswith("fails"):
            self.answer(500, "")
        else:
            loaded = found
            self.answer(200, "")
    def answer(self, status, text):
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())
    def log_message(self, *_):
        pass

http.server.ThreadingHTTPServer(("", int(port)), Handler).serve_forever()
"""


class Cell(NamedTuple):
    """One workload of the matrix."""

    trouble: str
    use: str

    @property
    def name(self) -> str:
        return f"{self.trouble} {self.use}".replace(" ", "-")

    @property
    def new(self) -> str:
        """What its source holds after the edit."""
        return _EDITS.get(self.trouble, "two")


class Observation(NamedTuple):
    """What was seen of one workload in the end."""

    #: Its document of /v1/status, with pods.
    status: JsonObject
    #: What its process answered after that; "" where none did.
    served: str
    #: How `hotmap status --wait` ended, and what the process answered after that.
    wait: Wait
    served_after_wait: str
    #: Reasons of the Warning Events on it.
    warnings: frozenset[str]


class Observations(NamedTuple):
    """What was seen of all of them."""

    cells: Mapping[Cell, Observation]
    #: Every moment at which status said current and the process answered with old content.
    false_current: tuple[str, ...]
    #: `hotmap_pods` by state, and the pods of the status documents counted by state.
    metric: Mapping[str, int]
    counted: Mapping[str, int]


class _Workload:
    """One cell while it runs."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.port, self.agent_port = free_port(), free_port()
        self.address = ""
        #: The resourceVersion of its source after the edit, and whether the controller has that.
        self.version = ""
        self.is_seen = False

    def manifests(self) -> str:
        cell = self.cell
        source = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": cell.name},
            "data": {"text": "one"},
        }
        return f"{yaml.safe_dump(source)}---\n{self._deployment()}"

    def _deployment(self) -> str:
        cell = self.cell
        check = f"python3 -c '{_CHECK}' {{dir}}"
        flags = [
            *("--listen", f":{self.agent_port}", "--retry-max", "1s", "--work-dir", "/hotmap/run"),
            *("--check", "no-such-checker {dir}" if cell.trouble == "checker missing" else check),
        ]
        if cell.use != "env":
            flags += ["--url", f"http://127.0.0.1:{self.port}/-/reload"]
        injection = Injection(
            default_image(),
            "app",
            tuple(flags),
            "supervisor" if cell.use == "env" else "native-sidecar",
            stage=cell.use == "staged",
        )
        text, _ = inject(yaml.safe_dump(self._template()), injection, "manifest.yaml")
        found, replaced = f"port={self.agent_port};", f"port={self.agent_port};"
        if cell.trouble == "old agent":
            replaced = f"port={self.port};"  # answers 404, as an agent without the document does
        elif cell.trouble == "no agent":
            replaced = f"port={free_port()};"
        assert found in text
        return text.replace(found, replaced)

    def _template(self) -> JsonObject:
        cell, labels = self.cell, {"app": self.cell.name}
        ready = "unready" if cell.trouble == "application not ready" else "ready"
        container: JsonObject = {
            "name": "app",
            "image": "hotmap.test/python:1",
            "command": ["python3", "-c", _SERVER, cell.use, str(self.port), ready],
            "readinessProbe": {
                "httpGet": {"path": "/ready", "port": self.port},
                "periodSeconds": 1,
            },
        }
        spec: JsonObject = {
            "terminationGracePeriodSeconds": 1,
            "securityContext": {"runAsUser": 0},
            "containers": [container],
        }
        if cell.use == "env":
            container["envFrom"] = [{"configMapRef": {"name": cell.name}}]
        else:
            container["volumeMounts"] = [{"name": "conf", "mountPath": "/conf"}]
            spec["volumes"] = [{"name": "conf", "configMap": {"name": cell.name}}]
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": cell.name, "annotations": {"hotmap.dev/follow": "auto"}},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }

    @property
    def starts(self) -> bool:
        """Whether its application ever runs: where content is gated, it has to pass a check."""
        return self.cell.trouble != "checker missing" or self.cell.use == "file"

    async def served(self) -> str:
        """Ask the process what it has loaded; "" while there is no answer."""
        return await asyncio.to_thread(get_text, f"http://{self.address}:{self.port}/")

    def signal_agent(self, number: signal.Signals) -> None:
        """Send a signal to the agent, whose process runs on this machine."""
        marker = f"\0--listen\0:{self.agent_port}\0".encode()
        found = [
            int(folder.name)
            for folder in Path("/proc").iterdir()
            if folder.name.isdecimal() and marker in _command_line(folder)
        ]
        assert found, f"no agent of {self.cell.name} runs"
        os.kill(min(found), number)  # others are its children


def _command_line(folder: Path) -> bytes:
    with contextlib.suppress(OSError):
        return (folder / "cmdline").read_bytes()
    return b""


async def observe(backend: Backend, folder: Path) -> Observations:
    """Run the matrix once: start everything, edit every source, compare, and ask in every way."""
    workloads = [_Workload(Cell(trouble, use)) for trouble in TROUBLES for use in USES]
    for workload in workloads:
        await backend.create(workload.manifests())
    await asyncio.gather(*(_wait_for_start(backend, workload) for workload in workloads))
    async with running_status_controller(backend, folder) as controller:
        await _wait_for_adoption(controller, workloads)
        _signal_agents(workloads)
        for workload in workloads:
            cell = workload.cell
            await backend.patch("ConfigMap", cell.name, {"data": {"text": cell.new}})
        for workload in workloads:
            edited = await backend.get("ConfigMap", workload.cell.name)
            workload.version = edited["metadata"]["resourceVersion"]
        false_current = await _compare(controller, workloads)
        waits = await _wait_for_all(controller, workloads)
        cells, counted = {}, dict[str, int]()
        warnings = await _warnings(backend)
        metric = await controller.pods_metric()
        for workload in workloads:
            name = workload.cell.name
            status = await controller.workload(name)
            served = await workload.served()
            false_current += _false_current(workload, status, served)
            for pod in status["pods"]:
                counted[pod["state"]] = counted.get(pod["state"], 0) + 1
            cells[workload.cell] = Observation(
                status, served, *waits[name], frozenset(warnings.get(name, ()))
            )
        return Observations(cells, tuple(false_current), metric, counted)


async def _wait_for_start(backend: Backend, workload: _Workload) -> None:
    """Wait until the pod has an address, and its application serves, if it ever does."""

    async def check() -> bool | None:
        pods = await backend.find("Pod", selector=f"app={workload.cell.name}")
        status = pods[0]["status"] if pods else {}
        workload.address = status.get("podIP", "")
        if not workload.address:
            return None
        return (not workload.starts or await workload.served() == "one") or None

    await until(check, f"{workload.cell.name} serves", within=_PATIENCE)


async def _wait_for_adoption(controller: StatusController, workloads: list[_Workload]) -> None:
    """Wait until the controller knows all of them, and has settled on it."""

    async def check() -> bool | None:
        return len(await controller.overview()) == len(workloads) or None

    await until(check, "the controller knows all workloads")
    await asyncio.sleep(3)  # an edit within two seconds of a pod's start could not be told from it


def _signal_agents(workloads: list[_Workload]) -> None:
    for workload in workloads:
        if workload.cell.trouble == "agent killed":
            workload.signal_agent(signal.SIGKILL)
        elif workload.cell.trouble == "agent stopped":
            workload.signal_agent(signal.SIGSTOP)


async def _compare(controller: StatusController, workloads: list[_Workload]) -> list[str]:
    """Compare what status says with what processes answer after that, as often as time allows.

    A workload counts once the controller shows the edited version of its source: before that it
    cannot know of the edit.
    """
    found: list[str] = []
    deadline = time.monotonic() + _WATCHED
    while time.monotonic() < deadline or not all(item.is_seen for item in workloads):
        unseen = [workload for workload in workloads if not workload.is_seen]
        for workload in unseen:
            status = await controller.workload(workload.cell.name)
            (source,) = status["sources"]
            workload.is_seen = source["resourceVersion"] == workload.version
        overview = await controller.overview()
        served = await asyncio.gather(*(workload.served() for workload in workloads))
        for workload, text in zip(workloads, served, strict=True):
            found += _false_current(workload, overview[workload.cell.name], text)
        for workload in workloads[:: max(1, len(workloads) // 6)]:
            status = await controller.workload(workload.cell.name)
            found += _false_current(workload, status, await workload.served())
    return found


def _false_current(workload: _Workload, status: JsonObject, served: str) -> list[str]:
    """Compare what was said first with what was served after that: a process only gets newer."""
    if not workload.is_seen or status["state"] != "current" or served in ("", workload.cell.new):
        return []
    return [f"{workload.cell.name} serves {served!r} and is current: {status['reason']}"]


async def _wait_for_all(
    controller: StatusController, workloads: list[_Workload]
) -> dict[str, tuple[Wait, str]]:
    """Run `hotmap status --wait` for each; those first whose state may end by itself."""
    slots = asyncio.Semaphore(5)

    async def wait(workload: _Workload) -> tuple[Wait, str]:
        async with slots:
            ended = await controller.wait(workload.cell.name, WAIT_SECONDS)
            return ended, await workload.served()

    ordered = sorted(workloads, key=lambda workload: workload.cell.trouble != "agent stopped")
    results = await asyncio.gather(*(wait(workload) for workload in ordered))
    return {item.cell.name: result for item, result in zip(ordered, results, strict=True)}


async def _warnings(backend: Backend) -> dict[str, set[str]]:
    """List the reasons of hotmap's Warning Events by workload."""
    found: dict[str, set[str]] = {}
    for event in await backend.find("Event"):
        about: Any = event["involvedObject"]
        if event.get("type") == "Warning" and about["kind"] == "Deployment":
            found.setdefault(about["name"], set()).add(event["reason"])
    return found
