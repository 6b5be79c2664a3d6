"""What an API server makes by itself when it starts on an empty store."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hotmap.core.errors import AlreadyExists
from hotmap.local.apiserver.encoding import encode
from hotmap.local.apiserver.kinds.core.componentstatus import COMPONENTS, component_status

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


def create_component_statuses(registry: Registry) -> None:
    """Store the read-only statuses of the parts of the plane."""
    kind = registry.scheme.resource("componentstatuses")
    for name in COMPONENTS:
        key = f"{kind.prefix(None)}{name}"
        if registry.store.get(key) is None:
            registry.store.create(key, encode(component_status(name)))


async def create_priority_classes(registry: Registry) -> None:
    """Create the classes of pods that a cluster cannot do without (pkg/apis/scheduling/v1)."""
    for name, value, text in (
        (
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
        (
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to "
            "another node if necessary.",
        ),
    ):
        with contextlib.suppress(AlreadyExists):
            await registry.create(
                "priorityclasses",
                None,
                {"metadata": {"name": name}, "value": value, "description": text},
                manager="kube-apiserver",
            )


async def create_system_namespaces(registry: Registry) -> None:
    """Create the namespaces that every cluster has, where they are missing."""
    for name in SYSTEM_NAMESPACES:
        try:
            await registry.create(
                "namespaces", None, {"metadata": {"name": name}}, manager="kube-apiserver"
            )
        except AlreadyExists:
            continue
