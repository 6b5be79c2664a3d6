"""What an API server makes by itself when it starts on an empty store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hotmap.core.errors import AlreadyExists

if TYPE_CHECKING:
    from hotmap.local.apiserver.registry import Registry

# kubernetes: pkg/controlplane/controller/systemnamespaces
SYSTEM_NAMESPACES = ("kube-system", "kube-public", "kube-node-lease", "default")


async def create_bootstrap_roles(registry: Registry) -> None:
    """Create the roles that people and charts bind, where they are missing.

    plugin/pkg/auth/authorizer/rbac/bootstrappolicy; of the roles of single components only those
    that common add-ons use.
    """
    text = (Path(__file__).parent / "bootstrap_rbac.json").read_bytes()
    for obj in msgspec.json.decode(text, type=list[dict[str, Any]]):
        resource = f"{obj['kind'].lower()}s"
        try:
            await registry.create(resource, None, obj, manager="kube-apiserver")
        except AlreadyExists:
            continue


async def create_system_namespaces(registry: Registry) -> None:
    """Create the namespaces that every cluster has, where they are missing."""
    for name in SYSTEM_NAMESPACES:
        try:
            await registry.create(
                "namespaces", None, {"metadata": {"name": name}}, manager="kube-apiserver"
            )
        except AlreadyExists:
            continue
