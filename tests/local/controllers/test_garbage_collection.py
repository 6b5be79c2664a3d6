"""What becomes of objects whose owners go: the three ways, and owners that never were."""

from __future__ import annotations

import asyncio

from tests.local.controllers.plane import Object, Plane, control_plane, web


def _reference(owner: Object, *, block: bool = False) -> Object:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": block,
    }


async def _configmap(plane: Plane, name: str, *owners: Object, **metadata: object) -> Object:
    obj = {"metadata": {"name": name, "ownerReferences": list(owners), **metadata}}
    return await plane.create("configmaps", obj)


async def _left(plane: Plane, *names: str) -> None:
    async def check() -> bool:
        return await plane.names("configmaps") == set(names)

    await plane.until(check, what=f"exactly {names} to be left")


async def test_background_deletion_cascades_through_dependents() -> None:
    """Dependents of dependents go too, when the owner is already gone."""
    async with control_plane() as plane:
        a = await _configmap(plane, "a")
        b = await _configmap(plane, "b", _reference(a))
        await _configmap(plane, "c", _reference(b))
        await _configmap(plane, "other")
        await plane.registry.delete("configmaps", "default", "a")
        await _left(plane, "other")


async def test_foreground_deletion_waits_for_blocking_dependents() -> None:
    """An owner stays while a blocking dependent stays, here one with a finalizer of its own."""
    async with control_plane() as plane:
        a = await _configmap(plane, "a")
        await _configmap(plane, "b", _reference(a, block=True), finalizers=["example.com/hold"])
        await _configmap(plane, "c", _reference(a))
        await plane.registry.delete("configmaps", "default", "a", propagation="Foreground")
        await _left(plane, "a", "b")
        held = await plane.registry.get("configmaps", "default", "b")
        assert "deletionTimestamp" in held["metadata"]
        await plane.patch("configmaps", "b", {"metadata": {"finalizers": None}})
        await _left(plane)


async def test_circle_of_owners_is_deleted() -> None:
    """Each waits for the next, so one of them lets its owner go."""
    async with control_plane() as plane:
        names = ("a", "b", "c")
        objects = {name: await _configmap(plane, name) for name in names}
        for name, owner in zip(names, ("c", "a", "b"), strict=True):
            references = [_reference(objects[owner], block=True)]
            await plane.patch("configmaps", name, {"metadata": {"ownerReferences": references}})
        await _configmap(plane, "other")
        await plane.registry.delete("configmaps", "default", "a", propagation="Foreground")
        await _left(plane, "other")


async def test_orphan_deletion_removes_owner_references() -> None:
    """The owner goes, its dependents stay and no longer name it."""
    async with control_plane() as plane:
        a = await _configmap(plane, "a")
        await _configmap(plane, "b", _reference(a))
        await plane.registry.delete("configmaps", "default", "a", propagation="Orphan")
        await _left(plane, "b")
        orphan = await plane.registry.get("configmaps", "default", "b")
        assert not orphan["metadata"].get("ownerReferences")


async def test_dependent_with_one_existing_owner_is_kept() -> None:
    """With two owners an object stays, without the reference to the one that went."""
    async with control_plane() as plane:
        a, b = await _configmap(plane, "a"), await _configmap(plane, "b")
        await _configmap(plane, "c", _reference(a), _reference(b))
        await plane.registry.delete("configmaps", "default", "a")

        async def owners() -> list[str]:
            obj = await plane.registry.get("configmaps", "default", "c")
            return [owner["name"] for owner in obj["metadata"]["ownerReferences"]]

        async def only_b() -> bool:
            return await owners() == ["b"]

        await plane.until(only_b)
        await plane.registry.delete("configmaps", "default", "b")
        await _left(plane)


async def test_owner_with_same_name_and_other_uid_is_absent() -> None:
    """References count by uid: one to an object that was recreated, or never was, dangles."""
    async with control_plane() as plane:
        a = await _configmap(plane, "a")
        reference = _reference(a) | {"uid": "of an earlier one"}
        await _configmap(plane, "b", reference)
        await _left(plane, "a")


async def test_owner_of_unserved_kind_counts_as_existing() -> None:
    """What this plane does not serve it cannot look up, so it deletes nothing for it."""
    async with control_plane() as plane:
        foreign = {"apiVersion": "example.com/v1", "kind": "App", "name": "x", "uid": "x"}
        await _configmap(plane, "a", foreign)
        b = await _configmap(plane, "b")
        await _configmap(plane, "c", _reference(b))
        await plane.registry.delete("configmaps", "default", "b")
        await _left(plane, "a")


async def test_owner_in_other_namespace_is_absent() -> None:
    """A namespaced owner lives in its dependent's namespace, or is none."""
    async with control_plane() as plane:
        owner = await plane.create(
            "configmaps", {"metadata": {"name": "a"}}, namespace="kube-system"
        )
        await _configmap(plane, "b", _reference(owner))
        await _left(plane)


async def test_cluster_scoped_owner_exists_for_all_namespaces() -> None:
    """A node may own what lies in a namespace."""
    async with control_plane() as plane:
        node = await plane.registry.get("nodes", None, "local")
        await _configmap(plane, "a", _reference(node))
        await asyncio.sleep(0.05)  # time for a wrong deletion
        assert await plane.names("configmaps") == {"a"}
        await plane.registry.delete("nodes", None, "local")
        await _left(plane)


async def test_deployment_deletion_deletes_pods() -> None:
    """Deployment, ReplicaSet, pods: nothing is left, in the background and in the foreground."""
    async with control_plane() as plane:
        for propagation in ("Background", "Foreground"):
            await plane.create("deployments", web(3))
            await plane.wait_until_complete()
            await plane.registry.delete("deployments", "default", "web", propagation=propagation)

            async def nothing_left() -> bool:
                kinds = ("deployments", "replicasets", "pods")
                return not any([await plane.items(plural) for plural in kinds])

            await plane.until(nothing_left, what=f"everything to go in the {propagation}")
