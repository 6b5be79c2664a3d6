"""Random histories of edits and disturbances, in which no false "current" may be found.

All processes are real: a local control plane, a controller, and in the pods applications and
agents. `Trial` disturbs workloads and edits their sources at random, and compares all the time
what `/v1/status` says with what the processes answer after that.

A process only gets newer. So a workload that is called current is wrong if one of its processes
answers with a data key's content from before the newest edit that status had to know: one whose
version it shows, one before a query with `consistent=true`, or one that is two seconds old.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import random
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.walkthroughs.backend import JsonObject
from tests.walkthroughs.trial_cluster import MARK, TrialCluster
from tests.walkthroughs.trial_disturbances import Disturbances
from tests.walkthroughs.trial_workloads import SHAPES, Shape, TrialWorkload

from hotmap.core.errors import ApiError
from hotmap.kube.resources import EVENTS, PODS

__all__ = ["Report", "Trial", "choose_shapes", "run_trial"]

#: Seconds after which status has to know of an edit, whatever it shows.
_KNOWN_AFTER = 2.0

#: Seconds in which a workload has to become current when everything is repaired: longer than the
#: longest time after which a kubelet has synced its pods.
_PATIENCE = 150.0

#: Seconds in which the controller decides on a change of a workload.
_SETTLED = 2.0

#: Seconds after a change from which on the start of a pod proves that it has read it: times of pods
#: are whole seconds, and a kubelet may lag.
_UNDOUBTED = 4.0

#: Changes of the specs of workloads after which they have no pods, and pods again.
_WITHOUT_PODS: dict[str, tuple[JsonObject, JsonObject]] = {
    **dict.fromkeys(("Deployment", "StatefulSet"), ({"replicas": 0}, {"replicas": 1})),
    "DaemonSet": (
        {"template": {"spec": {"nodeSelector": {"no": "node"}}}},
        {"template": {"spec": {"nodeSelector": None}}},
    ),
}

_TROUBLE = re.compile(r"Traceback|Task exception|internal error|never awaited")


class Report(NamedTuple):
    """What a trial has found."""

    #: Each with the moment, the workload, what status said and what a process answered.
    false_current: list[str]
    #: Workloads that did not become current in the end, and why.
    unfinished: list[str]
    #: Tracebacks and values of Secrets in an output.
    outputs: list[str]
    #: Steps by name, and comparisons by the confidence that status stated.
    steps: Counter[str]
    comparisons: Counter[str]
    #: How often `hotmap status --wait` ended with each exit status.
    waits: Counter[int]

    @property
    def problems(self) -> list[str]:
        """All that must not be."""
        return [*self.false_current, *self.unfinished, *self.outputs]


def choose_shapes(seed: int, count: int) -> list[Shape]:
    """Choose different shapes, so that consecutive seeds cover all of them."""
    order = list(SHAPES)
    random.Random("shapes").shuffle(order)
    return [order[(seed * count + index) % len(order)] for index in range(count)]


class Trial:
    """One history in a namespace of its own."""

    def __init__(self, kubeconfig: Path, folder: Path, seed: int, shapes: list[Shape]) -> None:
        self._cluster = TrialCluster(kubeconfig, folder, seed, shapes)
        self._cluster.on_status = lambda text: self._look_for_values("status", text)
        self._disturbances = Disturbances(self._cluster, seed)
        self._random = random.Random(seed)
        self.report = Report([], [], [], self._disturbances.steps, Counter(), Counter())

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run workloads and controller while a block lasts."""
        async with self._cluster.running():
            try:
                yield
            finally:
                self._disturbances.continue_agents()

    async def play(self, steps: int) -> None:
        """Do random steps while status and processes are compared; then repair and wait."""
        watching = [
            asyncio.create_task(self._compare_until_cancelled()),
            asyncio.create_task(self._wait_until_cancelled()),
        ]
        try:
            for _ in range(steps):
                await self._disturbances.step()
                await asyncio.sleep(self._random.choice((0.0, 0.05, 0.3, 1.0, 2.5)))
                for task in watching:
                    if task.done():
                        task.result()
            await self._disturbances.repair()
            await self._wait_until_current()
        finally:
            for task in watching:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        await self._read_outputs()

    async def edit_unloaded(self) -> None:
        """Edit sources while processes only say that they load; compare until that is found."""
        for workload in self._cluster.workloads:
            await self._cluster.set_mode(workload, "lie")
        await self._disturbances.edit_many()
        deadline = time.monotonic() + _PATIENCE
        while not self.report.false_current and time.monotonic() < deadline:
            await self._compare(f"namespace={self._cluster.namespace}&consistent=true")
            await asyncio.sleep(0.1)

    # -- what is compared ----------------------------------------------------------------------

    async def _compare_until_cancelled(self) -> None:
        while True:
            one = self._cluster.query(self._random.choice(self._cluster.workloads))
            query = self._random.choice((f"namespace={self._cluster.namespace}", one))
            await self._compare(query + self._random.choice(("", "&consistent=true")))
            await asyncio.sleep(0.02)

    async def _wait_until_cancelled(self) -> None:
        """Wait for workloads by the command; what exits with 0 has what was known at its start."""
        while True:
            workload = self._random.choice(self._cluster.workloads)
            began = time.monotonic()
            seconds = self._random.choice((3, 20))
            exit_status, printed = await self._cluster.wait_by_command(workload, seconds)
            self.report.waits[exit_status] += 1
            self._look_for_trouble("status --wait", printed)
            if exit_status == 0:
                await self._judge(workload, {"state": "exit status 0", "reason": printed}, began)

    async def _compare(self, query: str) -> None:
        """Read a status, ask the processes after that, and judge what the status said."""
        began = time.monotonic()
        document = await self._cluster.status(query)
        found = {each["name"]: each for each in document.get("workloads", ())}
        current = [each for each in self._cluster.workloads if _is_current(found.get(each.name))]
        known_at = began if "consistent" in query else began - _KNOWN_AFTER
        for workload in current:
            await self._judge(workload, found[workload.name], known_at)

    async def _judge(self, workload: TrialWorkload, status: JsonObject, known_at: float) -> None:
        versions = {each["name"]: each["resourceVersion"] for each in status.get("sources", ())}
        known = {
            name: self._cluster.sources[name].known(known_at, versions.get(name) or "")
            for name in workload.sources
        }
        for pod in await self._cluster.pods(workload):
            answer = await self._cluster.ask(workload, pod)
            if answer is None:
                continue
            self.report.comparisons[_confidence(status)] += 1
            for name, first in known.items():
                wrong = self._find_old(workload, name, first, answer)
                if wrong:
                    edits, began = self._cluster.sources[name].edits, self._cluster.began
                    age = time.monotonic() - edits[first].at
                    text = (
                        f"{time.monotonic() - began:.2f} {workload.name} {workload.shape} is "
                        f"{status['state']} ({status['reason']}); {pod['metadata']['name']} serves "
                        f"{wrong}, edited {age:.2f}s ago; pods {status.get('pods')}"
                    )
                    self._cluster.say(text)
                    self.report.false_current.append(text)

    def _find_old(
        self, workload: TrialWorkload, name: str, first: int, answer: Mapping[str, str]
    ) -> str:
        """Return which data keys are older than an edit; "" if none is."""
        allowed = [edit.data for edit in self._cluster.sources[name].edits[first:]]
        if any(data is None for data in allowed):
            return ""  # pods keep what they have of a source that is gone
        for key in workload.used(name):
            served = answer.get(key)
            if served not in [data.get(key) for data in allowed if data is not None]:
                return f"{key}={served!r} instead of {allowed[-1]}"
        return ""

    # -- the end -------------------------------------------------------------------------------

    async def _wait_until_current(self) -> None:
        """Wait for each workload; where a user has to act, that is done once."""
        acted: set[str] = set()
        left = {each.name: each for each in self._cluster.workloads}
        reasons: dict[str, str] = {}
        deadline = time.monotonic() + _PATIENCE
        while left and time.monotonic() < deadline:
            for workload in list(left.values()):
                status = await self._one_status(workload)
                reasons[workload.name] = f"{status.get('state')}: {status.get('reason')}"
                if status.get("state") in workload.shape.final_states:
                    del left[workload.name]
                elif status.get("actionRequired") and workload.name not in acted:
                    self._cluster.say(f"{workload.name}: {reasons[workload.name]}: acting")
                    acted.add(workload.name)
                    await self._act(workload)
                    deadline = time.monotonic() + _PATIENCE
            await asyncio.sleep(0.3)
        for name, workload in left.items():
            text = f"{name} {workload.shape} did not become current: {reasons[name]}"
            self._cluster.say(text)
            self.report.unfinished.append(text)
        for workload in self._cluster.workloads:
            if workload.name not in left:
                status = await self._one_status(workload)
                if _is_current(status):
                    await self._judge(workload, status, time.monotonic())

    async def _act(self, workload: TrialWorkload) -> None:
        """Give a workload new pods; none of the old ones stays beside them."""
        await asyncio.sleep(_UNDOUBTED)
        if workload.shape.kind in _WITHOUT_PODS:
            without, again = _WITHOUT_PODS[workload.shape.kind]
            await self._cluster.patch_workload(workload, {"spec": without})
            await self._cluster.wait_until_gone(workload)
            await self._wait_until_released(workload)
            await self._cluster.patch_workload(workload, {"spec": again})
            return
        for pod in await self._cluster.pods(workload):
            await self._cluster.delete_pod(pod)
        if workload.shape.kind == "Pod":
            await self._cluster.wait_until_gone(workload)
            await self._cluster.create(workload)

    async def _wait_until_released(self, workload: TrialWorkload) -> None:
        """Wait until a workload without pods is not held any more, as the reason says."""
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            await asyncio.sleep(_SETTLED)  # a moment without pods that ends sooner is not noticed
            if (await self._one_status(workload)).get("state") != "held":
                return

    async def _one_status(self, workload: TrialWorkload) -> JsonObject:
        document = await self._cluster.status(f"{self._cluster.query(workload)}&consistent=true")
        found = document.get("workloads") or [{}]
        status: JsonObject = found[0]
        return status

    async def _read_outputs(self) -> None:
        """Look for tracebacks and for values of Secrets in everything that hotmap has written."""
        self._look_for_trouble("controller", self._cluster.log.read_text())
        async with self._cluster.http.get(
            f"http://127.0.0.1:{self._cluster.port}/metrics"
        ) as response:
            self._look_for_values("metrics", await response.text())
        events = await self._cluster.client.list_page(
            EVENTS, self._cluster.namespace, type=JsonObject
        )
        for event in events.items:
            self._look_for_values("Event", str(event.get("message")))
        for workload in self._cluster.workloads:
            for pod in await self._cluster.pods(workload):
                await self._read_logs(pod)

    async def _read_logs(self, pod: JsonObject) -> None:
        spec, name = pod["spec"], pod["metadata"]["name"]
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            for previous in ("false", "true"):
                query = f"container={container['name']}&previous={previous}"
                path = PODS.path(self._cluster.namespace, name, "log")
                with contextlib.suppress(ApiError):
                    text = await self._cluster.client.request("GET", f"{path}?{query}")
                    self._look_for_trouble(f"{name} {container['name']}", text.decode())

    def _look_for_trouble(self, place: str, text: str) -> None:
        self._look_for_values(place, text)
        for line in text.splitlines():
            if _TROUBLE.search(line):
                self.report.outputs.append(f"{place}: {line}")

    def _look_for_values(self, place: str, text: str) -> None:
        encoded = base64.b64encode(MARK.encode()).decode()[:12]
        if MARK in text or encoded in text:
            self.report.outputs.append(f"{place} shows a value of a Secret: {text[:300]}")


async def run_trial(
    kubeconfig: Path, folder: Path, seed: int, shapes: list[Shape], *, steps: int
) -> Report:
    """Run one random history; equal seeds do the same, as far as processes permit."""
    trial = Trial(kubeconfig, folder, seed, shapes)
    async with trial.running():
        await trial.play(steps)
    return trial.report


def _is_current(status: JsonObject | None) -> bool:
    return status is not None and status.get("state") == "current"


def _confidence(status: JsonObject) -> str:
    found = re.search(r"\((.*)\)$", str(status["reason"]))
    return found[1] if found else "overview"
