"""What an API server makes by itself when it starts on an empty store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotmap.core.errors import AlreadyExists

if TYPE_CHECKING:
    from hotmap.local.apiserver.registry import Registry

# kubernetes: pkg/controlplane/controller/systemnamespaces
SYSTEM_NAMESPACES = ("kube-system", "kube-public", "kube-node-lease", "default")


async def create_system_namespaces(registry: Registry) -> None:
    """Create the namespaces that every cluster has, where they are missing."""
    for name in SYSTEM_NAMESPACES:
        try:
            await registry.create(
                "namespaces", None, {"metadata": {"name": name}}, manager="kube-apiserver"
            )
        except AlreadyExists:
            continue
