"""What a test of the controller does to the cluster, and what it asks of it afterwards.

The test plays everybody but hotmap: people who edit, the workload controllers, the kubelets.
They write through the registry; hotmap comes in over HTTPS.
"""

from __future__ import annotations

import asyncio
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from tests.support.control_plane import ControlPlane

from hotmap.controller.run import Controller
from hotmap.controller.settings import Settings
from hotmap.core.errors import NotFound
from hotmap.core.objects import ObjectKey
from hotmap.core.policy import Defaults
from hotmap.kube.client import Client

Object = dict[str, Any]

#: Seconds after which a test says what it waited for in vain.
DEADLINE = 10.0

#: Short, so that waiting for a settled change is no long wait.
SETTLE = 0.03

NAMESPACE = "default"

PLURALS = {
    "Deployment": "deployments",
    "StatefulSet": "statefulsets",
    "DaemonSet": "daemonsets",
    "ConfigMap": "configmaps",
    "Secret": "secrets",
}

FOLLOW = {"hotmap.dev/follow": "auto"}
REREADS = {**FOLLOW, "hotmap.dev/rereads": "true"}


# -- pod specs ---------------------------------------------------------------------------------


def env(*data_keys: str, source: str = "app", kind: str = "configMap", **ref: Any) -> Object:
    """A pod spec that reads data keys of one source into its environment."""
    variables = [
        {"name": key, "valueFrom": {f"{kind}KeyRef": {"name": source, "key": key, **ref}}}
        for key in data_keys
    ]
    return {"containers": [{"name": "main", "image": "app:1", "env": variables}]}


def files(source: str = "app", **options: Any) -> Object:
    """A pod spec that mounts a ConfigMap as files."""
    return {
        "containers": [
            {
                "name": "main",
                "image": "app:1",
                "volumeMounts": [{"name": "config", "mountPath": "/etc/app"}],
            }
        ],
        "volumes": [{"name": "config", "configMap": {"name": source, **options}}],
    }


def both(*data_keys: str) -> Object:
    """A pod spec that reads some data keys into its environment and mounts all as files."""
    spec = files()
    spec["containers"][0]["env"] = env(*data_keys)["containers"][0]["env"]
    return spec


def rfc3339(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


class World:
    """One cluster as one test sees it."""

    def __init__(self, plane: ControlPlane, client: Client) -> None:
        self.plane = plane
        self.registry = plane.registry
        self.client = client

    def controller(
        self, *, settle: float = SETTLE, settle_max: float = 1.0, **settings: Any
    ) -> Controller:
        """A controller with a short settle time that serves on a free port.

        It holds nobody for rolling often, since tests pack hours into seconds.
        """
        return Controller(
            self.client,
            Settings(
                defaults=Defaults(
                    follow=settings.pop("follow", "off"), settle=settle, settle_max=settle_max
                ),
                listen=("127.0.0.1", 0),
                flap_limit=settings.pop("flap_limit", 0),
                **settings,
            ),
        )

    # -- people --------------------------------------------------------------------------------

    async def namespace(self, name: str, annotations: Mapping[str, str] | None = None) -> None:
        body = {"metadata": {"name": name, "annotations": dict(annotations or {})}}
        await self.registry.create("namespaces", None, body, manager="kubectl")

    async def config_map(
        self, name: str = "app", *, namespace: str = NAMESPACE, **data: str
    ) -> Object:
        body = {"metadata": {"name": name}, "data": data}
        return await self.registry.create("configmaps", namespace, body, manager="kubectl")

    async def secret(self, name: str, **data: str) -> Object:
        encoded = {key: b64encode(value.encode()).decode() for key, value in data.items()}
        body = {"metadata": {"name": name}, "type": "Opaque", "data": encoded}
        return await self.registry.create("secrets", NAMESPACE, body, manager="kubectl")

    async def edit(
        self,
        name: str = "app",
        *,
        kind: str = "ConfigMap",
        namespace: str = NAMESPACE,
        **data: str | None,
    ) -> None:
        """Write data keys of a source; None removes one."""
        if kind == "Secret":
            data = {k: b64encode(v.encode()).decode() if v else None for k, v in data.items()}
        await self.merge(kind, name, {"data": data}, namespace=namespace)

    async def merge(
        self, kind: str, name: str, patch: Object, *, namespace: str = NAMESPACE
    ) -> Object:
        """Patch an object as somebody who is not hotmap."""
        # Not as a patch, so that guards that wait for hotmap's patches do not see it.
        return await self.registry.modify(
            PLURALS[kind], namespace, name, lambda obj: _merged(obj, patch), manager="kubectl"
        )

    async def annotate(self, name: str, kind: str = "Deployment", **said: str | None) -> None:
        """Write annotations of hotmap's domain, `settle_max` for `hotmap.dev/settle-max`."""
        annotations = {f"hotmap.dev/{k.replace('_', '-')}": value for k, value in said.items()}
        await self.merge(kind, name, {"metadata": {"annotations": annotations}})

    async def delete(self, kind: str, name: str) -> None:
        await self.registry.delete(PLURALS[kind], NAMESPACE, name)

    async def workload(
        self,
        name: str = "web",
        spec: Object | None = None,
        *,
        kind: str = "Deployment",
        namespace: str = NAMESPACE,
        annotations: Mapping[str, str] = FOLLOW,
        template_annotations: Mapping[str, str] | None = None,
        replicas: int = 1,
        **fields: Any,
    ) -> Object:
        """Create a consumer that reads LEVEL of app unless told otherwise, rolled out."""
        labels = {"app": name}
        body = {
            "metadata": {"name": name, "annotations": dict(annotations)},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {
                        "labels": labels,
                        "annotations": dict(template_annotations or {}),
                    },
                    "spec": spec or env("LEVEL"),
                },
                **({} if kind == "DaemonSet" else {"replicas": replicas}),
                **({"serviceName": name} if kind == "StatefulSet" else {}),
                **fields,
            },
        }
        await self.registry.create(PLURALS[kind], namespace, body, manager="kubectl")
        return await self.rolled_out(name, kind=kind, namespace=namespace)

    # -- workload controllers and kubelets -----------------------------------------------------

    async def rolled_out(
        self, name: str = "web", *, kind: str = "Deployment", namespace: str = NAMESPACE
    ) -> Object:
        """Report a consumer's newest generation as rolled out."""

        def report(obj: Object) -> Object:
            replicas = obj["spec"].get("replicas", 1)
            counts = {"replicas": replicas, "updatedReplicas": replicas, "readyReplicas": replicas}
            observed = {"observedGeneration": obj["metadata"]["generation"]}
            return {**obj, "status": {**observed, **counts}}

        return await self.registry.modify(
            PLURALS[kind], namespace, name, report, subresource="status", manager="kube"
        )

    async def pod(
        self,
        name: str,
        *,
        of: str = "web",
        started: float | None = None,
        phase: str = "Running",
        annotations: Mapping[str, str] | None = None,
    ) -> Object:
        """Create a pod of a consumer that was made and started then, an hour ago by default."""
        begun = time.time() - 3600 if started is None else started
        at = rfc3339(begun)
        metadata = {"name": name, "labels": {"app": of}, "annotations": dict(annotations or {})}
        spec = {"nodeName": "local", "containers": [{"name": "main", "image": "app:1"}]}
        body = {"metadata": metadata, "spec": spec}
        self.registry.ahead = begun - time.time()
        try:
            await self.registry.create("pods", NAMESPACE, body, manager="kube")
        finally:
            self.registry.ahead = 0.0
        running = {"name": "main", "state": {"running": {"startedAt": at}}}
        status = {"phase": phase, "startTime": at, "containerStatuses": [running]}
        return await self.registry.modify(
            "pods",
            NAMESPACE,
            name,
            lambda obj: {**obj, "status": {**obj["status"], **status}},
            subresource="status",
            manager="kubelet",
        )

    # -- questions -----------------------------------------------------------------------------

    async def get(self, kind: str, name: str, namespace: str = NAMESPACE) -> Object:
        return await self.registry.get(PLURALS[kind], namespace, name)

    async def revision(
        self, name: str = "web", *, kind: str = "Deployment", namespace: str = NAMESPACE
    ) -> str:
        """The revision that hotmap wrote into a pod template, "" for none."""
        obj = await self.get(kind, name, namespace)
        template = obj["spec"]["template"]["metadata"].get("annotations") or {}
        return str(template.get("hotmap.dev/revision", ""))

    async def target(self, pod: str) -> str:
        """What a pod was last told by a nudge, "" for nothing."""
        obj = await self.registry.get("pods", NAMESPACE, pod)
        return str((obj["metadata"].get("annotations") or {}).get("hotmap.dev/target", ""))

    async def events(self, reason: str = "") -> list[Object]:
        items = (await self.registry.list("events", None)).items
        items.sort(key=lambda event: int(event["metadata"]["resourceVersion"]))
        return [event for event in items if reason in ("", event["reason"])]

    async def messages(self, reason: str = "") -> list[str]:
        return [event["message"] for event in await self.events(reason)]

    async def records(self) -> dict[str, str]:
        """The texts of the state Secrets that have been written, by name."""
        items = (await self.registry.list("secrets", "hotmap")).items
        return {
            item["metadata"]["name"]: item["data"]["state"]
            for item in items
            if item["type"] == "hotmap.dev/state"
        }

    def answers(self) -> Counter[str]:
        """Answers that hotmap had of the API server so far, by method."""
        total: Counter[str] = Counter()
        for (method, _), count in self.client.statistics().answers.items():
            total[method] += count
        return total

    # -- waiting -------------------------------------------------------------------------------

    async def until(
        self, check: Callable[[], Awaitable[Any]], what: str, *, within: float = DEADLINE
    ) -> Any:
        """Wait until a coroutine function returns something true, and return that."""
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            if found := await check():
                return found
            await asyncio.sleep(0.005)
        raise AssertionError(f"waited in vain until {what}; Events: {await self.messages()}")

    async def rollout(self, name: str = "web", *, after: str = "", **where: str) -> str:
        """Wait until a consumer's template has another revision than `after`; returns it."""

        async def changed() -> str | None:
            now = await self.revision(name, **where)
            return now if now != after else None

        found: str = await self.until(changed, f"{name} has another revision than {after!r}")
        return found

    async def event(self, reason: str) -> str:
        """Wait for the first Event with a reason; returns its message."""

        async def told() -> list[str]:
            return await self.messages(reason)

        found: list[str] = await self.until(told, f"an Event says {reason}")
        return found[0]

    async def quiet(self, controller: Controller, *, namespace: str | None = None) -> None:
        """Wait until a controller has seen all there is, and has nothing left to do."""

        async def idle() -> bool:
            return await self._is_seen(controller, namespace) and not _busy(controller)

        await self.until(idle, "the controller has nothing left to do")

    async def _is_seen(self, controller: Controller, namespace: str | None) -> bool:
        """Tell whether a controller's stores hold the newest versions of everything."""
        for kind, store in _stores(controller):
            items = (await self.registry.list(PLURALS[kind], namespace)).items
            if len(items) < len(store):
                return False
            for item in items:
                metadata = item["metadata"]
                kept = store.get(ObjectKey(kind, metadata["namespace"], metadata["name"]))
                if item.get("type", "").startswith("hotmap.dev/"):
                    continue
                if kept is None or kept.resource_version != metadata["resourceVersion"]:
                    return False
        return True

    async def exists(self, kind: str, name: str) -> bool:
        try:
            await self.get(kind, name)
        except NotFound:
            return False
        return True


def _stores(controller: Controller) -> Iterable[tuple[str, Any]]:
    yield from controller.index.sources.items()
    yield from controller.index.consumers.items()


def _busy(controller: Controller) -> bool:
    queues = controller.queue_statistics().values()
    return any(one.ready or one.waiting or one.processing for one in queues)


def _merged(target: Object, patch: Object) -> Object:
    """Apply a JSON merge patch (RFC 7386)."""
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        elif isinstance(value, dict):
            target[name] = _merged(target.get(name) or {}, value)
        else:
            target[name] = value
    return target
