"""Claims get volumes, and both end as Kubernetes' controllers end them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.local.controllers.plane import FakeNode, Object, Plane, control_plane

from hotmap.local.apiserver.bootstrap import create_system_namespaces
from hotmap.local.apiserver.plugins import AdmissionChain
from hotmap.local.apiserver.plugins.storage import StoragePlugin
from hotmap.local.apiserver.registry import Registry
from hotmap.local.controllers.run import Controllers
from hotmap.local.controllers.volumes.matching import find_matching_volume, mismatch
from hotmap.local.store import MVCCStore

if TYPE_CHECKING:
    from pathlib import Path

CLAIMS, VOLUMES = "persistentvolumeclaims", "persistentvolumes"


def volume(name: str, size: str = "1Gi", *modes: str, **spec: Any) -> Object:
    return {
        "metadata": {"name": name, "labels": {"name": name}},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": list(modes or ("ReadWriteOnce",)),
            "hostPath": {"path": f"/{name}"},
            **spec,
        },
        "status": {"phase": "Available"},
    }


def claim(name: str = "data", size: str = "1Gi", *modes: str, **spec: Any) -> Object:
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-of-{name}"},
        "spec": {
            "accessModes": list(modes or ("ReadWriteOnce",)),
            "resources": {"requests": {"storage": size}},
            **spec,
        },
    }


def _reserved(name: str, **reference: str) -> Object:
    return {"claimRef": {"namespace": "default", "name": name, **reference}}


_ON_OTHER_NODE = {
    "nodeAffinity": {
        "required": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}
            ]
        }
    }
}


@pytest.mark.parametrize(
    ("wanted", "volumes", "found"),
    [
        pytest.param(claim(), [volume("a", "5Gi"), volume("b", "2Gi")], "b", id="smallest"),
        pytest.param(claim(size="3Gi"), [volume("a", "2Gi")], None, id="too small"),
        pytest.param(
            claim(),
            [volume("a", "1Gi", "ReadWriteOnce", "ReadOnlyMany"), volume("b", "2Gi")],
            "b",
            id="fewer modes before size",
        ),
        pytest.param(claim("c", "1Gi", "ReadWriteMany"), [volume("a")], None, id="mode"),
        pytest.param(claim(storageClassName="x"), [volume("a")], None, id="class"),
        pytest.param(
            claim(storageClassName="x"), [volume("a", storageClassName="x")], "a", id="same class"
        ),
        pytest.param(
            claim(selector={"matchLabels": {"name": "b"}}),
            [volume("a"), volume("b")],
            "b",
            id="selector",
        ),
        pytest.param(
            claim(),
            [volume("a"), volume("b", "9Gi", storageClassName="x", **_reserved("data"))],
            "b",
            id="reserved by name, whatever its class",
        ),
        pytest.param(claim(), [volume("a", **_reserved("other"))], None, id="reserved for another"),
        pytest.param(
            claim(), [volume("a", **_reserved("data", uid="old"))], None, id="claim of old"
        ),
        pytest.param(claim(), [volume("a", volumeMode="Block")], None, id="block"),
    ],
)
def test_claim_gets_the_volume_that_fits_best(
    wanted: Object, volumes: list[Object], found: str | None
) -> None:
    """The rules of Kubernetes' index of volumes."""
    best = find_matching_volume(wanted, volumes)
    assert (best and best["metadata"]["name"]) == found


def test_delayed_claim_gets_a_volume_of_its_node_only() -> None:
    """Without a node it gets a reserved one only."""
    node = {"metadata": {"name": "n", "labels": {"zone": "a"}}}
    volumes = [volume("a", "1Gi", **_ON_OTHER_NODE), volume("b", "2Gi")]
    assert find_matching_volume(claim(), volumes, delayed=True) is None
    best = find_matching_volume(claim(), volumes, delayed=True, node=node)
    assert best is not None
    assert best["metadata"]["name"] == "b"


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        (claim(), ""),
        (claim(size="2Gi"), "requested PV is too small"),
        (claim(storageClassName="x"), "storageClassName does not match"),
        (claim(volumeMode="Block"), "incompatible volumeMode"),
        (claim("c", "1Gi", "ReadWriteMany"), "incompatible accessMode"),
    ],
)
def test_reason_for_which_a_named_volume_is_refused(wanted: Object, problem: str) -> None:
    """In upstream's words."""
    assert mismatch(volume("a"), wanted) == problem


async def _until_phase(plane: Plane, plural: str, name: str, phase: str) -> Object:
    async def check() -> Object | None:
        namespace = "default" if plural == CLAIMS else None
        found = await plane.registry.get(plural, namespace, name)
        return found if (found.get("status") or {}).get("phase") == phase else None

    found: Object = await plane.until(check, what=f"{name} to be {phase}")
    return found


def _pod(name: str, *claims: str) -> Object:
    volumes = [
        {"name": f"v{number}", "persistentVolumeClaim": {"claimName": each}}
        for number, each in enumerate(claims)
    ]
    containers = [{"name": "main", "image": "host", "command": ["true"]}]
    return {"metadata": {"name": name}, "spec": {"containers": containers, "volumes": volumes}}


async def test_claim_and_volume_are_bound_released_and_lost() -> None:
    """Both sides name each other, and follow each other's end."""
    async with control_plane() as plane:
        await plane.create(VOLUMES, volume("disk", "5Gi"), None)
        await _until_phase(plane, VOLUMES, "disk", "Available")
        await plane.create(CLAIMS, claim())
        bound = await _until_phase(plane, CLAIMS, "data", "Bound")
        assert bound["spec"]["volumeName"] == "disk"
        assert bound["status"]["capacity"] == {"storage": "5Gi"}
        held = await _until_phase(plane, VOLUMES, "disk", "Bound")
        assert held["spec"]["claimRef"]["uid"] == bound["metadata"]["uid"]
        await plane.registry.delete(CLAIMS, "default", "data")
        await _until_phase(plane, VOLUMES, "disk", "Released")

        await plane.create(VOLUMES, volume("second", "1Gi"), None)
        await plane.create(CLAIMS, claim("other"))
        await _until_phase(plane, CLAIMS, "other", "Bound")

        def forget(obj: Object) -> Object:
            obj["metadata"].pop("finalizers", None)
            return obj

        await plane.registry.delete(VOLUMES, None, "second")
        await plane.registry.modify(VOLUMES, None, "second", forget, manager="test")
        await _until_phase(plane, CLAIMS, "other", "Lost")
        lost = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"

        async def told() -> bool:
            return lost in await plane.messages("ClaimLost")

        await plane.until(told)


async def test_claim_says_why_it_is_not_bound() -> None:
    """By the Events of Kubernetes' controller."""
    async with control_plane() as plane:
        await plane.create(CLAIMS, claim("none"))
        await plane.create(CLAIMS, claim("absent", storageClassName="absent"))
        await plane.create(VOLUMES, volume("small"), None)
        await plane.create(CLAIMS, claim("named", "3Gi", volumeName="small"))
        expected = {
            "FailedBinding": "no persistent volumes available for this claim and no storage class "
            "is set",
            "ProvisioningFailed": 'storageclass.storage.k8s.io "absent" not found',
            "VolumeMismatch": 'Cannot bind to requested volume "small": requested PV is too small',
        }
        for reason, text in expected.items():

            async def told(reason: str = reason, text: str = text) -> bool:
                return text in await plane.messages(reason)

            await plane.until(told, what=reason)


async def test_volume_that_cannot_be_deleted_fails() -> None:
    """The files of a volume that no provisioner made are left alone."""
    async with control_plane() as plane:
        reclaimed = volume("disk", persistentVolumeReclaimPolicy="Delete")
        await plane.create(VOLUMES, reclaimed, None)
        await plane.create(CLAIMS, claim())
        await _until_phase(plane, CLAIMS, "data", "Bound")
        await plane.registry.delete(CLAIMS, "default", "data")
        failed = await _until_phase(plane, VOLUMES, "disk", "Failed")
        text = "host_path deleter only supports /tmp/.+ but received provided /disk"
        assert failed["status"]["message"] == text


async def test_used_objects_outlive_their_deletion() -> None:
    """A claim until its last pod is gone, a volume until it is released."""
    async with control_plane() as plane:
        await plane.create(VOLUMES, volume("disk"), None)
        await plane.create(CLAIMS, claim())
        await _until_phase(plane, CLAIMS, "data", "Bound")
        await plane.create("pods", _pod("user", "data"))

        async def scheduled() -> bool:
            return bool((await plane.items("pods"))[0]["spec"].get("nodeName"))

        await plane.until(scheduled)
        for plural, namespace, name in ((CLAIMS, "default", "data"), (VOLUMES, None, "disk")):
            left = await plane.registry.delete(plural, namespace, name)
            assert left["metadata"]["finalizers"][0].endswith("-protection")
        await plane.registry.delete("pods", "default", "user")

        async def gone() -> bool:
            return not await plane.items(CLAIMS) and not await plane.items(VOLUMES, None)

        await plane.until(gone)


async def test_claim_waits_for_a_consumer_and_gets_a_directory(tmp_path: Path) -> None:
    """Of the default class; the directory goes with the claim."""
    registry = Registry(MVCCStore())
    await create_system_namespaces(registry)
    chain = AdmissionChain([StoragePlugin(registry.store, registry.reader)])
    registry.writer.plugins = chain
    plane = Plane(registry, FakeNode(registry, lambda: 1_800_000_000.0))
    directory = tmp_path / "volumes"
    async with Controllers(registry, volumes=directory):
        await plane.node.register()

        async def has_class() -> bool:
            return await plane.names("storageclasses", None) == {"local-path"}

        await plane.until(has_class)
        made = await plane.create(CLAIMS, claim())
        assert made["spec"]["storageClassName"] == "local-path"
        assert made["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]

        async def waits() -> bool:
            return bool(await plane.messages("WaitForFirstConsumer"))

        await plane.until(waits)
        assert not await plane.items(VOLUMES, None)
        await plane.create("pods", _pod("user", "data"))
        bound = await _until_phase(plane, CLAIMS, "data", "Bound")
        uid = bound["metadata"]["uid"]
        assert bound["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] == "local"
        assert [path.name for path in directory.iterdir()] == [f"pvc-{uid}_default_data"]

        async def provided() -> bool:
            texts = await plane.messages("ProvisioningSucceeded")
            return texts == [f"Successfully provisioned volume pvc-{uid}"]

        await plane.until(provided)
        await plane.registry.delete("pods", "default", "user", grace_period=0)
        await plane.registry.delete(CLAIMS, "default", "data")

        async def gone() -> bool:
            return not await plane.items(VOLUMES, None)

        await plane.until(gone)
        assert list(directory.iterdir()) == []


async def test_only_the_own_directory_of_a_volume_is_removed(tmp_path: Path) -> None:
    """A volume that names the directory of another claim goes, the directory stays."""
    registry = Registry(MVCCStore())
    await create_system_namespaces(registry)
    plane = Plane(registry, FakeNode(registry, lambda: 1_800_000_000.0))
    other = tmp_path / "pvc-1_default_data"
    other.mkdir()
    async with Controllers(registry, volumes=tmp_path):
        forged = volume(
            "forged",
            hostPath={"path": str(other)},
            persistentVolumeReclaimPolicy="Delete",
            **_reserved("gone", uid="1"),
        )
        provisioner = {"pv.kubernetes.io/provisioned-by": "rancher.io/local-path"}
        forged["metadata"]["annotations"] = provisioner
        await plane.create(VOLUMES, forged, None)

        async def gone() -> bool:
            return not await plane.items(VOLUMES, None)

        await plane.until(gone)
        assert other.is_dir()


async def test_directory_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    """Here its name is too long; the claim stays Pending and says why."""
    registry = Registry(MVCCStore())
    await create_system_namespaces(registry)
    plane = Plane(registry, FakeNode(registry, lambda: 1_800_000_000.0))
    async with Controllers(registry, volumes=tmp_path):
        await plane.node.register()
        name = "a" * 250
        await plane.create(CLAIMS, claim(name, storageClassName="local-path"))
        await plane.create("pods", _pod("user", name))

        async def told() -> list[str]:
            return await plane.messages("ProvisioningFailed")

        [text] = await plane.until(told)
        assert text.startswith('failed to provision volume with StorageClass "local-path": ')
        assert text.endswith("File name too long")
        assert not await plane.items(VOLUMES, None)


async def test_volume_whose_reference_names_no_claim_is_released() -> None:
    """A uid alone finds nothing."""
    async with control_plane() as plane:
        await plane.create(VOLUMES, volume("odd", claimRef={"uid": "1"}), None)
        await _until_phase(plane, VOLUMES, "odd", "Released")


async def test_ephemeral_volume_gets_a_claim_of_its_pod() -> None:
    """It is the pod's, and goes with it."""
    async with control_plane() as plane:
        pod = _pod("user")
        template = {"metadata": {"labels": {"a": "b"}}, "spec": claim()["spec"]}
        ephemeral = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}
        pod["spec"]["volumes"] = [ephemeral]
        owner = await plane.create("pods", pod)

        async def made() -> Object | None:
            found = await plane.items(CLAIMS)
            return found[0] if found else None

        found = await plane.until(made)
        assert found["metadata"]["name"] == "user-scratch"
        assert found["metadata"]["labels"] == {"a": "b"}
        assert found["metadata"]["ownerReferences"][0]["uid"] == owner["metadata"]["uid"]
