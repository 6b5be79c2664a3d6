"""StatefulSets on the real Registry: pods with names of their own, one after another."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from tests.local.controllers.plane import Object, Plane, control_plane, template_change

from hotmap.core.errors import Forbidden

CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


def _stateful_set(replicas: int = 3, **spec: Any) -> Object:
    return {
        "metadata": {"name": "db"},
        "spec": {
            "replicas": replicas,
            "serviceName": "peers",
            "selector": {"matchLabels": {"app": "db"}},
            "template": {
                "metadata": {"labels": {"app": "db"}},
                "spec": {"containers": [{"name": "main", "image": "host", "command": ["true"]}]},
            },
            **spec,
        },
    }


async def _rolled_out(plane: Plane, replicas: int) -> Object:
    counts = ("replicas", "availableReplicas", "currentReplicas", "updatedReplicas")
    found = await plane.until_status("statefulsets", "db", **dict.fromkeys(counts, replicas))
    assert found["status"]["currentRevision"] == found["status"]["updateRevision"]
    return found


async def _versions(plane: Plane) -> dict[str, str]:
    """The annotation `version` of each pod."""
    return {
        pod["metadata"]["name"]: (pod["metadata"].get("annotations") or {}).get("version", "")
        for pod in await plane.items("pods")
    }


async def _numbers(plane: Plane) -> list[int]:
    return sorted(found["revision"] for found in await plane.items("controllerrevisions"))


async def test_rollout_goes_down_and_undo_uses_the_earlier_revision() -> None:
    async with control_plane() as plane:
        await plane.create("statefulsets", _stateful_set())
        first = (await _rolled_out(plane, 3))["status"]
        assert first["collisionCount"] == 0
        assert await plane.messages("SuccessfulCreate") == [
            f"Create Pod db-{ordinal} in StatefulSet db successful" for ordinal in (0, 1, 2)
        ]
        await plane.patch("statefulsets", "db", template_change("2"))
        await _rolled_out(plane, 3)
        assert await plane.messages("SuccessfulDelete") == [
            f"Delete Pod db-{ordinal} in StatefulSet db successful" for ordinal in (2, 1, 0)
        ]
        assert await _versions(plane) == dict.fromkeys(("db-0", "db-1", "db-2"), "2")
        assert await _numbers(plane) == [1, 2]
        await plane.patch("statefulsets", "db", template_change("3"))
        await _rolled_out(plane, 3)
        # What kubectl rollout undo --to-revision=1 sends.
        name = first["updateRevision"]
        earlier = await plane.registry.get("controllerrevisions", "default", name)
        await plane.registry.patch(
            "statefulsets", "default", "db", earlier["data"], kind="strategic", manager="kubectl"
        )
        undone = await _rolled_out(plane, 3)
        assert undone["status"]["updateRevision"] == name
        assert await _versions(plane) == dict.fromkeys(("db-0", "db-1", "db-2"), "")
        assert await _numbers(plane) == [2, 3, 4]
        await plane.patch("statefulsets", "db", {"spec": {"revisionHistoryLimit": 1}})
        await plane.until(lambda: _has_numbers(plane, [3, 4]))


async def _has_numbers(plane: Plane, numbers: list[int]) -> bool:
    return await _numbers(plane) == numbers


async def test_reverted_template_does_not_replace_a_pod_that_is_not_ready() -> None:
    """As on Kubernetes: only its deletion by hand does (kubernetes issue 67250)."""
    async with control_plane() as plane:
        await plane.create("statefulsets", _stateful_set(2))
        good = (await _rolled_out(plane, 2))["status"]["currentRevision"]
        plane.node.becomes_ready = lambda pod: "bad" not in str(pod["metadata"].get("annotations"))
        await plane.patch("statefulsets", "db", template_change("bad"))
        await plane.until_status("statefulsets", "db", updatedReplicas=1, readyReplicas=1)
        revert = {"spec": {"template": {"metadata": {"annotations": None}}}}
        await plane.patch("statefulsets", "db", revert)
        status = (await plane.until_status("statefulsets", "db", updateRevision=good))["status"]
        assert (status["readyReplicas"], status["updatedReplicas"]) == (1, 1)
        assert await _versions(plane) == {"db-0": "", "db-1": "bad"}
        await plane.registry.delete("pods", "default", "db-1")
        await _rolled_out(plane, 2)
        assert await _versions(plane) == {"db-0": "", "db-1": ""}


async def test_scaling_to_zero_and_back_starts_at_the_first_ordinal() -> None:
    async with control_plane() as plane:
        await plane.create("statefulsets", _stateful_set(2, ordinals={"start": 5}))
        await _rolled_out(plane, 2)
        assert await plane.names("pods") == {"db-5", "db-6"}
        await plane.patch("statefulsets", "db", {"spec": {"replicas": 0}})
        await _rolled_out(plane, 0)
        await plane.patch("statefulsets", "db", {"spec": {"replicas": 1}})
        await _rolled_out(plane, 1)
        assert await plane.names("pods") == {"db-5"}


async def test_failed_pod_is_replaced_under_its_name() -> None:
    async with control_plane() as plane:
        await plane.create("statefulsets", _stateful_set(1))
        await _rolled_out(plane, 1)
        before = await plane.registry.get("pods", "default", "db-0")

        def evict(pod: Object) -> Object:
            return {**pod, "status": {**pod["status"], "phase": "Failed", "reason": "Evicted"}}

        await plane.registry.modify(
            "pods", "default", "db-0", evict, subresource="status", manager="kubelet"
        )

        async def replaced() -> bool:
            pods = await plane.items("pods")
            return bool(pods) and pods[0]["metadata"]["uid"] != before["metadata"]["uid"]

        await plane.until(replaced)
        await _rolled_out(plane, 1)
        assert len(await plane.messages("SuccessfulDelete")) == 1


async def test_refused_pod_is_reported_and_retried(monkeypatch: Any) -> None:
    async with control_plane() as plane:
        create, refuse = plane.registry.create, True

        async def refuse_pods(resource: str, *arguments: Any, **options: Any) -> Object:
            if resource == "pods" and refuse:
                raise Forbidden('pods "db-0" is forbidden: exceeded quota')
            return await create(resource, *arguments, **options)

        monkeypatch.setattr(plane.registry, "create", refuse_pods)
        await plane.create("statefulsets", _stateful_set(1))

        async def told() -> list[str]:
            return await plane.messages("FailedCreate")

        text = 'create Pod db-0 in StatefulSet db failed error: pods "db-0" is forbidden: '
        assert (await plane.until(told))[0].lower().startswith(text.lower())
        refuse = False
        await _rolled_out(plane, 1)


async def test_orphans_are_adopted_by_name_and_selector() -> None:
    """With `--cascade=orphan` pods and revisions stay, and the next set takes them over."""
    async with control_plane() as plane:
        await plane.create("statefulsets", _stateful_set(2))
        await _rolled_out(plane, 2)
        pods = {pod["metadata"]["uid"] for pod in await plane.items("pods")}
        await plane.registry.delete("statefulsets", "default", "db", propagation="Orphan")

        async def orphaned() -> bool:
            found = [*await plane.items("pods"), *await plane.items("controllerrevisions")]
            gone = not await plane.items("statefulsets")
            return gone and not any(obj["metadata"].get("ownerReferences") for obj in found)

        await plane.until(orphaned)
        stranger = {
            "metadata": {"name": "db-copy-of-web", "labels": {"app": "db"}},
            "spec": _stateful_set()["spec"]["template"]["spec"],
        }
        await plane.create("pods", stranger)
        await plane.create("statefulsets", _stateful_set(2))
        await _rolled_out(plane, 2)
        kept = {
            pod["metadata"]["uid"]
            for pod in await plane.items("pods")
            if pod["metadata"].get("ownerReferences")
        }
        assert kept == pods
        assert await _numbers(plane) == [1]


async def test_deletion_takes_pods_and_revisions_along() -> None:
    async with control_plane() as plane:
        await plane.create("statefulsets", _stateful_set(1))
        await _rolled_out(plane, 1)
        await plane.registry.delete("statefulsets", "default", "db", propagation="Foreground")

        async def gone() -> bool:
            kinds = ("statefulsets", "pods", "controllerrevisions")
            return not any([await plane.items(kind) for kind in kinds])

        await plane.until(gone)


async def test_claims_follow_the_retention_policy_and_pods_wait_for_them() -> None:
    policy = {"whenScaled": "Delete", "whenDeleted": "Retain"}
    owner = _stateful_set(
        2,
        podManagementPolicy="Parallel",
        volumeClaimTemplates=[CLAIM],
        persistentVolumeClaimRetentionPolicy=policy,
    )
    owner["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = [
        {"name": "data", "mountPath": "/data"}
    ]
    async with control_plane() as plane:
        await plane.create("statefulsets", owner)

        async def told() -> set[str]:
            texts = set(await plane.messages("FailedScheduling"))
            return texts if len(await plane.items("pods")) == 2 else set()

        assert await plane.until(told) == {
            "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found"
        }
        assert await plane.names("persistentvolumeclaims") == {"data-db-0", "data-db-1"}
        await plane.patch("statefulsets", "db", {"spec": {"replicas": 1}})

        async def scaled() -> bool:
            return await plane.names("persistentvolumeclaims") == {"data-db-0"}

        await plane.until(scaled)
        disk = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
        disk = {**disk, "hostPath": {"path": "/x"}}
        await plane.create("persistentvolumes", {"metadata": {"name": "x"}, "spec": disk}, None)
        await _rolled_out(plane, 1)
        assert "Create Claim data-db-0 Pod db-0 in StatefulSet db success" in await plane.messages(
            "SuccessfulCreate"
        )


async def test_name_of_a_revision_that_is_taken_is_avoided() -> None:
    async with control_plane() as plane:
        await plane.create("statefulsets", _stateful_set(1))
        first = await _rolled_out(plane, 1)
        name = first["status"]["updateRevision"]
        await plane.registry.delete("statefulsets", "default", "db", propagation="Foreground")

        async def gone() -> bool:
            kinds = ("controllerrevisions", "statefulsets")
            return not any([await plane.items(kind) for kind in kinds])

        await plane.until(gone)
        taken = {"metadata": {"name": name}, "data": {}, "revision": 1}
        await plane.create("controllerrevisions", taken)
        await plane.create("statefulsets", _stateful_set(1))
        status = (await _rolled_out(plane, 1))["status"]
        assert status["collisionCount"] == 1
        assert status["updateRevision"] != name


async def test_min_ready_seconds_delay_the_next_pod() -> None:
    """On a clock that stands still until the test moves it."""
    now = time.time()
    async with control_plane(clock=lambda: now) as plane:
        await plane.create("statefulsets", _stateful_set(2, minReadySeconds=3600))
        await plane.until_status("statefulsets", "db", readyReplicas=1, availableReplicas=0)
        assert await plane.names("pods") == {"db-0"}
        now += 7200
        await plane.patch("statefulsets", "db", {"metadata": {"labels": {"look": "again"}}})
        await plane.until_status("statefulsets", "db", readyReplicas=2, availableReplicas=1)


async def test_settled_set_causes_no_writes() -> None:
    async with control_plane() as plane:
        await plane.create("statefulsets", _stateful_set(2))
        await _rolled_out(plane, 2)
        async with asyncio.timeout(60):
            seen = -1
            while seen != plane.registry.store.revision:
                seen = plane.registry.store.revision
                await asyncio.sleep(0.3)
        # A sync that finds nothing to do writes nothing but what the test writes.
        await plane.patch("statefulsets", "db", {"metadata": {"labels": {"a": "b"}}})
        await asyncio.sleep(0.3)
        assert plane.registry.store.revision == seen + 1
