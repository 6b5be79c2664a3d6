"""Namespaces: what they come with, and how they go."""

from __future__ import annotations

import pytest
from tests.local.controllers.plane import Plane, control_plane, web

from hotmap.core.errors import Forbidden


async def _create_namespace(plane: Plane, name: str = "team") -> None:
    await plane.create("namespaces", {"metadata": {"name": name}}, namespace=None)


async def _furnished(plane: Plane, name: str = "team") -> None:
    async def check() -> bool:
        accounts = await plane.names("serviceaccounts", name)
        return "default" in accounts and "kube-root-ca.crt" in await plane.names("configmaps", name)

    await plane.until(check, what=f"{name} to be furnished")


async def test_namespace_gets_service_account_and_root_ca() -> None:
    """The namespaces that were there at the start get them as well as new ones."""
    async with control_plane(root_ca="PEM") as plane:
        await _create_namespace(plane)
        for name in ("default", "kube-system", "team"):
            await _furnished(plane, name)
        published = await plane.registry.get("configmaps", "team", "kube-root-ca.crt")
        assert published["data"] == {"ca.crt": "PEM"}
        assert "kubernetes.io/description" in published["metadata"]["annotations"]


async def test_service_account_and_root_ca_are_restored() -> None:
    """A deleted account or ConfigMap comes back, an edited root CA is restored."""
    async with control_plane(root_ca="PEM") as plane:
        await _furnished(plane, "default")
        await plane.registry.delete("serviceaccounts", "default", "default")
        await plane.patch("configmaps", "kube-root-ca.crt", {"data": {"ca.crt": "forged"}})

        async def restored() -> bool:
            published = await plane.registry.get("configmaps", "default", "kube-root-ca.crt")
            accounts = await plane.names("serviceaccounts")
            return published["data"] == {"ca.crt": "PEM"} and "default" in accounts

        await plane.until(restored)


async def test_root_ca_is_not_published_without_one() -> None:
    """A plane that has no CA shows none; the account comes all the same."""
    async with control_plane() as plane:
        await _create_namespace(plane)

        async def has_account() -> bool:
            return await plane.names("serviceaccounts", "team") == {"default"}

        await plane.until(has_account)
        assert await plane.names("configmaps", "team") == set()


async def test_namespace_deletion_deletes_content() -> None:
    """Workloads, pods, furniture and Events go, then the namespace itself."""
    async with control_plane(root_ca="PEM") as plane:
        await _create_namespace(plane)
        await _furnished(plane)
        await plane.create("deployments", web(2), namespace="team")

        async def has_pods() -> bool:
            pods = await plane.items("pods", "team")
            return len(pods) == 2 and all(pod["spec"].get("nodeName") for pod in pods)

        await plane.until(has_pods)
        await plane.registry.delete("namespaces", None, "team")

        async def gone() -> bool:
            return "team" not in await plane.names("namespaces", None)

        await plane.until(gone, what="the namespace to go")
        for plural in ("deployments", "replicasets", "pods", "configmaps", "events"):
            assert await plane.items(plural, "team") == []
        await _furnished(plane, "default")


async def test_namespace_deletion_waits_for_finalizers() -> None:
    """A pod in its grace period or an object with a finalizer holds the namespace."""
    async with control_plane() as plane:
        await _create_namespace(plane)
        held = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
        await plane.create("configmaps", held, namespace="team")
        await plane.create("configmaps", {"metadata": {"name": "free"}}, namespace="team")
        await plane.registry.delete("namespaces", None, "team")

        async def only_the_held_one_is_left() -> bool:
            return await plane.names("configmaps", "team") == {"held"}

        await plane.until(only_the_held_one_is_left)
        namespace = await plane.registry.get("namespaces", None, "team")
        assert namespace["status"]["phase"] == "Terminating"

        async def reasons() -> dict[str, str]:
            namespace = await plane.registry.get("namespaces", None, "team")
            conditions = namespace["status"].get("conditions") or ()
            return {c["type"]: c["message"] for c in conditions if c["status"] == "True"}

        assert await plane.until(reasons) == {
            "NamespaceContentRemaining": (
                "Some resources are remaining: configmaps. has 1 resource instances"
            ),
            "NamespaceFinalizersRemaining": (
                "Some content in the namespace has finalizers remaining: example.com/hold in 1 "
                "resource instances"
            ),
        }
        with pytest.raises(Forbidden, match="because it is being terminated"):
            await plane.create("configmaps", {"metadata": {"name": "new"}}, namespace="team")
        await plane.registry.modify(
            "configmaps",
            "team",
            "held",
            lambda obj: {**obj, "metadata": {**obj["metadata"], "finalizers": []}},
            manager="test",
        )

        async def gone() -> bool:
            return "team" not in await plane.names("namespaces", None)

        await plane.until(gone, what="the namespace to go")


async def test_pods_of_a_namespace_go_first() -> None:
    """What they may need to stop is deleted when they are gone."""
    async with control_plane() as plane:
        await _create_namespace(plane)
        pod = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
        container = {"name": "main", "image": "host", "command": ["true"]}
        await plane.create("pods", {**pod, "spec": {"containers": [container]}}, "team")
        await plane.create("configmaps", {"metadata": {"name": "needed"}}, namespace="team")
        await plane.registry.delete("namespaces", None, "team")

        async def is_described() -> bool:
            namespace = await plane.registry.get("namespaces", None, "team")
            return bool(namespace["status"].get("conditions"))

        await plane.until(is_described)
        assert "needed" in await plane.names("configmaps", "team")
        await plane.registry.modify(
            "pods",
            "team",
            "held",
            lambda obj: {**obj, "metadata": {**obj["metadata"], "finalizers": []}},
            manager="test",
        )

        async def gone() -> bool:
            return "team" not in await plane.names("namespaces", None)

        await plane.until(gone, what="the namespace to go")
