"""What a test of the controller does to the cluster, and what it asks of it afterwards.

The test plays everybody but hotmap: people who edit, the workload controllers, the kubelets.
They write through the registry; hotmap comes in over HTTPS.
"""

from __future__ import annotations

import asyncio
import json
import time
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from tests.support.control_plane import ControlPlane

from hotmap.controller.run import Controller
from hotmap.controller.settings import Settings
from hotmap.controller.watch.fan_outs import FanOuts
from hotmap.core.errors import AlreadyExists, NotFound
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.state import Record, read_shard
from hotmap.core.policy.policy import Defaults
from hotmap.kube.client import Client

Object = dict[str, Any]

#: Seconds after which a test says what it timed out on, and how many of them are real ones at
#: least: polling lets virtual time pass even while the kernel is late with what was sent.
DEADLINE = 60.0
REAL_DEADLINE = 20.0

#: Seconds between two polls: of the first ones, and of the others. Before a jump as long as the
#: latter virtual time leaves the kernel a moment to deliver what was sent.
POLL, LATER_POLL = 0.005, 0.05
FIRST_POLLS = 20

#: Short, so that waiting for a settled change is not a long wait.
SETTLE = 0.03

NAMESPACE = "default"

PLURALS = {
    "Deployment": "deployments",
    "StatefulSet": "statefulsets",
    "DaemonSet": "daemonsets",
    "CronJob": "cronjobs",
    "Job": "jobs",
    "ReplicaSet": "replicasets",
    "Pod": "pods",
    "ConfigMap": "configmaps",
    "Secret": "secrets",
}

#: The apiVersions of the owners that are workloads.
_VERSIONS = {"CronJob": "batch/v1", "Deployment": "apps/v1", "ReplicaSet": "apps/v1"}

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

        It suppresses no rollouts, since tests pack hours into seconds.
        """
        follow = settings.pop("follow", "off")
        defaults = settings.pop("defaults", Defaults(follow=follow))
        return Controller(
            self.client,
            Settings(
                defaults=defaults._replace(settle=settle, settle_max=settle_max),
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
        """Patch an object as another client."""
        # Not as a patch, so that guards that wait for hotmap's patches do not see it.
        return await self.registry.modify(
            PLURALS[kind], namespace, name, lambda obj: _merged(obj, patch), manager="kubectl"
        )

    async def merge_status(self, kind: str, name: str, status: Object) -> None:
        """Report another status, as the controller of a kind does."""
        await self.registry.modify(
            PLURALS[kind],
            NAMESPACE,
            name,
            lambda obj: {**obj, "status": status},
            subresource="status",
            manager="kube",
        )

    async def annotate(
        self, name: str, kind: str = "Deployment", **annotations: str | None
    ) -> None:
        """Write annotations of hotmap's domain, `settle_max` for `hotmap.dev/settle-max`."""
        annotations = {
            f"hotmap.dev/{k.replace('_', '-')}": value for k, value in annotations.items()
        }
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

    async def cron_job(
        self,
        name: str = "report",
        spec: Object | None = None,
        *,
        annotations: Mapping[str, str] = FOLLOW,
        **fields: Any,
    ) -> Object:
        """Create a CronJob that reads LEVEL of app unless told otherwise."""
        template = {"spec": {"template": {"spec": _once(spec)}}}
        body = {
            "metadata": {"name": name, "annotations": dict(annotations)},
            "spec": {"schedule": "0 0 * * *", "jobTemplate": template, **fields},
        }
        return await self.registry.create("cronjobs", NAMESPACE, body, manager="kubectl")

    async def job(
        self,
        name: str = "load",
        spec: Object | None = None,
        *,
        annotations: Mapping[str, str] = FOLLOW,
        owner: tuple[str, ...] | None = None,
        ended: str = "",
        **fields: Any,
    ) -> Object:
        """Create a Job that reads LEVEL of app unless told otherwise.

        `owner` is the kind and name of its controller, and the apiVersion if an operator's kind has
        the name of a workload's; `ended` is Complete or Failed.
        """
        template = {"metadata": {"labels": {"app": name}}, "spec": _once(spec)}
        body = {
            "metadata": {
                "name": name,
                "annotations": dict(annotations),
                "ownerReferences": [_owner(*owner)] if owner else [],
            },
            "spec": {"template": template, **fields},  # the API server adds selector and labels
        }
        made = await self.registry.create("jobs", NAMESPACE, body, manager="kubectl")
        if not ended:
            return made
        status = {"conditions": [{"type": ended, "status": "True"}]}
        return await self.registry.modify(
            "jobs",
            NAMESPACE,
            name,
            lambda obj: {**obj, "status": status},
            subresource="status",
            manager="kube",
        )

    async def bare(
        self,
        kind: str,
        name: str = "alone",
        *,
        annotations: Mapping[str, str] = FOLLOW,
        labels: Mapping[str, str] | None = None,
        owner: tuple[str, ...] | None = None,
    ) -> Object:
        """Create a Pod or ReplicaSet that reads LEVEL of app, with the label to be watched."""
        found = {"app": name} | ({"hotmap.dev/watch": "true"} if labels is None else dict(labels))
        spec: Object = env("LEVEL") | ({"nodeName": "local"} if kind == "Pod" else {})
        if kind == "ReplicaSet":
            template = {"metadata": {"labels": {"app": name}}, "spec": spec}
            spec = {"selector": {"matchLabels": {"app": name}}, "template": template, "replicas": 1}
        metadata = {
            "name": name,
            "annotations": dict(annotations),
            "labels": found,
            "ownerReferences": [_owner(*owner)] if owner else [],
        }
        body = {"metadata": metadata, "spec": spec}
        made = await self.registry.create(PLURALS[kind], NAMESPACE, body, manager="kubectl")
        return await self.rolled_out(name, kind=kind) if kind == "ReplicaSet" else made

    # -- workload controllers and kubelets -----------------------------------------------------

    async def rolled_out(
        self,
        name: str = "web",
        *,
        kind: str = "Deployment",
        namespace: str = NAMESPACE,
        available: bool = True,
    ) -> Object:
        """Report a consumer's newest generation as rolled out, and its pods as available."""

        def report(obj: Object) -> Object:
            replicas = obj["spec"].get("replicas", 1)
            counts = {"replicas": replicas, "updatedReplicas": replicas, "readyReplicas": replicas}
            if available:
                counts |= {"availableReplicas": replicas}
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
        spec: Object | None = None,
    ) -> Object:
        """Create a pod of a consumer that was made and started then, an hour ago by default."""
        begun = time.time() - 3600 if started is None else started
        at = rfc3339(begun)
        metadata = {"name": name, "labels": {"app": of}, "annotations": dict(annotations or {})}
        containers = {"containers": [{"name": "main", "image": "app:1"}]}
        body = {"metadata": metadata, "spec": {"nodeName": "local", **(spec or containers)}}
        self.registry.ahead = begun - time.time()
        try:
            await self.registry.create("pods", NAMESPACE, body, manager="kube")
        finally:
            self.registry.ahead = 0.0
        return await self.starts(name, at=at, phase=phase)

    async def starts(self, name: str, *, at: str = "", phase: str = "Running") -> Object:
        """Report a pod's container as started, an hour ago by default."""
        at = at or rfc3339(time.time() - 3600)
        running = {"name": "main", "ready": True, "state": {"running": {"startedAt": at}}}
        status = {"phase": phase, "startTime": at, "containerStatuses": [running]}
        return await self.registry.modify(
            "pods",
            NAMESPACE,
            name,
            lambda obj: {**obj, "status": {**obj["status"], **status}},
            subresource="status",
            manager="kubelet",
        )

    async def is_not_ready(self, name: str, state: Object) -> None:
        """Report a pod's container in some state, and as not ready."""
        container = {"name": "main", "ready": False, "state": state}
        await self.registry.modify(
            "pods",
            NAMESPACE,
            name,
            lambda obj: {**obj, "status": {**obj["status"], "containerStatuses": [container]}},
            subresource="status",
            manager="kubelet",
        )

    async def end_deletion(self, plural: str, name: str) -> None:
        """Take the finalizers off an object that is being deleted, as garbage collection does."""

        def release(obj: Object) -> Object:
            metadata = {k: v for k, v in obj["metadata"].items() if k != "finalizers"}
            return {**obj, "metadata": metadata}

        await self.registry.modify(plural, NAMESPACE, name, release, manager="kube")

    async def passes_a_second(self) -> None:
        """Wait until the clock shows another second, which is all that timestamps tell."""
        second = int(time.time())

        async def passed() -> bool:
            return int(time.time()) > second

        await self.until(passed, "a second has passed")

    async def keep_pending(self, *kept: Object) -> None:
        """Keep Jobs as a controller does between their deletion and their return."""
        data = {"jobs": b64encode(json.dumps(kept).encode()).decode()}
        metadata = {"name": "hotmap-pending"}
        body = {"metadata": metadata, "type": "hotmap.dev/pending", "data": data}
        with suppress(AlreadyExists):
            namespace = {"metadata": {"name": "hotmap"}}
            await self.registry.create("namespaces", None, namespace, manager="t")
        await self.registry.create("secrets", "hotmap", body, manager="t")

    async def put_records_back(self, records: Mapping[str, str]) -> None:
        """Make the state Secrets what they were, as if a crash had kept them from being written."""
        for name in await self.records():
            state = {"state": records.get(name, "")}
            await self.registry.modify(
                "secrets", "hotmap", name, partial(_with_data, state), manager="t"
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

    async def recorded(self) -> dict[str, Record]:
        """The records that have been written, by uid."""
        found: dict[str, Record] = {}
        for text in (await self.records()).values():
            found |= read_shard(b64decode(text).decode())
        return found

    async def pending_jobs(self) -> list[Object]:
        """The manifests of the Jobs that are on their way from their deletion to their return."""
        try:
            secret = await self.registry.get("secrets", "hotmap", "hotmap-pending")
        except NotFound:
            return []
        found: list[Object] = json.loads(b64decode(secret["data"]["jobs"]))
        return found

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
        clock = asyncio.get_running_loop().time
        deadline, real_deadline = clock() + within, time.monotonic() + min(within, REAL_DEADLINE)
        polls = 0
        while clock() < deadline or time.monotonic() < real_deadline:
            if found := await check():
                return found
            polls += 1
            await asyncio.sleep(POLL if polls <= FIRST_POLLS else LATER_POLL)
        raise AssertionError(f"timed out waiting until {what}; Events: {await self.messages()}")

    async def rollout(self, name: str = "web", *, after: str = "", **where: str) -> str:
        """Wait until a consumer's template has another revision than `after`; returns it."""

        async def changed() -> str | None:
            now = await self.revision(name, **where)
            return now if now != after else None

        found: str = await self.until(changed, f"{name} has another revision than {after!r}")
        return found

    async def event(self, reason: str) -> str:
        """Wait for the first Event with a reason; returns its message."""

        async def is_reported() -> list[str]:
            return await self.messages(reason)

        found: list[str] = await self.until(is_reported, f"an Event says {reason}")
        return found[0]

    async def quiet(self, controller: Controller, *, namespace: str | None = None) -> None:
        """Wait until a controller has seen all there is, and has nothing left to do."""

        async def idle() -> bool:
            return await self._is_seen(controller, namespace) and not _busy(controller)

        await self.until(idle, "the controller has nothing left to do")

    async def run_once(self) -> None:
        """Run a controller until it has nothing to do."""
        async with self.controller() as controller:
            await self.quiet(controller)

    async def _is_seen(self, controller: Controller, namespace: str | None) -> bool:
        """Return whether a controller's stores hold the newest versions of everything."""
        for kind, store in _stores(controller):
            items = (await self.registry.list(PLURALS[kind], namespace)).items
            if len(items) < len(store):
                return False
            for item in items:
                metadata = item["metadata"]
                key = ObjectKey(kind, metadata["namespace"], metadata["name"])
                kept = store.get(key)
                if not _is_kept(kind, item) or key in store.unreadable:
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


async def stop_watches(controller: Controller) -> None:
    """End the watches of a controller, which goes on with what it has."""
    assert controller._reflectors is not None, "it has started"
    await controller._reflectors.stop()


def pause_fan_outs(controller: Controller, *, seconds: float) -> FanOuts:
    """Delay the followers of changed sources, as after a change with thousands of them."""
    fan_outs, loop = controller._changes._fan_outs, asyncio.get_running_loop()
    fan_outs._pauses[NAMESPACE] = loop.call_later(seconds, fan_outs._end_pause, NAMESPACE)
    return fan_outs


def _with_data(data: Object, secret: Object) -> Object:
    return {**secret, "data": data}


def _stores(controller: Controller) -> Iterable[tuple[str, Any]]:
    index = controller.index
    for kind, store in {**index.sources, **index.consumers}.items():
        if kind in PLURALS:  # not custom resources, which few tests create
            yield kind, store


def _is_kept(kind: str, item: Object) -> bool:
    """Return whether the controller keeps anything of an object."""
    if item.get("type", "").startswith("hotmap.dev/"):
        return False
    metadata = item["metadata"]
    if "deletionTimestamp" in metadata and kind not in ("ConfigMap", "Secret"):
        return False
    if kind not in ("Job", "ReplicaSet", "Pod"):
        return True
    references = metadata.get("ownerReferences") or ()
    if any(_VERSIONS.get(each["kind"]) == each["apiVersion"] for each in references):
        return False
    if kind == "Job":
        return not item["status"].get("conditions") or bool(metadata.get("annotations"))
    return (metadata.get("labels") or {}).get("hotmap.dev/watch") == "true"


def _busy(controller: Controller) -> bool:
    queues = controller.queue_statistics().values()
    return any(queue.ready or queue.waiting or queue.processing for queue in queues)


def _once(spec: Object | None) -> Object:
    """A pod spec whose containers end; LEVEL of app in the environment by default."""
    return {**(spec or env("LEVEL")), "restartPolicy": "Never"}


def _owner(kind: str, name: str, version: str = "") -> Object:
    reference = {"apiVersion": version or _VERSIONS.get(kind, "example.org/v1"), "kind": kind}
    return {**reference, "name": name, "uid": f"u-{name}", "controller": True}


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
