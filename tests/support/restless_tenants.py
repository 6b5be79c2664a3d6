"""What the owner of one namespace may do without end who wants to keep the controller busy.

Each attack writes to its namespace until it is cancelled, and needs no more than the right to edit
it. `hostile_tenants` has the attacks by what objects are.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any

from tests.support.hostile_tenants import config_map, deployment, pod_spec, variable

from hotmap.core.errors import AlreadyExists, Conflict, NotFound
from hotmap.kube.client import Client
from hotmap.kube.resources import BY_KIND, NAMESPACES

__all__ = ["RESTLESS", "played"]

Object = dict[str, Any]

#: Seconds between two writes of what is done a hundred times a second, and fifty.
_HUNDREDTH, _FIFTIETH = 0.01, 0.02

#: Seconds for which a namespace exists.
_HALF = 0.5


class Tenant:
    """The client of one namespace's owner."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client, self._namespace = client, namespace
        #: How often it has written.
        self.writes = 0

    async def recreate_namespace(self, *content: Object) -> None:
        """Delete the namespace and create it again; this does what its controller does meanwhile.

        `content` is what may be in it.
        """
        await self._client.delete(NAMESPACES, None, self._namespace)
        await self.delete(*content)
        with suppress(NotFound):
            found = await self._client.get(NAMESPACES, None, self._namespace, type=Object)
            final = {**found, "spec": {"finalizers": []}}
            await self._client.replace(
                NAMESPACES, None, self._namespace, final, type=Object, subresource="finalize"
            )
        body = {"metadata": {"name": self._namespace}}
        await self._client.create(NAMESPACES, None, body, type=Object)
        self.writes += 2

    async def create(self, *bodies: Object) -> None:
        for body in bodies:
            with suppress(AlreadyExists):
                resource = BY_KIND[body["kind"]]
                await self._client.create(resource, self._namespace, body, type=Object)
                self.writes += 1

    async def delete(self, *bodies: Object) -> None:
        for body in bodies:
            with suppress(NotFound, Conflict):
                name = body["metadata"]["name"]
                await self._client.delete(BY_KIND[body["kind"]], self._namespace, name)
                self.writes += 1

    async def patch(self, body: Object, patch: Object, *, subresource: str | None = None) -> None:
        with suppress(NotFound, Conflict):
            await self._client.patch(
                BY_KIND[body["kind"]],
                self._namespace,
                body["metadata"]["name"],
                patch,
                type=Object,
                field_manager="kubectl",
                subresource=subresource,
            )
            self.writes += 1


def _evil(**container: Any) -> Object:
    return deployment("evil", pod_spec(env=[variable("LEVEL", "app")], **container))


async def number_of_data_keys(tenant: Tenant) -> None:
    """A ConfigMap that has one data key, then 5,000, then one again."""
    source, used = config_map("app", {"k0": "0"}), {"configMapRef": {"name": "app"}}
    await tenant.create(source, deployment("evil", pod_spec(envFrom=[used])))
    for turn in count():
        keys = [f"k{number}" for number in range(1, 5_000)]
        data: dict[str, str | None] = dict.fromkeys(keys, None if turn % 2 else str(turn))
        await tenant.patch(source, {"data": data})
        await asyncio.sleep(_FIFTIETH)


async def status_of_a_workload(tenant: Tenant) -> None:
    """A status that changes a hundred times a second: rolling, rolled out, rolling."""
    evil = _evil()
    await tenant.create(config_map("app", {"LEVEL": "0"}), evil)
    for turn in count():
        status = {"replicas": 6, "updatedReplicas": turn % 7, "observedGeneration": turn % 2}
        await tenant.patch(evil, {"status": status}, subresource="status")
        await asyncio.sleep(_HUNDREDTH)


async def annotations_of_a_workload(tenant: Tenant) -> None:
    """Annotations of hotmap's that change fifty times a second, most of them to invalid values."""
    evil, source = _evil(), config_map("app", {"LEVEL": "0"})
    await tenant.create(source, evil)
    names = ("follow", "settle", "strategy", "exclude", "on-change", "agent", "unheard-of")
    for turn in count():
        values = {f"hotmap.dev/{name}": f"x{turn}" for name in names[turn % len(names) :]}
        follow = ("auto", "off", f"cm/{turn}*")[turn % 3]
        for body in (evil, source):
            changed = {**values, "hotmap.dev/follow": follow, "hotmap.dev/ignore": str(turn % 2)}
            await tenant.patch(body, {"metadata": {"annotations": changed}})
        await asyncio.sleep(_FIFTIETH)


async def recreated_objects(tenant: Tenant) -> None:
    """Workloads and their sources that are deleted and created again, each time as new objects."""
    made = [config_map("app", {"LEVEL": "0"}), _evil()]
    made += [deployment(f"evil-{number}", made[1]["spec"]["template"]["spec"]) for number in (1, 2)]
    while True:
        await tenant.create(*made)
        await asyncio.sleep(_FIFTIETH)
        await tenant.delete(*made)


async def recreated_namespace(tenant: Tenant) -> None:
    """A namespace that is deleted with all that is in it, and created again, twice a second."""
    spec = pod_spec(env=[variable("LEVEL", "app")])
    deployments = [deployment(f"evil-{number}" if number else "evil", spec) for number in range(5)]
    for turn in count():
        content = [config_map("app", {"LEVEL": str(turn)}), *deployments]
        await tenant.create(*content)
        await asyncio.sleep(_HALF)
        await tenant.recreate_namespace(*content[:: (-1) ** turn])


async def immutable_source(tenant: Tenant) -> None:
    """An immutable ConfigMap that is deleted and created again with other content."""
    await tenant.create(_evil())
    for turn in count():
        source = {**config_map("app", {"LEVEL": str(turn)}), "immutable": True}
        await tenant.create(source)
        await asyncio.sleep(_FIFTIETH)
        await tenant.delete(source)


async def pod_template(tenant: Tenant) -> None:
    """A template that changes between 400 uses and 400 others, each time a new generation."""
    evil = _evil()
    await tenant.create(config_map("app", {"LEVEL": "0"}), evil)
    many = [variable(f"V{number}", f"c{number}") for number in range(800)]
    for turn in count():
        containers = [{"name": "main", "image": f"app:{turn}", "env": many[turn % 2 :: 2]}]
        await tenant.patch(evil, {"spec": {"template": {"spec": {"containers": containers}}}})
        await asyncio.sleep(_FIFTIETH)


async def edits_of_a_source(tenant: Tenant) -> None:
    """A source of 50 workloads that is edited a hundred times a second."""
    source = config_map("app", {"LEVEL": "0"})
    spec = pod_spec(env=[variable("LEVEL", "app")])
    await tenant.create(source, *(deployment(f"evil-{number}", spec) for number in range(50)))
    for turn in count():
        await tenant.patch(source, {"data": {"LEVEL": str(turn)}})
        await asyncio.sleep(_HUNDREDTH)


async def lists_of_patterns(tenant: Tenant) -> None:
    """300 workloads with patterns of their own, and a source with a new name a hundred times."""
    spec = pod_spec(env=[variable("LEVEL", "app")])
    for number in range(300):
        made = deployment(f"evil-{number}", spec)
        follow = ", ".join(f"cm/{'?' * length}{number}*" for length in range(8))
        made["metadata"]["annotations"] = {"hotmap.dev/follow": follow}
        await tenant.create(made)
    for turn in count():
        await tenant.create(config_map(f"app-{turn % 50}", {"LEVEL": str(turn)}))
        await tenant.patch(config_map(f"app-{turn % 50}", {}), {"data": {"LEVEL": str(turn)}})
        await asyncio.sleep(_HUNDREDTH)


async def owner_references(tenant: Tenant) -> None:
    """A Deployment and a ReplicaSet that take turns in owning each other and themselves."""
    evil = _evil()
    replica_set = {**_evil(), "kind": "ReplicaSet"}
    await tenant.create(config_map("app", {"LEVEL": "0"}), evil, replica_set)
    for turn in count():
        for place, body in enumerate((evil, replica_set)):
            kind = ("Deployment", "ReplicaSet")[(turn + place) % 2]
            owner = {"apiVersion": "apps/v1", "kind": kind, "name": "evil", "uid": f"uid-{turn}"}
            references = [{**owner, "controller": bool(turn % 2)}]
            await tenant.patch(body, {"metadata": {"ownerReferences": references}})
        await asyncio.sleep(_FIFTIETH)


RESTLESS: dict[str, Callable[[Tenant], Awaitable[None]]] = {
    item.__name__.replace("_", " "): item
    for item in (
        number_of_data_keys,
        status_of_a_workload,
        annotations_of_a_workload,
        recreated_objects,
        recreated_namespace,
        immutable_source,
        pod_template,
        edits_of_a_source,
        lists_of_patterns,
        owner_references,
    )
}


@asynccontextmanager
async def played(client: Client, namespace: str, name: str) -> AsyncIterator[Tenant]:
    """Play an attack as long as the block runs."""
    tenant = Tenant(client, namespace)
    playing = asyncio.ensure_future(RESTLESS[name](tenant))
    try:
        yield tenant
        assert not playing.done(), "the attack has failed"
    finally:
        playing.cancel()
        with suppress(asyncio.CancelledError):
            await playing
