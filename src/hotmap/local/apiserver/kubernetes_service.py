"""The Service `kubernetes`, by which pods reach the API server.

kubernetes: pkg/controlplane/controller/kubernetesservice.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any, Final

from hotmap.core.errors import ApiError, NotFound

if TYPE_CHECKING:
    from hotmap.local.apiserver.registry import Registry

__all__ = ["KubernetesService"]

_NAMESPACE, _NAME = "default", "kubernetes"

_log = logging.getLogger(__name__)

#: Seconds between two checks of whether it was deleted (DefaultEndpointReconcilerInterval).
_INTERVAL: Final = 10.0


class KubernetesService:
    """Publishes the API server's address, and recreates its objects when they are deleted."""

    def __init__(self, registry: Registry, address: str, port: int) -> None:
        """`port` is the server's own, which listens at the Service's address itself."""
        self._registry = registry
        self._objects = _objects(address, port)

    async def publish(self) -> None:
        """Recreate the Service and its endpoints."""
        for resource, obj in self._objects:
            # That of an earlier run may have another address, which cannot be changed.
            with contextlib.suppress(NotFound):
                await self._registry.delete(resource, _NAMESPACE, _NAME)
            await self._create(resource, obj)

    async def run(self) -> None:
        """Recreate what was deleted, until cancelled."""
        while True:
            await asyncio.sleep(_INTERVAL)
            for resource, obj in self._objects:
                try:
                    await self._create_missing(resource, obj)
                except ApiError as error:  # such as of a webhook
                    _log.debug("%s %s: %s; retrying", resource, _NAME, error)
                except Exception:  # a failed task would end the whole plane
                    _log.exception("%s %s: internal error; retrying", resource, _NAME)

    async def _create_missing(self, resource: str, obj: dict[str, Any]) -> None:
        try:
            await self._registry.get(resource, _NAMESPACE, _NAME)
        except NotFound:
            await self._create(resource, obj)

    async def _create(self, resource: str, obj: dict[str, Any]) -> None:
        await self._registry.create(resource, _NAMESPACE, obj, manager="kube-apiserver")


def _objects(address: str, port: int) -> list[tuple[str, dict[str, Any]]]:
    """Return the Service and its endpoints, each with the name of its resource."""
    port_named = {"name": "https", "port": port, "protocol": "TCP"}
    service = {
        "metadata": {
            "name": _NAME,
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "type": "ClusterIP",
            "clusterIP": address,
            "ports": [{**port_named, "targetPort": port}],
        },
    }
    endpoints = {
        "metadata": {
            "name": _NAME,
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
        },
        "subsets": [{"addresses": [{"ip": address}], "ports": [port_named]}],
    }
    part = {
        "metadata": {"name": _NAME, "labels": {"kubernetes.io/service-name": _NAME}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [port_named],
    }
    return [("services", service), ("endpoints", endpoints), ("endpointslices", part)]
