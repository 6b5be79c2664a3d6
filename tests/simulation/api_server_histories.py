"""Random histories on an API server with its own workload controllers, and simulated kubelets.

The events are drawn as for the simulated cluster, and the end is judged by the same promises. Each
history has a namespace and a controller of its own; many are played at once. Time is real, so that
no two runs of a seed are the same: what is seen is what the seed made likely.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import random
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from tests.simulation.cluster import SOURCES, TEMPLATES
from tests.simulation.controller import State
from tests.simulation.disturbances import EDITS, Content, Disturbance, draw, pause_after
from tests.simulation.histories import HistoryResult
from tests.simulation.kubelets import Kubelets

from hotmap.controller.run import Controller
from hotmap.controller.settings import PodCheckSettings, Settings
from hotmap.core.errors import Conflict, HotmapError, NotFound, Unreachable
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.policy.policy import Defaults
from hotmap.kube.client import Client
from hotmap.kube.config import ClusterConfig
from hotmap.kube.kubeconfig import load_kubeconfig
from hotmap.kube.resources import CONFIGMAPS, DEPLOYMENTS, NAMESPACES, PODS, REPLICASETS

__all__ = ["play_histories"]

Object = dict[str, Any]

_MERGE = "application/merge-patch+json"

#: Seconds within which a history is quiet: rollouts end, pods are checked and, if latent, replaced.
_QUIET = 150.0

#: Seconds for which it has to stay as it is.
_STEADY = 4.0

_CHECKS = PodCheckSettings(
    rate=50.0, initial_delay=1.0, rollout_delay=1.0, pause=2.0, max_pause=4.0, max_pause_rolling=4.0
)


class _Log(logging.Handler):
    """Collects what the controllers say, by namespace."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: dict[str, list[str]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        text = f"{record.getMessage()} {getattr(record, 'workload', '')}"
        for namespace, lines in self.lines.items():
            if f"{namespace}/" in text:
                lines.append(f"{time.time():.2f} {text}")


class _Connection(Client):
    """A controller's client, whose connections break at once when it is cut off."""

    is_cut_off = False

    def cut_off(self) -> None:
        """Break all connections, and refuse new ones; of a process that is killed for good."""
        self.is_cut_off = True
        session = self._transport._session
        connector = session.connector if session else None
        for protocol in tuple(connector._acquired) if connector else ():
            if protocol.transport is not None:
                protocol.transport.abort()

    async def request(self, *arguments: Any, **options: Any) -> bytes:
        if self.is_cut_off:
            raise Unreachable("cut off")
        return await super().request(*arguments, **options)

    @asynccontextmanager
    async def open_watch(self, *arguments: Any, **options: Any) -> AsyncIterator[Any]:
        if self.is_cut_off:
            raise Unreachable("cut off")
        async with super().open_watch(*arguments, **options) as stream:
            yield stream


class _History:
    def __init__(
        self, seed: int, config: ClusterConfig, client: Client, kubelets: Kubelets, log: _Log
    ) -> None:
        self._chance = random.Random(seed)
        self._rereads = self._chance.random() < 0.3
        self._namespace = f"history-{seed}"
        self._config, self._client, self._kubelets = config, client, kubelets
        self._log = log.lines.setdefault(self._namespace, [])
        self._controller: Controller | None = None
        self._own: _Connection | None = None
        self._edits = 0

    async def play(self) -> HistoryResult:
        """Play it from the first object to the verdict, and leave nothing behind."""
        try:
            await self._set_up()
            await self._start()
            await asyncio.sleep(self._chance.choice((4.0, 6.0)))
            for _ in range(self._chance.randint(4, 14)):
                await self._disturb()
                await asyncio.sleep(min(4.0, pause_after(self._chance)))
            return await self._end()
        finally:
            await self._stop(crash=False)
            with suppress(HotmapError):
                await self._client.delete(NAMESPACES, None, self._namespace)

    # -- objects -------------------------------------------------------------------------------

    async def _set_up(self) -> None:
        await self._client.create(
            NAMESPACES, None, {"metadata": {"name": self._namespace}}, type=Object
        )
        for name in SOURCES:
            await self._create(name, {"a": "0", "b": "0"})
        annotations = {"hotmap.dev/rereads": "true"} if self._rereads else {}
        labels = {"app": "web"}
        spec = _pod_spec(self._chance.randrange(len(TEMPLATES)), 1)
        body = {
            "metadata": {"name": "web", "annotations": annotations},
            "spec": {
                "replicas": self._chance.randint(1, 3),
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }
        await self._client.create(DEPLOYMENTS, self._namespace, body, type=Object)
        await self._rolled_out(within=300)

    async def _create(self, name: str, data: Content) -> None:
        body = {"metadata": {"name": name}, "data": data}
        await self._client.create(
            CONFIGMAPS, self._namespace, body, type=Object, field_manager="kubectl"
        )

    async def _patch_source(self, name: str, patch: Object) -> None:
        await self._client.patch(
            CONFIGMAPS,
            self._namespace,
            name,
            patch,
            type=Object,
            content_type=_MERGE,
            field_manager="kubectl",
        )

    async def _web(self) -> Object:
        return await self._client.get(DEPLOYMENTS, self._namespace, "web", type=Object)

    async def _patch_web(self, patch: Object, manager: str = "kubectl") -> None:
        await self._client.patch(
            DEPLOYMENTS,
            self._namespace,
            "web",
            patch,
            type=Object,
            content_type=_MERGE,
            field_manager=manager,
        )

    async def _data(self, name: str) -> Content | None:
        return await self._kubelets.data(self._namespace, name)

    # -- events --------------------------------------------------------------------------------

    async def _disturb(self) -> None:
        event = draw(self._chance)
        with suppress(NotFound, Conflict):
            await getattr(self, f"_{event.kind}")(event)
        name = event.source if event.kind in EDITS else ""
        data = {name: await self._data(name) for name in SOURCES}
        up = "up" if self._controller else "down"
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
            await self._client.delete(CONFIGMAPS, self._namespace, event.source)
            await asyncio.sleep(event.gap)
            await self._create(event.source, event.recreated(data))

    async def _template(self, event: Disturbance) -> None:
        web = await self._web()
        web["spec"]["template"]["spec"] = _pod_spec(event.template, event.image)
        await self._client.replace(
            DEPLOYMENTS, self._namespace, "web", web, type=Object, field_manager="kubectl"
        )

    async def _undo(self, event: Disturbance) -> None:
        """Write the template of the ReplicaSet before the newest, as `kubectl rollout undo`."""
        page = await self._client.list_page(REPLICASETS, self._namespace, type=Object)
        number = "deployment.kubernetes.io/revision"
        made = sorted(
            (int(item["metadata"].get("annotations", {}).get(number, "0")), index)
            for index, item in enumerate(page.items)
        )
        if len(made) < 2:
            return
        template = copy.deepcopy(page.items[made[-2][1]]["spec"]["template"])
        template["metadata"]["labels"].pop("pod-template-hash", None)
        template["metadata"].pop("creationTimestamp", None)
        await self._client.patch(
            DEPLOYMENTS,
            self._namespace,
            "web",
            [{"op": "replace", "path": "/spec/template", "value": template}],
            type=Object,
            content_type="application/json-patch+json",
            field_manager="kubectl-rollout",
        )

    async def _scale(self, event: Disturbance) -> None:
        await self._patch_web({"spec": {"replicas": event.replicas}})

    async def _pause(self, event: Disturbance) -> None:
        paused = not (await self._web())["spec"].get("paused", False)
        await self._patch_web({"spec": {"paused": paused}})

    async def _evict(self, event: Disturbance) -> None:
        if pods := sorted(pod.name for pod in self._kubelets.of(self._namespace)):
            await self._client.delete(PODS, self._namespace, event.chosen(pods))

    async def _crash(self, event: Disturbance) -> None:
        pods = {pod.name: pod for pod in self._kubelets.of(self._namespace) if pod.started}
        if pods:
            await self._kubelets.restart(pods[event.chosen(sorted(pods))])

    async def _down(self, event: Disturbance) -> None:
        if self._controller:
            await self._stop(crash=event.hard)
        else:
            await self._start()

    async def _cut_off(self, event: Disturbance) -> None:
        """Break every connection of the controller; its watches are resumed."""
        if self._own is not None:
            self._own.cut_off()
            await asyncio.sleep(event.gap)
            self._own.is_cut_off = False

    # -- the controller ------------------------------------------------------------------------

    async def _start(self) -> None:
        self._own = _Connection(self._config, user_agent="hotmap-history")
        await self._own.__aenter__()
        settings = Settings(
            namespace=self._namespace,
            watch_namespaces=(self._namespace,),
            defaults=Defaults(follow="auto", settle=0.5, settle_max=5.0),
            pod_checks=_CHECKS,
            workers=2,
            flap_limit=0,
            listen=None,
        )
        controller = Controller(self._own, settings)
        await controller.__aenter__()
        self._controller = controller

    async def _stop(self, *, crash: bool) -> None:
        controller, own = self._controller, self._own
        self._controller = self._own = None
        if own is None:
            return
        if crash:
            own.cut_off()
        if controller is not None:
            await controller.__aexit__(None, None, None)
        await own.__aexit__(None, None, None)

    # -- the end -------------------------------------------------------------------------------

    async def _end(self) -> HistoryResult:
        for name in SOURCES:  # what everybody needs
            data = await self._data(name)
            if data is None:
                await self._create(name, {"a": "0"})
            elif "a" not in data:
                await self._patch_source(name, {"data": {"a": "0"}})
        await self._patch_web({"spec": {"paused": False}})
        if self._controller is None:
            await self._start()
        deadline = time.monotonic() + _QUIET
        with suppress(TimeoutError):
            await self._rolled_out(within=_QUIET / 2)
        for pod in self._kubelets.of(self._namespace):
            await self._kubelets.refresh(pod)
        steady_since, last = time.monotonic(), ("", "")
        while True:
            status, reason, stale = await self._look()
            if (status.value, reason) != last:
                steady_since, last = time.monotonic(), (status.value, reason)
            now = time.monotonic()
            over = now >= deadline
            wrong = status is State.CURRENT and stale
            settled = status is State.CURRENT and not stale
            if over or (now - steady_since >= _STEADY and (wrong or settled)):
                break
            await asyncio.sleep(0.5)
        said = self._log
        held = {name: frozenset(await self._data(name) or ()) for name in SOURCES}
        blocked = any(
            not use.optional and not (use.keys.names or frozenset()) <= held[use.source.name]
            for pod in self._kubelets.of(self._namespace)
            for use in pod.uses
        )
        return HistoryResult(
            status,
            reason,
            tuple(stale),
            blocked,
            sum("rolling out" in line for line in said),
            tuple(said),
        )

    async def _look(self) -> tuple[State, str, list[str]]:
        """Return what hotmap says, and what the pods hold that is not the present content."""
        controller = self._controller
        assert controller is not None
        consumer, view = self._consumer(controller), controller._term
        if consumer is None or view is None:
            return State.WAITING, "the controller has not begun", []
        if not await self._is_rolled_out() or controller._is_pending(consumer.key):
            return State.WAITING, "it is not quiet yet", []
        if not await self._is_known(controller):
            return State.WAITING, "a watch is not resumed yet", []
        status = view.leader_view.consumer_states.get(consumer)
        data = {name: await self._data(name) for name in SOURCES}
        stale = [
            item
            for pod in self._kubelets.of(self._namespace)
            for item in pod.stale(data, rereads=self._rereads)
        ]
        return status.state, status.reason, stale

    async def _is_known(self, controller: Controller) -> bool:
        """Return whether the present version of every source has reached the controller."""
        for name in SOURCES:
            there = await self._client.get(CONFIGMAPS, self._namespace, name, type=Object)
            store = controller.index.sources["ConfigMap"]
            known = store.get(ObjectKey("ConfigMap", self._namespace, name))
            if not known or known.resource_version != there["metadata"]["resourceVersion"]:
                return False
        return True

    def _consumer(self, controller: Controller) -> Consumer | None:
        return controller.index.consumer(ObjectKey("Deployment", self._namespace, "web"))

    async def _is_rolled_out(self) -> bool:
        web = await self._web()
        status, wanted = web.get("status") or {}, web["spec"].get("replicas", 1)
        counts = [status.get(item, 0) for item in ("replicas", "updatedReplicas", "readyReplicas")]
        pods = self._kubelets.of(self._namespace)
        return (
            counts == [wanted] * 3
            and status.get("observedGeneration", 0) >= web["metadata"]["generation"]
            and len(pods) == wanted
            and all(pod.started and pod.ends_at is None for pod in pods)
        )

    async def _rolled_out(self, *, within: float) -> None:
        async with asyncio.timeout(within):
            while not await self._is_rolled_out():  # noqa: ASYNC110  the API is polled
                await asyncio.sleep(0.3)


def _pod_spec(template: int, image: int) -> Object:
    spec = copy.deepcopy(TEMPLATES[template])
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        container["image"] = f"app:{image}"
    return dict(spec)


async def play_histories(
    kubeconfig: Path, seeds: range, *, at_once: int
) -> dict[int, HistoryResult | Exception]:
    """Play histories on an API server, some at once; an exception is a defect of the play."""
    config = load_kubeconfig(str(kubeconfig))
    results: dict[int, HistoryResult | Exception] = {}
    log = _Log()
    logger = logging.getLogger("hotmap.controller")
    logger.addHandler(log)
    logger.setLevel(logging.INFO)
    limit = asyncio.Semaphore(at_once)
    async with AsyncExitStack() as stack:
        stack.callback(logger.removeHandler, log)
        client = await stack.enter_async_context(Client(config, user_agent="history"))
        kubelets = Kubelets(client, random.Random(seeds.start))
        serving = asyncio.create_task(kubelets.run())
        stack.callback(serving.cancel)

        async def play(seed: int) -> None:
            async with limit:
                try:
                    results[seed] = await _History(seed, config, client, kubelets, log).play()
                except (HotmapError, TimeoutError, KeyError) as error:
                    results[seed] = error

        await asyncio.gather(*(play(seed) for seed in seeds))
        if serving.done():
            await serving
    return results
