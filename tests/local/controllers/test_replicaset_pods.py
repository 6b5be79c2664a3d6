"""ReplicaSets on the real Registry: as many pods as asked for, never two for one."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from tests.local.controllers.objects import pod, replica_set
from tests.local.controllers.plane import Object, Plane, control_plane

from hotmap.core.errors import ApiError, Forbidden
from hotmap.local.controllers.replicaset import replica_set_status

NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z


def _replica_set(replicas: int, **spec: Any) -> Object:
    labels = {"app": "db"}
    return {
        "metadata": {"name": "db"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": {"note": "yes"}},
                "spec": {"containers": [{"name": "main", "image": "host", "command": ["true"]}]},
            },
            **spec,
        },
    }


def _bare_pod(name: str, **metadata: Any) -> Object:
    template = _replica_set(1)["spec"]["template"]
    return {
        "metadata": {"name": name, "labels": {"app": "db"}, **metadata},
        "spec": template["spec"],
    }


async def _available(plane: Plane, replicas: int) -> Object:
    async def check() -> Object | None:
        found = await plane.registry.get("replicasets", "default", "db")
        status = found["status"]
        counts = (status.get("replicas", 0), status.get("availableReplicas", 0))
        observed = status.get("observedGeneration") == found["metadata"]["generation"]
        return found if counts == (replicas, replicas) and observed else None

    found: Object = await plane.until(check, what=f"{replicas} available pods")
    return found


async def test_replica_set_creates_exactly_a_hundred_pods() -> None:
    """No duplicate is ever created, however far the caches are behind."""
    async with control_plane() as plane:
        await plane.create("replicasets", _replica_set(100))
        await _available(plane, 100)
        assert len(await plane.messages("SuccessfulCreate")) == 100
        assert await plane.messages("SuccessfulDelete") == []
        assert len(await plane.names("pods")) == 100


async def test_large_replica_set_leaves_time_to_others() -> None:
    """What waits for the processor gets it after each pod, not after the last."""
    seen: list[int] = []
    async with control_plane() as plane:

        async def look() -> None:
            while not seen or seen[-1] < 50:
                seen.append(len(await plane.names("pods")))
                await asyncio.sleep(0)

        looking = asyncio.create_task(look())
        await plane.create("replicasets", _replica_set(50))
        await looking
    steps = [later - earlier for earlier, later in itertools.pairwise(seen)]
    assert max(steps) <= 2


async def test_controllers_end_while_pods_are_created() -> None:
    """A batch of pods does not wait for a cache that has ended."""
    async with asyncio.timeout(30):
        async with control_plane() as plane:
            await plane.create("replicasets", _replica_set(400))

            async def check() -> bool:
                return len(await plane.names("pods")) >= 20

            await plane.until(check, what="20 pods")


async def test_scaling_down_deletes_pods_and_records_events() -> None:
    """Deleted pods count no more, and each is told in an Event."""
    async with control_plane() as plane:
        await plane.create("replicasets", _replica_set(3))
        await _available(plane, 3)
        before = await plane.names("pods")
        await plane.patch("replicasets", "db", {"spec": {"replicas": 1}})
        await _available(plane, 1)

        async def is_reported() -> list[str] | None:
            messages = await plane.messages("SuccessfulDelete")
            return messages if len(messages) == 2 else None

        async def deleted() -> set[str] | None:
            gone = before - await plane.names("pods")
            return gone if len(gone) == 2 else None

        gone = await plane.until(deleted)
        assert set(await plane.until(is_reported)) == {f"Deleted pod: {name}" for name in gone}


async def test_deleted_pod_is_replaced() -> None:
    """A deleted, finished or relabelled pod makes room for a new one."""
    async with control_plane() as plane:
        await plane.create("replicasets", _replica_set(2))
        await _available(plane, 2)
        first, second = sorted(await plane.names("pods"))
        await plane.registry.delete("pods", "default", first)
        await plane.patch("pods", second, {"metadata": {"labels": {"app": "other"}}})

        async def replaced() -> bool:
            pods = await plane.items("pods")
            own = [p for p in pods if p["metadata"].get("ownerReferences")]
            return len(pods) == 3 and len(own) == 2

        await plane.until(replaced)
        released = await plane.registry.get("pods", "default", second)
        assert "ownerReferences" not in released["metadata"]


async def test_matching_orphans_are_adopted_and_surplus_deleted() -> None:
    """A pod without a controller that is selected counts; another's pod does not."""
    async with control_plane() as plane:
        await plane.create("pods", _bare_pod("orphan"))
        reference = {
            "apiVersion": "example.com/v1",
            "kind": "Keeper",
            "name": "keeper",
            "uid": "keeper",
            "controller": True,
        }
        await plane.create("pods", _bare_pod("kept", ownerReferences=[reference]))
        await plane.create("replicasets", _replica_set(1))
        await _available(plane, 1)
        assert await plane.names("pods") == {"orphan", "kept"}
        await plane.create("pods", _bare_pod("late", namespace="default"))

        async def one_of_two_is_gone() -> bool:
            return len(await plane.names("pods") & {"orphan", "late"}) == 1

        await plane.until(one_of_two_is_gone)
        assert "kept" in await plane.names("pods")


async def test_pod_is_available_after_min_ready_seconds() -> None:
    """A ready pod becomes available by time alone, without any further change of it."""
    async with control_plane() as plane:
        await plane.create("replicasets", _replica_set(1, minReadySeconds=1))

        async def is_ready() -> Object | None:
            status = (await plane.registry.get("replicasets", "default", "db"))["status"]
            return status if status.get("readyReplicas") else None

        await plane.until(is_ready)
        await _available(plane, 1)


async def test_pod_creation_failure_is_reported() -> None:
    """A refused create is an Event and a condition with its reason, and is tried again."""
    async with control_plane() as plane:
        refusing = True
        create = plane.registry.create

        async def create_or_refuse(plural: str, *args: Any, **options: Any) -> Object:
            if plural == "pods" and refusing:
                raise Forbidden("exceeded quota")
            return await create(plural, *args, **options)

        plane.registry.create = create_or_refuse  # type: ignore[method-assign, assignment]
        await plane.create("replicasets", _replica_set(1))

        async def reported() -> Object | None:
            status = (await plane.registry.get("replicasets", "default", "db"))["status"]
            return next(iter(status.get("conditions", [])), None)

        condition = await plane.until(reported)
        assert condition["type"] == "ReplicaFailure"
        assert (condition["status"], condition["reason"]) == ("True", "FailedCreate")
        assert condition["message"] == "exceeded quota"

        async def is_reported() -> list[str]:
            return await plane.messages("FailedCreate")

        assert await plane.until(is_reported) == ["Error creating: exceeded quota"]
        refusing = False
        assert "conditions" not in (await _available(plane, 1))["status"]


def test_status_counts_active_pods() -> None:
    """Going pods are terminating, finished ones nothing; zeros are left out but for two."""
    wished = replica_set("db", 3)
    wished["spec"]["template"]["metadata"]["labels"] = {"app": "db"}
    labelled = pod()
    labelled["metadata"]["labels"] = {"app": "db", "more": "yes"}
    going = pod()
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    pods = [labelled, pod(ready=None), going, pod(phase="Failed")]
    assert replica_set_status(wished, pods, None, now=NOW) == {
        "replicas": 2,
        "fullyLabeledReplicas": 1,
        "readyReplicas": 1,
        "availableReplicas": 1,
        "terminatingReplicas": 1,
        "observedGeneration": 1,
    }
    wished["metadata"]["generation"] = 0
    assert replica_set_status(wished, [], None, now=NOW) == {
        "replicas": 0,
        "terminatingReplicas": 0,
    }


def test_replica_failure_condition_keeps_first_message() -> None:
    """A failure that lasts keeps its time and text; success takes it away."""
    wished = replica_set("db", 3)
    status = replica_set_status(wished, [], ApiError("first"), now=NOW)
    wished["status"] = status
    again = replica_set_status(wished, [], ApiError("second"), now=NOW + 60)
    assert again == status
    assert "conditions" not in replica_set_status(wished, [], None, now=NOW)
    surplus = [pod() for _ in range(4)]
    wished["status"] = {}
    (condition,) = replica_set_status(wished, surplus, ApiError("no"), now=NOW)["conditions"]
    assert condition["reason"] == "FailedDelete"


async def test_replica_set_converges_while_pods_are_deleted() -> None:
    """Pods killed as fast as they come: afterwards the number is right, and stays right."""
    async with control_plane() as plane:
        await plane.create("replicasets", _replica_set(5))
        for _ in range(20):
            for name in sorted(await plane.names("pods"))[:2]:
                await plane.registry.delete("pods", "default", name, grace_period=0)
            await asyncio.sleep(0.002)
        await _available(plane, 5)
        assert len(await plane.items("pods")) == 5
