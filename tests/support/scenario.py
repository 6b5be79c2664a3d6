"""One scenario with controllers in a cluster: edits, kubelets, processes, and the invariants.

Everything goes over HTTPS, so that a scenario runs on the test's own API server as on a real one.
The test plays the kubelets, and remembers what each pod read when it started. Consumers are
watched over a connection of their own, so that no rollout is missed.
"""

from __future__ import annotations

import asyncio
import json
import time
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from tests.support.controller_process import TIMEOUT, ControllerProcess
from tests.support.invariants import Rollouts, Snapshot, broken, revision_in, shown_by
from tests.support.leaks import PLANTED, leaks

from hotmap.core.decide.evidence import MARGIN
from hotmap.core.errors import AlreadyExists, HotmapError, NotFound
from hotmap.kube.client import Client
from hotmap.kube.resources import (
    BY_KIND,
    CONFIGMAPS,
    DEPLOYMENTS,
    EVENTS,
    NAMESPACES,
    PODS,
    REPLICASETS,
    SECRETS,
    Resource,
)

__all__ = ["CANARY", "OWN", "Object", "Pods", "Scenario", "scenario"]

Object = dict[str, Any]

#: The namespace of hotmap's own Secrets, beside that of the consumers.
OWN = "hotmap"

#: A consumer with a source of its own; when an edit of that has arrived, earlier ones have.
CANARY = "canary"

_STRATEGIC = "application/strategic-merge-patch+json"


def rfc3339(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


class Pods:
    """Plays the kubelets of a namespace: starts pods, and remembers what each one read."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        #: Seconds by which the nodes' clocks are ahead; pods start on one after the other.
        self.skews: Sequence[float] = (0.0,)
        self._started = 0
        #: What the environment of each pod holds, by pod and variable.
        self.read: dict[str, dict[str, str]] = {}

    async def run(self) -> None:
        """Serve forever."""
        while True:
            with suppress(HotmapError):
                await self.serve()
            await asyncio.sleep(0.05)

    async def serve(self) -> None:
        """Start the pods that wait, and let those go that are to end."""
        page = await self._client.list_page(
            PODS, self._namespace, type=Object, resource_version="0"
        )
        names = {pod["metadata"]["name"] for pod in page.items}
        for gone in self.read.keys() - names:
            del self.read[gone]
        for pod in page.items:
            name = pod["metadata"]["name"]
            if pod["metadata"].get("deletionTimestamp"):
                with suppress(NotFound):
                    await self._client.delete(PODS, self._namespace, name, grace_period=0)
            elif name not in self.read:
                with suppress(NotFound):  # CreateContainerConfigError: it waits for its source
                    await self._start(pod)

    async def _start(self, pod: Object) -> None:
        (container,) = pod["spec"]["containers"]
        read = {
            variable["name"]: await self.value(variable["valueFrom"])
            for variable in container.get("env") or ()
            if "valueFrom" in variable
        }
        at = rfc3339(time.time() + self.skews[self._started % len(self.skews)])
        self._started += 1
        status = {
            "phase": "Running",
            "startTime": at,
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at}],
            "containerStatuses": [
                {
                    "name": container["name"],
                    "image": container["image"],
                    "imageID": container["image"],
                    "containerID": f"test://{pod['metadata']['uid']}",
                    "ready": True,
                    "started": True,
                    "restartCount": 0,
                    "state": {"running": {"startedAt": at}},
                }
            ],
        }
        await self._client.patch(
            PODS,
            self._namespace,
            pod["metadata"]["name"],
            {"status": status},
            type=Object,
            content_type=_STRATEGIC,
            field_manager="kubelet",
            subresource="status",
        )
        self.read[pod["metadata"]["name"]] = read

    async def value(self, origin: Object) -> str:
        """Return the present value that a variable's `valueFrom` names."""
        if "secretKeyRef" in origin:
            ref = origin["secretKeyRef"]
            secret = await self._client.get(SECRETS, self._namespace, ref["name"], type=Object)
            return b64decode(secret["data"][ref["key"]]).decode()
        ref = origin["configMapKeyRef"]
        config_map = await self._client.get(CONFIGMAPS, self._namespace, ref["name"], type=Object)
        return str(config_map["data"][ref["key"]])


class Scenario:
    """Edits of a cluster and the checks after them."""

    def __init__(
        self, client: Client, folder: Path, kubeconfig: Path, *, namespace: str, is_alive: bool
    ) -> None:
        self.client = client
        self.folder = folder
        #: The way to the API server without any fault.
        self.kubeconfig = kubeconfig
        self.namespace = namespace
        self.own = f"{namespace}-{OWN}"
        #: Whether workload controllers run, so that Deployments have pods.
        self.is_alive = is_alive
        self.pods = Pods(client, namespace)
        self.rollouts = Rollouts()
        self.processes: list[ControllerProcess] = []
        #: Every value that a Secret has had.
        self.values: set[str] = set()
        #: What other programs were told over HTTP.
        self.printed: list[str] = []
        #: Settled changes of the canary.
        self._beats = 0
        #: Consumers to be looked at by `report`.
        self._seen: asyncio.Queue[Object] = asyncio.Queue()

    def controller(
        self,
        *flags: str,
        kubeconfig: Path | None = None,
        also: str = "",
        ahead: float = 0.0,
        version: str = "",
        **environment: str,
    ) -> ControllerProcess:
        """A controller that is started by `async with`; settles for 50 ms unless told otherwise.

        It serves the scenario's namespace, and `also` another one. Its clock is `ahead` by seconds,
        and it claims to be of another `version`.
        """
        log = self.folder / f"controller-{len(self.processes)}.log"
        process = ControllerProcess(
            kubeconfig or self.kubeconfig,
            *(f"--namespace={self.own}", f"--namespaces={self.namespace}{also and ','}{also}"),
            *("--settle=50ms", "--settle-max=1s", *flags),
            log=log,
            ahead=ahead,
            version=version,
            **environment,
        )
        self.processes.append(process)
        return process

    @asynccontextmanager
    async def started_controller(
        self, *flags: str, **options: Any
    ) -> AsyncIterator[ControllerProcess]:
        """Run such a controller; what is there at its start has been acted on."""
        async with self.controller(*flags, **options) as controller:
            await controller.ready()
            await self.wait_until_handled()
            yield controller

    # -- people --------------------------------------------------------------------------------

    async def config_map(self, name: str = "app", **data: str) -> None:
        await self._create(CONFIGMAPS, {"metadata": {"name": name}, "data": data})

    async def secret(self, name: str = "login", password: str = "first") -> None:
        """Create a Secret whose value must not be seen anywhere."""
        body = {"metadata": {"name": name}, "type": "Opaque", "data": self._planted(password)}
        await self._create(SECRETS, body)

    async def edit(self, name: str = "app", **data: str) -> None:
        await self.patch("ConfigMap", name, {"data": data})

    async def edit_secret(self, password: str, *, name: str = "login") -> None:
        await self.patch("Secret", name, {"data": self._planted(password)})
        self._beats += 1  # the canary reads it too

    def _planted(self, password: str) -> dict[str, str]:
        """Make a Secret's data of a value that is looked for in the end."""
        value = f"{PLANTED}-{password}"
        self.values.add(value)
        return {"password": b64encode(value.encode()).decode()}

    async def delete(self, kind: str, name: str) -> None:
        await self.client.delete(BY_KIND[kind], self.namespace, name)

    async def patch(
        self, kind: str, name: str, patch: Object, *, manager: str = "kubectl-edit"
    ) -> Object:
        return await self.client.patch(
            BY_KIND[kind],
            self.namespace,
            name,
            patch,
            type=Object,
            content_type=_STRATEGIC if kind == "Deployment" else "application/merge-patch+json",
            field_manager=manager,
            idempotent=True,
        )

    async def deployment(
        self,
        name: str = "web",
        *,
        source: str = "app",
        annotations: Mapping[str, str] | None = None,
        replicas: int = 1,
        **spec: Any,
    ) -> None:
        """Create a consumer of a ConfigMap's LEVEL and of the Secret login, rolled out."""
        env = [
            {"name": "LEVEL", "valueFrom": {"configMapKeyRef": {"name": source, "key": "LEVEL"}}},
            {"name": "WORD", "valueFrom": {"secretKeyRef": {"name": "login", "key": "password"}}},
        ]
        await self._create(
            DEPLOYMENTS,
            {
                "metadata": {
                    "name": name,
                    "annotations": {"hotmap.dev/follow": "auto", **(annotations or {})},
                },
                "spec": {
                    "replicas": replicas,
                    "selector": {"matchLabels": {"app": name}},
                    "template": {
                        "metadata": {"labels": {"app": name}},
                        "spec": {"containers": [{"name": "main", "image": "app:1", "env": env}]},
                    },
                    **spec,
                },
            },
        )
        await self.wait_for_rollout_end(name)

    async def deployments(self, names: Sequence[str]) -> None:
        """Create many consumers like `web` at once."""
        await asyncio.gather(*(self.deployment(name) for name in names))

    async def set_up(self, **options: Any) -> None:
        """Create the sources, the consumer web, and the canary."""
        await self.secret()
        await self.config_map(LEVEL="info")
        await self.config_map(CANARY, LEVEL="0")
        await self.deployment(CANARY, source=CANARY)
        await self.deployment(**options)

    async def _create(self, resource: Resource, body: Object) -> None:
        await self.client.create(
            resource, self.namespace, body, type=Object, field_manager="kubectl-create"
        )

    # -- questions -----------------------------------------------------------------------------

    async def get(self, kind: str, name: str) -> Object:
        return await self.client.get(BY_KIND[kind], self.namespace, name, type=Object)

    async def revision(self, name: str = "web") -> str:
        """Return the revision in a consumer's template, "" for none."""
        return revision_in(await self.get("Deployment", name))

    async def events(self, reason: str) -> list[Object]:
        events = await self._list(EVENTS, self.namespace)
        return [event for event in events if event["reason"] == reason]

    async def messages(self, reason: str) -> list[str]:
        return [event["message"] for event in await self.events(reason)]

    async def state_secrets(self) -> list[Object]:
        found = await self._list(SECRETS, self.own)
        return [item for item in found if item.get("type") == "hotmap.dev/state"]

    async def stale_pods(self) -> list[str]:
        """Name the pods that do not run with the present content; the canary's do not count."""
        pods = await self._list(PODS, self.namespace)
        named = {pod["metadata"]["name"]: pod for pod in pods}
        return [
            name
            for name, pod in named.items()
            if not name.startswith(f"{CANARY}-") and await self._is_stale(pod)
        ]

    async def _is_stale(self, pod: Object) -> bool:
        read = self.pods.read.get(pod["metadata"]["name"], {})
        for variable in pod["spec"]["containers"][0]["env"]:
            if "valueFrom" in variable and read.get(variable["name"]) != await self.pods.value(
                variable["valueFrom"]
            ):
                return True
        return False

    async def _list(self, resource: Resource, namespace: str) -> list[Object]:
        page = await self.client.list_page(resource, namespace, type=Object, limit=0)
        kinds = {"apiVersion": resource.api_version, "kind": resource.kind}
        return [{**kinds, **item} for item in page.items]

    # -- waiting -------------------------------------------------------------------------------

    async def until(
        self, check: Callable[[], Awaitable[Any]], what: str, *, within: float = TIMEOUT
    ) -> Any:
        """Wait until a coroutine function returns something true, and return that."""
        deadline = time.monotonic() + within
        pause = 0.02
        while True:
            with suppress(HotmapError):
                if found := await check():
                    return found
            if time.monotonic() > deadline:
                logs = "\n".join(process.log()[-4000:] for process in self.processes)
                raise AssertionError(f"timed out waiting until {what}:\n{logs}")
            await asyncio.sleep(pause)
            pause = min(pause * 1.2, 0.2)  # what takes long is asked about less often

    async def wait_for_rollouts(
        self, name: str = "web", times: int = 1, *, within: float = TIMEOUT
    ) -> None:
        """Wait until hotmap has rolled a consumer so often."""

        async def done() -> bool:
            return len(self.rollouts.of(name)) >= times

        await self.until(done, f"{name} is rolled {times} times", within=within)

    async def wait_for_rollout_end(self, name: str = "web") -> None:
        """Wait until a consumer's own controller has replaced all its pods."""

        async def done() -> bool:
            found = await self.get("Deployment", name)
            status, wanted = found.get("status") or {}, found["spec"]["replicas"]
            counts = [status.get(c, 0) for c in ("replicas", "updatedReplicas", "readyReplicas")]
            observed = status.get("observedGeneration", 0)
            return bool(counts == [wanted] * 3 and observed >= found["metadata"]["generation"])

        await self.until(done, f"{name} is rolled out")

    async def wait_until_current(self) -> None:
        """Wait until every pod read what is there now, and the consumers' rollouts are over."""

        async def live() -> bool:
            return not await self.stale_pods()

        await self.until(live, "every pod has the present content")
        for item in await self._list(DEPLOYMENTS, self.namespace):
            await self.wait_for_rollout_end(item["metadata"]["name"])

    async def wait_until_pods_are_older(self) -> None:
        """Wait until pods that run now started clearly before what comes next (whole seconds)."""
        await asyncio.sleep(MARGIN + 2.1)

    async def wait_until_handled(self, *, retrying: bool = False) -> None:
        """Wait until all that was done so far has arrived at a controller and was acted on.

        An edit of the canary's source follows the same way, and comes last. With `retrying`
        something is tried again forever, so that the leader is never idle.
        """
        self._beats += 1
        before = len(self.rollouts.of(CANARY))
        await self.edit(CANARY, LEVEL=str(self._beats))
        await self.wait_for_rollouts(CANARY, before + 1)
        if not retrying:
            await self.until(self._is_idle, "the leader has nothing left to do", within=120)

    async def _is_idle(self) -> bool:
        idle = [
            await process.is_idle()
            for process in self.processes
            if process.is_running and await process.leads()
        ]
        return bool(idle) and all(idle)

    # -- the end -------------------------------------------------------------------------------

    async def check_invariants(
        self,
        settled: Mapping[str, int] | None = None,
        *,
        left_alone: Collection[str] = (),
        retrying: bool = False,
    ) -> None:
        """Let everything arrive, stop the controllers, and check the invariants."""
        await self.wait_until_handled(retrying=retrying)
        for process in self.processes:
            if process.is_running:
                assert await process.stop() == 0, process.log()
        found = broken(
            await self._snapshot(),
            self.rollouts,
            settled={CANARY: self._beats, **(settled or {})},
            left_alone=left_alone,
        )
        assert not found, "\n".join(found)
        logs = "\n".join(process.log() for process in self.processes)
        assert "Traceback" not in logs, logs
        assert "internal error" not in logs, logs

    async def check_no_secret_leaks(self) -> None:
        """Check that no value of a Secret is in anything that was printed, served or written."""
        outputs = [text for process in self.processes for text in process.outputs()]
        shown = [*outputs, *self.printed, *shown_by(await self._snapshot())]
        found = list(leaks(shown, self.values))
        assert not found, "\n".join(found)

    async def _snapshot(self) -> Snapshot:
        return Snapshot(
            config_maps=await self._list(CONFIGMAPS, self.namespace),
            secrets=await self._list(SECRETS, self.namespace),
            consumers=await self._list(DEPLOYMENTS, self.namespace),
            own_secrets=await self._list(SECRETS, self.own),
            others=[
                *await self._list(EVENTS, self.namespace),
                *await self._list(PODS, self.namespace),
                *await self._list(REPLICASETS, self.namespace),
            ],
        )

    # -- what runs beside ----------------------------------------------------------------------

    async def report(self) -> None:
        """Report every consumer as rolled out, forever, where no workload controller does."""
        while True:
            consumer = await self._seen.get()
            metadata, replicas = consumer["metadata"], consumer["spec"]["replicas"]
            counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas"), replicas)
            status = {"observedGeneration": metadata["generation"], **counts}
            if counts.items() <= (consumer.get("status") or {}).items() and (
                consumer["status"].get("observedGeneration") == metadata["generation"]
            ):
                continue
            with suppress(HotmapError):
                await self.client.patch(
                    DEPLOYMENTS,
                    self.namespace,
                    metadata["name"],
                    {"status": status},
                    type=Object,
                    field_manager="kube-controller-manager",
                    subresource="status",
                    idempotent=True,
                )

    async def watch(self) -> None:
        """Record every state of every consumer, forever, over as many connections as it takes.

        Only a server that has lost its history shows some of them together.
        """
        version = ""
        while True:
            with suppress(HotmapError):
                if not version:
                    page = await self.client.list_page(DEPLOYMENTS, self.namespace, type=Object)
                    version = page.resource_version
                    for item in page.items:
                        self.rollouts.note(item)
                params = {"resourceVersion": version}
                async with self.client.open_watch(
                    DEPLOYMENTS, self.namespace, params=params
                ) as stream:
                    rest = b""
                    async for chunk in stream:
                        *lines, rest = (rest + chunk).split(b"\n")
                        for line in filter(None, lines):
                            event = json.loads(line)
                            if event["type"] == "ERROR":
                                assert event["object"]["code"] == 410, event
                                version = ""  # a restarted server: what it had is listed again
                                break
                            version = event["object"]["metadata"]["resourceVersion"]
                            self.rollouts.note(event["object"])
                            self._seen.put_nowait(event["object"])
            await asyncio.sleep(0.05)


@asynccontextmanager
async def scenario(
    client: Client, folder: Path, kubeconfig: Path, *, namespace: str, is_alive: bool
) -> AsyncIterator[Scenario]:
    """Run a scenario in its own namespace; at its end, stop its processes and check for leaks."""
    found = Scenario(client, folder, kubeconfig, namespace=namespace, is_alive=is_alive)
    for name in (found.namespace, found.own):
        with suppress(AlreadyExists):
            await client.create(NAMESPACES, None, {"metadata": {"name": name}}, type=Object)
    async with AsyncExitStack() as stack:
        beside = [asyncio.create_task(found.watch())]
        beside.append(asyncio.create_task(found.pods.run() if is_alive else found.report()))
        stack.push_async_callback(_end, beside)
        yield found
        await found.check_no_secret_leaks()


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    failures = [result for result in results if isinstance(result, Exception)]
    assert not failures, failures
