"""The Secrets Store CSI driver's kinds, and a test that plays the driver.

The definitions are those that the driver publishes (secrets-store-csi-driver v1.4.8, config/crd),
without descriptions. The statuses are written as the driver writes them: by name of pod, namespace
and class, owned by the pod, whole (pkg/secrets-store/utils.go, pkg/rotation/reconciler.go).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from hotmap.core.errors import NotFound
from hotmap.local.apiserver.custom_resources import CustomResources
from hotmap.local.apiserver.registry import Registry

__all__ = ["CLASSES", "DRIVER", "GROUP", "STATUSES", "Driver", "class_volume", "playing_driver"]

Object = dict[str, Any]

GROUP = "secrets-store.csi.x-k8s.io"
DRIVER = "secrets-store.csi.k8s.io"
CLASSES = "secretproviderclasses"
STATUSES = "secretproviderclasspodstatuses"

_TEXT: Object = {"type": "string"}
_OBJECTS: Object = {
    "type": "array",
    "items": {"type": "object", "properties": {"id": _TEXT, "version": _TEXT}},
}
_STATUS: Object = {
    "type": "object",
    "properties": {
        "mounted": {"type": "boolean"},
        "objects": _OBJECTS,
        "podName": _TEXT,
        "secretProviderClassName": _TEXT,
        "targetPath": _TEXT,
    },
}
_PARAMETERS: Object = {"type": "object", "additionalProperties": _TEXT}
_SPEC: Object = {"type": "object", "properties": {"parameters": _PARAMETERS, "provider": _TEXT}}


def _definition(plural: str, kind: str, **properties: Object) -> Object:
    schema = {
        "type": "object",
        "properties": {
            "apiVersion": _TEXT,
            "kind": _TEXT,
            "metadata": {"type": "object"},
            **properties,
        },
    }
    version = {"name": "v1", "served": True, "storage": True}
    names = {"plural": plural, "kind": kind, "listKind": f"{kind}List", "singular": kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": names,
            "scope": "Namespaced",
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }


_DEFINITIONS = (
    _definition(CLASSES, "SecretProviderClass", spec=_SPEC),
    _definition(STATUSES, "SecretProviderClassPodStatus", status=_STATUS),
)


def class_volume(name: str = "vault", **mount: Any) -> Object:
    """A pod spec that mounts a class."""
    csi = {"driver": DRIVER, "readOnly": True, "volumeAttributes": {"secretProviderClass": name}}
    mounts = [{"name": "secrets", "mountPath": "/mnt/secrets", **mount}]
    return {
        "containers": [{"name": "main", "image": "app:1", "volumeMounts": mounts}],
        "volumes": [{"name": "secrets", "csi": csi}],
    }


class Driver:
    """The CSI driver of a cluster, and those who write classes."""

    def __init__(self, registry: Registry, namespace: str = "default") -> None:
        self._registry = registry
        self._namespace = namespace

    async def install(self) -> None:
        """Define both kinds, and wait until they are served."""
        for definition in _DEFINITIONS:
            await self._registry.create("customresourcedefinitions", None, definition, manager="t")
        for plural in (CLASSES, STATUSES):
            await self.until(f"{plural}.{GROUP}", served=True)

    async def remove(self) -> None:
        """Remove both kinds with their objects."""
        for definition in _DEFINITIONS:
            name = definition["metadata"]["name"]
            await self._registry.delete("customresourcedefinitions", None, name)
        for plural in (CLASSES, STATUSES):
            await self.until(f"{plural}.{GROUP}", served=False)

    async def until(self, resource: str, *, served: bool) -> None:
        """Wait until a resource is served, or is no more."""
        for _ in range(1000):
            if await self._is_served(resource) is served:
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"{resource} served is not {served}")

    async def _is_served(self, resource: str) -> bool:
        try:
            await self._registry.list(resource, None)
        except (KeyError, NotFound):
            return False
        return True

    async def provider_class(
        self, name: str = "vault", annotations: Mapping[str, str] | None = None
    ) -> None:
        """Create a class."""
        metadata = {"name": name, "annotations": dict(annotations or {})}
        body = {"metadata": metadata, "spec": {"provider": "vault", "parameters": {"x": "y"}}}
        await self._registry.create(f"{CLASSES}.{GROUP}", self._namespace, body, manager="kubectl")

    async def delete_class(self, name: str = "vault") -> None:
        await self._registry.delete(f"{CLASSES}.{GROUP}", self._namespace, name)

    async def mount(self, pod: str, name: str = "vault", **versions: str) -> None:
        """Mount a class into a pod that exists."""
        owner = await self._registry.get("pods", self._namespace, pod)
        uid = owner["metadata"]["uid"]
        await self.write_status(
            {
                "metadata": {
                    "name": self._name(pod, name),
                    "labels": {"internal.secrets-store.csi.k8s.io/node-name": "local"},
                    "ownerReferences": [
                        {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid}
                    ],
                },
                "status": {
                    "mounted": True,
                    "objects": _objects(versions),
                    "podName": pod,
                    "secretProviderClassName": name,
                    "targetPath": f"/var/lib/kubelet/pods/{uid}/volumes/secrets/mount",
                },
            }
        )

    async def write_status(self, body: Object) -> None:
        await self._registry.create(
            f"{STATUSES}.{GROUP}", self._namespace, body, manager="secrets-store-csi"
        )

    async def update(self, pod: str, name: str = "vault", **versions: str) -> None:
        """Write other versions into a pod's volume (rotation)."""

        def change(obj: Object) -> Object:
            return {**obj, "status": {**obj["status"], "objects": _objects(versions)}}

        await self.modify(pod, change, name)

    async def modify(self, pod: str, change: Any, name: str = "vault") -> None:
        """Change a status in any way."""
        await self._registry.modify(
            f"{STATUSES}.{GROUP}",
            self._namespace,
            self._name(pod, name),
            change,
            manager="secrets-store-csi",
        )

    async def end_pod(self, pod: str, name: str = "vault") -> None:
        """Delete a pod with its status, as garbage collection does."""
        with suppress(NotFound):
            await self._registry.delete("pods", self._namespace, pod, grace_period=0)
        await self._registry.delete(f"{STATUSES}.{GROUP}", self._namespace, self._name(pod, name))

    def _name(self, pod: str, name: str) -> str:
        return f"{pod}-{self._namespace}-{name}"


def _objects(versions: Mapping[str, str]) -> list[Object]:
    return [{"id": name, "version": version} for name, version in sorted(versions.items())]


@asynccontextmanager
async def playing_driver(registry: Registry, *, installed: bool = True) -> AsyncIterator[Driver]:
    """Serve custom resources in a registry, with the driver's kinds if it is installed."""
    custom = CustomResources(registry)
    await custom.load()
    running = asyncio.create_task(custom.run())
    driver = Driver(registry)
    try:
        if installed:
            await driver.install()
        yield driver
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
