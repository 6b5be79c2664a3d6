"""Random histories on an API server with its own workload controllers, and simulated kubelets.

The events are drawn as for the simulated cluster, and the end is judged by the same promises. Each
history has a Deployment and two ConfigMaps; those of one namespace share a controller. Time is
real, so that no two runs of a seed are the same: what is seen is what the seed made likely.
"""

from __future__ import annotations

import asyncio
import copy
import random
import time
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
from tests.simulation.controller import State
from tests.simulation.disturbances import EDITS, Content, Disturbance, draw, pause_after
from tests.simulation.histories import HistoryResult, broken_promise
from tests.simulation.kubelets import Kubelets, ServedPod
from tests.simulation.pods import SOURCES, TEMPLATES
from tests.simulation.shared_controller import LONGEST_PAUSE, SharedController

from hotmap.core.errors import Conflict, NotFound
from hotmap.core.model.objects import ObjectKey, ObjectMeta
from hotmap.kube.client import Client
from hotmap.kube.reflector import Reflector
from hotmap.kube.resources import CONFIGMAPS, DEPLOYMENTS, PODS, REPLICASETS, Selection
from hotmap.kube.store import Store
from hotmap.kube.store_writer import StoreWriter

__all__ = ["NOT_QUIET", "ApiServerHistory", "Deployments", "SharedCluster"]

Object = dict[str, Any]

#: Seconds from the end of its rollouts within which a history is quiet: pods are checked and, if
#: latent, replaced.
_QUIET = 150.0

#: Seconds for which what it says has to stay as it is: that pods are up to date, and anything else,
#: by which time pods have been checked several times.
_STEADY = 4.0
_STEADY_OTHER = 20.0

#: Seconds for all rollouts on a busy machine.
_ROLLED_OUT = 600.0

#: Seconds between two looks.
_LOOK = 1.0


#: Why there is nothing to judge yet.
NOT_QUIET = "it is not quiet yet"


class _Spec(msgspec.Struct):
    replicas: int = 1


class _Status(msgspec.Struct, rename="camel", frozen=True):
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    observed_generation: int = 0


class FoundDeployment(msgspec.Struct):
    """What is read of a Deployment: whether its rollout is complete."""

    metadata: ObjectMeta
    spec: _Spec
    status: _Status = _Status()


class Deployments:
    """The Deployments of a namespace, as a watch shows them."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client, self._namespace = client, namespace
        self._store: Store[FoundDeployment] = Store()

    async def run(self) -> None:
        """Watch forever."""
        reflector: Reflector[FoundDeployment, FoundDeployment] = Reflector(
            self._client,
            Selection(DEPLOYMENTS, self._namespace),
            type=FoundDeployment,
            writer=StoreWriter(self._store, lambda found: found),
        )
        await reflector.run()

    def get(self, name: str) -> FoundDeployment | None:
        """Return a Deployment, None where there is none."""
        return self._store.get(ObjectKey("Deployment", self._namespace, name))


class SharedCluster(NamedTuple):
    """What the histories of one namespace share."""

    client: Client
    namespace: str
    kubelets: Kubelets
    deployments: Deployments


class ApiServerHistory:
    """One Deployment with its sources, from the first object to the verdict."""

    def __init__(
        self,
        seed: int,
        cluster: SharedCluster,
        shared: SharedController,
        log: list[str],
    ) -> None:
        self._chance = random.Random(seed)
        self._rereads = self._chance.random() < 0.3
        self._web = f"web-{seed}"
        self._sources = {name: f"{name}-{seed}" for name in SOURCES}
        self._namespace = cluster.namespace
        self._client, self._kubelets = cluster.client, cluster.kubelets
        self._deployments = cluster.deployments
        self._shared, self._log = shared, log
        self._edits = 0

    # -- objects -------------------------------------------------------------------------------

    async def set_up(self) -> None:
        """Create the objects."""
        for name in SOURCES:
            await self._create(name, {"a": "0", "b": "0"})
        annotations = {"hotmap.dev/rereads": "true"} if self._rereads else {}
        labels = {"app": self._web}
        spec = self._pod_spec(self._chance.randrange(len(TEMPLATES)), 1)
        body = {
            "metadata": {"name": self._web, "annotations": annotations},
            "spec": {
                "replicas": self._chance.randint(1, 3),
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }
        await self._client.create(DEPLOYMENTS, self._namespace, body, type=msgspec.Raw)

    async def wait_until_ready(self) -> None:
        """Wait until the Deployment is rolled out.

        Raises:
            TimeoutError: it is not for a long time.
        """
        await self._rolled_out(within=_ROLLED_OUT)

    def is_adopted(self) -> bool:
        """Return whether the controller has a record of the Deployment."""
        controller = self._shared.controller
        consumer = controller.index.consumer(self._key) if controller else None
        return bool(controller and consumer and controller.records.get(consumer.uid))

    def _pod_spec(self, template: int, image: int) -> Object:
        spec: Object = _renamed(TEMPLATES[template], self._sources)
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            container["image"] = f"app:{image}"
        return spec

    @property
    def _key(self) -> ObjectKey:
        return ObjectKey("Deployment", self._namespace, self._web)

    async def _create(self, name: str, data: Content) -> None:
        body = {"metadata": {"name": self._sources[name]}, "data": data}
        await self._client.create(
            CONFIGMAPS, self._namespace, body, type=msgspec.Raw, field_manager="kubectl"
        )

    async def _patch_source(self, name: str, patch: Object) -> None:
        await self._client.patch(
            CONFIGMAPS,
            self._namespace,
            self._sources[name],
            patch,
            type=msgspec.Raw,
            field_manager="kubectl",
        )

    async def _deployment(self) -> Object:
        return await self._client.get(DEPLOYMENTS, self._namespace, self._web, type=Object)

    async def _patch_deployment(self, patch: Object) -> None:
        await self._client.patch(
            DEPLOYMENTS,
            self._namespace,
            self._web,
            patch,
            type=msgspec.Raw,
            field_manager="kubectl",
        )

    async def _data(self, name: str) -> Content | None:
        return await self._kubelets.data(self._sources[name])

    def _pods(self) -> list[ServedPod]:
        return self._kubelets.pods(self._web)

    # -- events --------------------------------------------------------------------------------

    async def disturb(self) -> None:
        """Let some events happen, the controller's own apart, which all histories share."""
        for _ in range(self._chance.randint(4, 14)):
            event = draw(self._chance)
            if event.kind not in ("down", "cut_off"):
                await self._do(event)
            await asyncio.sleep(min(LONGEST_PAUSE, pause_after(self._chance)))

    async def _do(self, event: Disturbance) -> None:
        with suppress(NotFound, Conflict):
            await getattr(self, f"_{event.kind}")(event)
        name = event.source if event.kind in EDITS else ""
        data = {name: await self._data(name)} if name else {}
        up = "up" if self._shared.controller else "down"
        self._log.append(f"{time.time():.2f} {event.kind} {name}: {data}, {up}, {event}")

    async def _edit(self, event: Disturbance) -> None:
        data = await self._data(event.source)
        if data is None:
            await self._create(event.source, event.edited(data))
        else:
            await self._patch_source(event.source, {"data": {event.key: event.value}})

    async def _remove(self, event: Disturbance) -> None:
        if data := await self._data(event.source):
            kept = event.without_key(data)
            await self._patch_source(event.source, {"data": dict.fromkeys(data.keys() - kept)})

    async def _label(self, event: Disturbance) -> None:
        self._edits += 1
        await self._patch_source(
            event.source, {"metadata": {"labels": {"edited": str(self._edits)}}}
        )

    async def _recreate(self, event: Disturbance) -> None:
        if (data := await self._data(event.source)) is not None:
            await self._client.delete(CONFIGMAPS, self._namespace, self._sources[event.source])
            await asyncio.sleep(event.gap)
            await self._create(event.source, event.recreated(data))

    async def _template(self, event: Disturbance) -> None:
        body = await self._deployment()
        body["spec"]["template"]["spec"] = self._pod_spec(event.template, event.image)
        await self._client.replace(
            DEPLOYMENTS,
            self._namespace,
            self._web,
            body,
            type=msgspec.Raw,
            field_manager="kubectl",
        )

    async def _undo(self, event: Disturbance) -> None:
        """Write the template of the ReplicaSet before the newest, as `kubectl rollout undo`."""
        page = await self._client.list_page(
            REPLICASETS, self._namespace, type=Object, label_selector=f"app={self._web}"
        )
        number = "deployment.kubernetes.io/revision"
        made = sorted(
            (int(found["metadata"].get("annotations", {}).get(number, "0")), index)
            for index, found in enumerate(page.items)
        )
        if len(made) < 2:
            return
        template = copy.deepcopy(page.items[made[-2][1]]["spec"]["template"])
        template["metadata"]["labels"].pop("pod-template-hash", None)
        template["metadata"].pop("creationTimestamp", None)
        await self._client.patch(
            DEPLOYMENTS,
            self._namespace,
            self._web,
            [{"op": "replace", "path": "/spec/template", "value": template}],
            type=msgspec.Raw,
            content_type="application/json-patch+json",
            field_manager="kubectl-rollout",
        )

    async def _scale(self, event: Disturbance) -> None:
        await self._patch_deployment({"spec": {"replicas": event.replicas}})

    async def _pause(self, event: Disturbance) -> None:
        paused = not (await self._deployment())["spec"].get("paused", False)
        await self._patch_deployment({"spec": {"paused": paused}})

    async def _evict(self, event: Disturbance) -> None:
        if pods := sorted(pod.name for pod in self._pods()):
            await self._client.delete(PODS, self._namespace, event.chosen(pods))

    async def _crash(self, event: Disturbance) -> None:
        pods = {pod.name: pod for pod in self._pods() if pod.started}
        if pods:
            await self._kubelets.restart(pods[event.chosen(sorted(pods))])

    # -- the end -------------------------------------------------------------------------------

    async def complete(self) -> None:
        """Bring back what every pod needs, and let the Deployment roll on."""
        for name in SOURCES:
            data = await self._data(name)
            if data is None:
                await self._create(name, {"a": "0"})
            elif "a" not in data:
                await self._patch_source(name, {"data": {"a": "0"}})
        await self._patch_deployment({"spec": {"paused": False}})

    async def judge(self) -> HistoryResult:
        """Wait until it is quiet, and compare what hotmap says with what the pods hold."""
        with suppress(TimeoutError):
            await self._rolled_out(within=_ROLLED_OUT)
        deadline = time.monotonic() + _QUIET
        for pod in self._pods():
            await self._kubelets.refresh(pod)
        steady_since, last = time.monotonic(), ("", "")
        while True:
            seen = self._look(self._kubelets.listed_data, self._deployments.get(self._web))
            if (seen.state.value, seen.reason) != last:
                steady_since, last = time.monotonic(), (seen.state.value, seen.reason)
            now = time.monotonic()
            if now >= deadline or now - steady_since >= _steady(seen):
                seen = await self._look_closely()
                if now >= deadline or (seen.state.value, seen.reason) == last:
                    return seen
                steady_since = now
            await asyncio.sleep(_LOOK)

    async def _look_closely(self) -> HistoryResult:
        """Look with what the API server has now."""
        data = {name: await self._kubelets.data(name) for name in self._sources.values()}
        deployment = await self._client.get(
            DEPLOYMENTS, self._namespace, self._web, type=FoundDeployment
        )
        if not await self._is_known():
            return self._result(State.WAITING, "a watch is not resumed yet", [], data)
        return self._look(data, deployment)

    def _look(
        self, data: dict[str, Content | None], deployment: FoundDeployment | None
    ) -> HistoryResult:
        """Return what hotmap says, and what the pods hold that is not the present content."""
        controller = self._shared.controller
        term = controller._leadership.term if controller else None
        consumer = controller.index.consumer(self._key) if controller else None
        if controller is None or term is None or consumer is None:
            return self._result(State.WAITING, "the controller has not begun", [], data)
        if not self._is_rolled_out(deployment) or term.queues.is_pending(consumer.key):
            return self._result(State.WAITING, NOT_QUIET, [], data)
        status = term.leader_view.consumer_states.get(consumer)
        stale = [text for pod in self._pods() for text in pod.stale(data, rereads=self._rereads)]
        return self._result(status.state, status.reason, stale, data)

    def _result(
        self, state: State, reason: str, stale: list[str], data: dict[str, Content | None]
    ) -> HistoryResult:
        return HistoryResult(
            state,
            reason,
            tuple(stale),
            any(pod.lacks(data) for pod in self._pods()),
            sum("rolling out" in line for line in self._log),
            tuple(sorted([*self._log, *self._shared.events])),
        )

    async def _is_known(self) -> bool:
        """Return whether the present version of every source has reached the controller."""
        controller = self._shared.controller
        for name in self._sources.values():
            there = await self._client.get(CONFIGMAPS, self._namespace, name, type=Object)
            store = controller.index.sources["ConfigMap"] if controller else None
            known = store.get(ObjectKey("ConfigMap", self._namespace, name)) if store else None
            if not known or known.resource_version != there["metadata"]["resourceVersion"]:
                return False
        return True

    def _is_rolled_out(self, deployment: FoundDeployment | None) -> bool:
        if deployment is None:
            return False
        status, wanted = deployment.status, deployment.spec.replicas
        pods = self._pods()
        return (
            [status.replicas, status.updated_replicas, status.ready_replicas] == [wanted] * 3
            and status.observed_generation >= deployment.metadata.generation
            and len(pods) == wanted
            and all(pod.started and pod.ends_at is None for pod in pods)
        )

    async def _rolled_out(self, *, within: float) -> None:
        async with asyncio.timeout(within):
            while not self._is_rolled_out(self._deployments.get(self._web)):  # noqa: ASYNC110
                await asyncio.sleep(0.3)


def _steady(seen: HistoryResult) -> float:
    """Return for how many seconds it has to stay like this until it is the end."""
    if seen.state in (State.CURRENT, State.DELIVERED):
        return _STEADY
    return _QUIET if broken_promise(seen) or seen.reason == NOT_QUIET else _STEADY_OTHER


def _renamed(value: Any, names: dict[str, str]) -> Any:
    """Return a copy of a pod spec with other names of ConfigMaps."""
    if isinstance(value, list):
        return [_renamed(item, names) for item in value]
    if not isinstance(value, dict):
        return value
    made = {key: _renamed(item, names) for key, item in value.items()}
    for use in ("configMapKeyRef", "configMapRef", "configMap"):
        if use in made:
            made[use]["name"] = names[made[use]["name"]]
    return made
