"""Deployments on the real Registry: what is created, rolled, undone, paused and cleaned up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.local.controllers.plane import Object, Plane, control_plane, template_change, web

from hotmap.core.errors import Forbidden

REVISION = "deployment.kubernetes.io/revision"


def _condition(deployment: Object, kind: str) -> tuple[str, str, str]:
    found = next(c for c in deployment["status"]["conditions"] if c["type"] == kind)
    return found["status"], found["reason"], found["message"]


async def _by_revision(plane: Plane) -> dict[str, Object]:
    return {rs["metadata"]["annotations"][REVISION]: rs for rs in await plane.items("replicasets")}


async def test_new_deployment_creates_replica_set_and_pods() -> None:
    """Names, labels, selector, owners and annotations are those of a real cluster."""
    async with control_plane() as plane:
        created = web(2)
        created["metadata"]["annotations"] = {"kubernetes.io/change-cause": "first"}
        await plane.create("deployments", created)
        deployment = await plane.wait_until_complete()
        (replica_set,) = await plane.items("replicasets")
        template_hash = replica_set["metadata"]["labels"]["pod-template-hash"]
        assert replica_set["metadata"]["name"] == f"web-{template_hash}"
        assert replica_set["metadata"]["labels"] == {
            "app": "web",
            "pod-template-hash": template_hash,
        }
        assert replica_set["spec"]["selector"]["matchLabels"] == replica_set["metadata"]["labels"]
        assert replica_set["metadata"]["ownerReferences"] == [
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "name": "web",
                "uid": deployment["metadata"]["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
        assert replica_set["metadata"]["annotations"] == {
            "kubernetes.io/change-cause": "first",
            "deployment.kubernetes.io/revision": "1",
            "deployment.kubernetes.io/desired-replicas": "2",
            "deployment.kubernetes.io/max-replicas": "3",
        }
        assert deployment["metadata"]["annotations"][REVISION] == "1"
        for pod in await plane.items("pods"):
            assert pod["metadata"]["name"].startswith(f"web-{template_hash}-")
            assert pod["metadata"]["labels"] == replica_set["metadata"]["labels"]
            assert pod["metadata"]["ownerReferences"][0]["uid"] == replica_set["metadata"]["uid"]


async def test_revision_annotation_keeps_generation() -> None:
    """Else observedGeneration, which kubectl rollout status waits for, would never catch up."""
    async with control_plane() as plane:
        await plane.create("deployments", web())
        deployment = await plane.wait_until_complete()
        assert deployment["metadata"]["generation"] == 1
        assert deployment["status"]["observedGeneration"] == 1


async def test_rollout_has_steps_and_events_of_kubernetes() -> None:
    """3 replicas, default strategy: one new pod, then one old pod less, and so on."""
    async with control_plane() as plane:
        await plane.create("deployments", web(3))
        await plane.wait_until_complete()
        await plane.patch("deployments", "web", template_change("2"))
        deployment = await plane.wait_until_complete()
        sets = await _by_revision(plane)
        old, new = (sets[revision]["metadata"]["name"] for revision in ("1", "2"))
        expected = [
            f"Scaled up replica set {old} from 0 to 3",
            f"Scaled up replica set {new} from 0 to 1",
            f"Scaled down replica set {old} from 3 to 2",
            f"Scaled up replica set {new} from 1 to 2",
            f"Scaled down replica set {old} from 2 to 1",
            f"Scaled up replica set {new} from 2 to 3",
            f"Scaled down replica set {old} from 1 to 0",
        ]

        async def is_reported() -> bool:
            return await plane.messages("ScalingReplicaSet") == expected

        await plane.until(is_reported, what="the events of the rollout")
        assert deployment["metadata"]["annotations"][REVISION] == "2"
        assert _condition(deployment, "Progressing") == (
            "True",
            "NewReplicaSetAvailable",
            f'ReplicaSet "{new}" has successfully progressed.',
        )
        assert _condition(deployment, "Available")[1] == "MinimumReplicasAvailable"


async def test_change_outside_template_starts_no_rollout() -> None:
    """minReadySeconds and annotations are passed on to the ReplicaSet that runs."""
    async with control_plane() as plane:
        await plane.create("deployments", web(1))
        await plane.wait_until_complete()
        cause = {"kubernetes.io/change-cause": "slower"}
        await plane.patch(
            "deployments",
            "web",
            {"metadata": {"annotations": cause}, "spec": {"minReadySeconds": 1}},
        )

        async def passed_on() -> bool:
            (replica_set,) = await plane.items("replicasets")
            annotations = replica_set["metadata"]["annotations"]
            return bool(
                replica_set["spec"].get("minReadySeconds") == 1
                and cause.items() <= annotations.items()
            )

        await plane.until(passed_on)
        assert await plane.sizes() == {"1": 1}


async def test_undo_reuses_old_replica_set() -> None:
    """The same template finds its ReplicaSet again, with the next revision and a history."""
    async with control_plane() as plane:
        await plane.create("deployments", web(2))
        await plane.wait_until_complete()
        first = (await _by_revision(plane))["1"]
        await plane.patch("deployments", "web", template_change("2"))
        await plane.wait_until_complete()
        undo = {"spec": {"template": {"metadata": {"annotations": {"version": None}}}}}
        await plane.patch("deployments", "web", undo)
        deployment = await plane.wait_until_complete()
        sets = await _by_revision(plane)
        assert sets.keys() == {"2", "3"}
        assert sets["3"]["metadata"]["name"] == first["metadata"]["name"]
        history = "deployment.kubernetes.io/revision-history"
        assert sets["3"]["metadata"]["annotations"][history] == "1"
        assert deployment["metadata"]["annotations"][REVISION] == "3"


async def test_stuck_rollout_keeps_old_pods() -> None:
    """New pods that never get ready: one surge pod, all old pods stay, and the next edit heals."""
    async with control_plane() as plane:
        await plane.create("deployments", web(3))
        await plane.wait_until_complete()
        plane.node.becomes_ready = lambda pod: (
            pod["metadata"].get("annotations", {}).get("version") != "bad"
        )
        await plane.patch("deployments", "web", template_change("bad"))

        async def hangs() -> bool:
            return await plane.sizes() == {"1": 3, "2": 1} and len(await plane.items("pods")) == 4

        await plane.until(hangs)
        await plane.patch("deployments", "web", template_change("good"))
        await plane.wait_until_complete()
        assert await plane.sizes() == {"3": 3}


async def test_paused_deployment_scales_without_rollout() -> None:
    """Edits wait until it is resumed; the conditions say so, then and afterwards."""
    async with control_plane() as plane:
        await plane.create("deployments", web(2))
        await plane.wait_until_complete()
        await plane.patch(
            "deployments", "web", {"spec": {"paused": True, **template_change("2")["spec"]}}
        )
        await plane.patch("deployments", "web", {"spec": {"replicas": 4}})

        async def scaled() -> Object | None:
            deployment = await plane.registry.get("deployments", "default", "web")
            done = deployment["status"].get("availableReplicas") == 4
            observed = deployment["status"]["observedGeneration"]
            return deployment if done and observed == 3 else None

        deployment = await plane.until(scaled)
        assert await plane.sizes() == {"1": 4}
        assert _condition(deployment, "Progressing") == (
            "Unknown",
            "DeploymentPaused",
            "Deployment is paused",
        )
        await plane.patch("deployments", "web", {"spec": {"paused": False}})
        deployment = await plane.wait_until_complete()
        assert await plane.sizes() == {"2": 4}


async def test_recreate_never_runs_both_templates() -> None:
    """The new pods come when the last old pod is gone, not when it is asked to go."""
    async with control_plane() as plane:
        await plane.create("deployments", web(2, strategy={"type": "Recreate"}))
        await plane.wait_until_complete()
        plane.node.removes_deleted_pods = False
        await plane.patch("deployments", "web", template_change("2"))

        async def all_asked_to_go() -> bool:
            pods = await plane.items("pods")
            return len(pods) == 2 and all("deletionTimestamp" in p["metadata"] for p in pods)

        await plane.until(all_asked_to_go)
        await asyncio.sleep(0.05)  # time for a wrong step to be taken
        assert len(await plane.items("replicasets")) == 1
        plane.node.removes_deleted_pods = True
        plane.node.sync_all()
        await plane.wait_until_complete()
        assert await plane.sizes() == {"2": 2}


@pytest.mark.parametrize("limit", [0, 1])
async def test_revision_history_limit_deletes_old_replica_sets(limit: int) -> None:
    """revisionHistoryLimit counts old ReplicaSets; the oldest revisions go when all is done."""
    async with control_plane() as plane:
        await plane.create("deployments", web(1, revisionHistoryLimit=limit))
        for version in ("2", "3", "4"):
            await plane.wait_until_complete()
            await plane.patch("deployments", "web", template_change(version))
        await plane.wait_until_complete()

        async def cleaned() -> bool:
            return set(await _by_revision(plane)) == {str(4 - n) for n in range(limit + 1)}

        await plane.until(cleaned)


async def test_replica_set_name_collision_is_resolved() -> None:
    """A foreign ReplicaSet of the wanted name makes the collision count name ours differently."""
    async with control_plane() as plane:
        await plane.create("deployments", web(1))
        await plane.wait_until_complete()
        (ours,) = await plane.items("replicasets")
        await plane.registry.delete("deployments", "default", "web")

        async def nothing_left() -> bool:
            return not await plane.items("replicasets") and not await plane.items("pods")

        await plane.until(nothing_left)
        foreign = web(0)
        foreign["metadata"]["name"] = ours["metadata"]["name"]
        foreign["spec"] = {
            "replicas": 0,
            "selector": {"matchLabels": {"other": "app"}},
            "template": {**foreign["spec"]["template"], "metadata": {"labels": {"other": "app"}}},
        }
        await plane.create("replicasets", foreign)
        await plane.create("deployments", web(1))
        deployment = await plane.wait_until_complete()
        assert deployment["status"]["collisionCount"] == 1
        assert len(await plane.items("replicasets")) == 2


async def test_progress_deadline_is_reported() -> None:
    """After progressDeadlineSeconds without news the rollout counts as failed, and can heal."""
    async with control_plane() as plane:
        plane.node.becomes_ready = lambda pod: False
        await plane.create("deployments", web(1, progressDeadlineSeconds=1))

        async def verdict() -> tuple[str, str, str] | None:
            deployment = await plane.registry.get("deployments", "default", "web")
            conditions = deployment["status"].get("conditions", [])
            if not any(c["type"] == "Progressing" for c in conditions):
                return None
            return _condition(deployment, "Progressing")

        async def timed_out() -> bool:
            return (await verdict() or ())[:2] == ("False", "ProgressDeadlineExceeded")

        # Nothing happens any more: only the controller's own timer can bring this about.
        await plane.until(timed_out)
        plane.node.becomes_ready = lambda pod: True
        plane.node.sync_all()
        await plane.wait_until_complete()
        healed = await verdict()
        assert healed is not None
        assert healed[1] == "NewReplicaSetAvailable"


async def test_replica_set_creation_failure_is_reported() -> None:
    """The failed create is an Event and the Progressing condition, and is tried again."""
    async with control_plane() as plane:
        refusing = True
        create = plane.registry.create

        async def create_or_refuse(plural: str, *args: Any, **options: Any) -> Object:
            if plural == "replicasets" and refusing:
                raise Forbidden("exceeded quota")
            return await create(plural, *args, **options)

        plane.registry.create = create_or_refuse  # type: ignore[method-assign, assignment]
        await plane.create("deployments", web(1))

        async def is_reported() -> list[str]:
            return await plane.messages("ReplicaSetCreateError")

        (message,) = await plane.until(is_reported)
        assert message.startswith('Failed to create new replica set "web-')
        assert message.endswith('": exceeded quota')
        deployment = await plane.registry.get("deployments", "default", "web")
        assert _condition(deployment, "Progressing") == ("False", "ReplicaSetCreateError", message)
        refusing = False
        await plane.wait_until_complete()


async def test_deployments_with_equal_selectors_keep_their_replica_sets() -> None:
    """What another controls is left alone, whatever labels it has."""
    async with control_plane() as plane:
        await plane.create("deployments", web(1))
        await plane.wait_until_complete()
        twin = web(1, image="v2")
        twin["metadata"]["name"] = "twin"
        await plane.create("deployments", twin)

        async def both() -> bool:
            return len(await plane.items("pods")) == 2

        await plane.until(both)
        owners = {
            rs["metadata"]["ownerReferences"][0]["name"] for rs in await plane.items("replicasets")
        }
        assert owners == {"web", "twin"}


async def test_orphan_replica_set_with_equal_template_is_adopted() -> None:
    """A ReplicaSet left by a deletion that orphans becomes the new Deployment's own again."""
    async with control_plane() as plane:
        await plane.create("deployments", web(2))
        await plane.wait_until_complete()
        pods = await plane.names("pods")
        await plane.registry.delete("deployments", "default", "web", propagation="Orphan")

        async def orphaned() -> bool:
            sets = await plane.items("replicasets")
            gone = not await plane.items("deployments")
            return gone and not any(rs["metadata"].get("ownerReferences") for rs in sets)

        await plane.until(orphaned)
        again = await plane.create("deployments", web(2))
        deployment = await plane.wait_until_complete()
        (replica_set,) = await plane.items("replicasets")
        assert replica_set["metadata"]["ownerReferences"][0]["uid"] == again["metadata"]["uid"]
        assert await plane.names("pods") == pods
        assert deployment["metadata"]["annotations"][REVISION] == "1"
