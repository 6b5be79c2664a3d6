"""DaemonSets on the real Registry: one pod per node that they want."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.local.controllers.plane import Object, Plane, control_plane, template_change

from hotmap.core.errors import Forbidden


def _daemon_set(**spec: Any) -> Object:
    return {
        "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {"containers": [{"name": "main", "image": "host", "command": ["true"]}]},
            },
            **spec,
        },
    }


async def _add_node(plane: Plane, name: str, **spec: Any) -> None:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    labels = {"kubernetes.io/hostname": name}
    node = {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": ready}
    await plane.registry.create("nodes", None, node, manager="kubelet")


async def _rolled_out(plane: Plane, nodes: int) -> Object:
    counts = ("desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable")
    return await plane.until_status("daemonsets", "agent", **dict.fromkeys(counts, nodes))


async def _nodes(plane: Plane) -> list[str]:
    """Where the pods are that stay."""
    pods = await plane.items("pods")
    return sorted(
        pod["spec"].get("nodeName", "")
        for pod in pods
        if "deletionTimestamp" not in pod["metadata"]
    )


async def _until_on(plane: Plane, *nodes: str) -> None:
    async def check() -> bool:
        return await _nodes(plane) == list(nodes)

    await plane.until(check, what=f"pods on {nodes}")


async def test_each_node_gets_a_pod_by_its_name() -> None:
    async with control_plane() as plane:
        await _add_node(plane, "second")
        await plane.create("daemonsets", _daemon_set())
        await _rolled_out(plane, 2)
        assert await _nodes(plane) == ["local", "second"]
        texts = {f"Created pod: {name}" for name in await plane.names("pods")}
        assert set(await plane.messages("SuccessfulCreate")) == texts
        await _add_node(plane, "third", unschedulable=True)
        await _until_on(plane, "local", "second", "third")
        (revision,) = await plane.items("controllerrevisions")
        label = revision["metadata"]["labels"]["controller-revision-hash"]
        assert revision["metadata"]["name"] == f"agent-{label}"
        hashes = {
            pod["metadata"]["labels"]["controller-revision-hash"]
            for pod in await plane.items("pods")
        }
        assert hashes == {label}


async def test_pods_follow_labels_and_taints_of_nodes() -> None:
    async with control_plane() as plane:
        await _add_node(plane, "second")
        selector = {"nodeSelector": {"kubernetes.io/hostname": "second"}}
        owner = _daemon_set()
        owner["spec"]["template"]["spec"] |= selector
        await plane.create("daemonsets", owner)
        await _rolled_out(plane, 1)
        assert await _nodes(plane) == ["second"]
        taint = {"key": "a", "effect": "NoSchedule"}
        await _patch_node(plane, "second", {"spec": {"taints": [taint]}})
        await plane.until_status(
            "daemonsets", "agent", desiredNumberScheduled=0, numberMisscheduled=1
        )
        assert await _nodes(plane) == ["second"]
        await _patch_node(plane, "second", {"spec": {"taints": [{**taint, "effect": "NoExecute"}]}})
        await _until_on(plane)
        await _patch_node(plane, "second", {"spec": {"taints": None}})
        await _until_on(plane, "second")
        await _patch_node(plane, "second", {"metadata": {"labels": None}})
        await _until_on(plane)


async def _patch_node(plane: Plane, name: str, patch: Object) -> None:
    await plane.registry.patch("nodes", None, name, patch, kind="merge", manager="test")


async def test_update_and_undo_replace_pods_and_number_revisions() -> None:
    async with control_plane() as plane:
        await _add_node(plane, "second")
        await plane.create("daemonsets", _daemon_set(revisionHistoryLimit=1))
        await _rolled_out(plane, 2)
        (first,) = await plane.items("controllerrevisions")
        await plane.patch("daemonsets", "agent", template_change("2"))
        await _rolled_out(plane, 2)
        assert await _versions(plane) == {"2"}
        # What kubectl rollout undo sends.
        await plane.registry.patch(
            "daemonsets", "default", "agent", first["data"], kind="strategic", manager="kubectl"
        )
        await _rolled_out(plane, 2)
        assert await _versions(plane) == {""}
        assert await _numbers(plane) == [2, 3]
        name = first["metadata"]["name"]
        again = await plane.registry.get("controllerrevisions", "default", name)
        assert again["revision"] == 3
        await plane.patch("daemonsets", "agent", template_change("4"))
        await _rolled_out(plane, 2)

        await plane.until(lambda: _has_numbers(plane, [3, 4]))


async def _has_numbers(plane: Plane, numbers: list[int]) -> bool:
    return await _numbers(plane) == numbers


async def _numbers(plane: Plane) -> list[int]:
    return sorted(found["revision"] for found in await plane.items("controllerrevisions"))


async def _versions(plane: Plane) -> set[str]:
    return {
        (pod["metadata"].get("annotations") or {}).get("version", "")
        for pod in await plane.items("pods")
        if "deletionTimestamp" not in pod["metadata"]
    }


async def test_surge_keeps_the_old_pod_until_the_new_one_is_available() -> None:
    strategy = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    async with control_plane() as plane:
        await plane.create("daemonsets", _daemon_set(updateStrategy=strategy))
        await _rolled_out(plane, 1)
        plane.node.becomes_ready = lambda pod: "2" not in str(pod["metadata"].get("annotations"))
        await plane.patch("daemonsets", "agent", template_change("2"))
        await _until_on(plane, "local", "local")
        assert await _versions(plane) == {"", "2"}
        assert await plane.messages("SuccessfulDelete") == []
        plane.node.becomes_ready = lambda pod: True
        plane.node.sync_all()
        await _until_on(plane, "local")
        await _rolled_out(plane, 1)
        assert await _versions(plane) == {"2"}


async def test_on_delete_leaves_old_pods() -> None:
    async with control_plane() as plane:
        await plane.create("daemonsets", _daemon_set(updateStrategy={"type": "OnDelete"}))
        await _rolled_out(plane, 1)
        await plane.patch("daemonsets", "agent", template_change("2"))
        await plane.until_status("daemonsets", "agent", updatedNumberScheduled=0, numberAvailable=1)
        (pod,) = await plane.items("pods")
        await plane.registry.delete("pods", "default", pod["metadata"]["name"])
        await _rolled_out(plane, 1)
        assert await _versions(plane) == {"2"}


async def test_ended_pods_are_replaced_with_an_event() -> None:
    async with control_plane() as plane:
        await plane.create("daemonsets", _daemon_set())
        await _rolled_out(plane, 1)
        for phase, reason in (("Failed", "FailedDaemonPod"), ("Succeeded", "SucceededDaemonPod")):
            (pod,) = [p for p in await plane.items("pods") if p["status"]["phase"] == "Running"]
            await _end(plane, pod["metadata"]["name"], phase)

            async def told(reason: str = reason) -> list[str]:
                return await plane.messages(reason)

            verb, name = "kill" if phase == "Failed" else "delete", pod["metadata"]["name"]
            assert await plane.until(told) == [
                f"Found {phase.lower()} daemon pod default/{name} on node local, "
                f"will try to {verb} it"
            ]
            await _until_replaced(plane, pod["metadata"]["uid"])


async def _end(plane: Plane, name: str, phase: str) -> None:
    def end(pod: Object) -> Object:
        return {**pod, "status": {**pod["status"], "phase": phase}}

    await plane.registry.modify(
        "pods", "default", name, end, subresource="status", manager="kubelet"
    )


async def _until_replaced(plane: Plane, uid: str) -> None:
    async def check() -> bool:
        pods = await plane.items("pods")
        running = [pod for pod in pods if pod["status"]["phase"] == "Running"]
        return len(pods) == len(running) == 1 and pods[0]["metadata"]["uid"] != uid

    await plane.until(check)


async def test_refused_pod_is_reported_and_retried(monkeypatch: Any) -> None:
    async with control_plane() as plane:
        create, refuse = plane.registry.create, True

        async def refuse_pods(resource: str, *arguments: Any, **options: Any) -> Object:
            if resource == "pods" and refuse:
                raise Forbidden("exceeded quota")
            return await create(resource, *arguments, **options)

        monkeypatch.setattr(plane.registry, "create", refuse_pods)
        await plane.create("daemonsets", _daemon_set())

        async def told() -> list[str]:
            return await plane.messages("FailedCreate")

        assert await plane.until(told) == ["Error creating: exceeded quota"]
        await plane.until_status(
            "daemonsets", "agent", desiredNumberScheduled=1, currentNumberScheduled=0
        )
        refuse = False
        await _rolled_out(plane, 1)


async def test_orphans_are_adopted_with_their_revisions() -> None:
    async with control_plane() as plane:
        await plane.create("daemonsets", _daemon_set())
        await _rolled_out(plane, 1)
        (before,) = await plane.items("pods")
        await plane.registry.delete("daemonsets", "default", "agent", propagation="Orphan")

        async def orphaned() -> bool:
            found = [*await plane.items("pods"), *await plane.items("controllerrevisions")]
            gone = not await plane.items("daemonsets")
            return gone and not any(obj["metadata"].get("ownerReferences") for obj in found)

        await plane.until(orphaned)
        await plane.create("daemonsets", _daemon_set())
        await _rolled_out(plane, 1)
        (after,) = await plane.items("pods")
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert len(await plane.items("controllerrevisions")) == 1


async def test_revisions_with_the_same_template_become_one() -> None:
    async with control_plane() as plane:
        await plane.create("daemonsets", _daemon_set())
        await _rolled_out(plane, 1)
        (revision,) = await plane.items("controllerrevisions")
        copy = {
            "metadata": {"name": "agent-copy", "labels": {"app": "agent"}},
            "data": revision["data"],
            "revision": 7,
        }
        await plane.create("controllerrevisions", copy)

        async def joined() -> bool:
            found = await plane.items("controllerrevisions")
            return [obj["metadata"]["name"] for obj in found] == ["agent-copy"]

        await plane.until(joined)
        await _rolled_out(plane, 1)
        (pod,) = await plane.items("pods")
        assert pod["metadata"]["labels"]["controller-revision-hash"] == "agent-copy"
        assert await plane.messages("SuccessfulDelete") == []


async def test_name_of_a_revision_that_is_taken_is_avoided() -> None:
    async with control_plane() as plane:
        await plane.create("daemonsets", _daemon_set())
        await _rolled_out(plane, 1)
        (revision,) = await plane.items("controllerrevisions")
        await plane.registry.delete("daemonsets", "default", "agent", propagation="Foreground")

        async def gone() -> bool:
            kinds = ("controllerrevisions", "daemonsets")
            return not any([await plane.items(kind) for kind in kinds])

        await plane.until(gone)
        taken = {"metadata": {"name": revision["metadata"]["name"]}, "data": {}, "revision": 1}
        await plane.create("controllerrevisions", taken)
        await plane.create("daemonsets", _daemon_set())
        assert (await _rolled_out(plane, 1))["status"]["collisionCount"] == 1


async def test_settled_set_causes_no_writes() -> None:
    async with control_plane() as plane:
        await plane.create("daemonsets", _daemon_set())
        await _rolled_out(plane, 1)
        async with asyncio.timeout(60):
            seen = -1
            while seen != plane.registry.store.revision:
                seen = plane.registry.store.revision
                await asyncio.sleep(0.3)
        await plane.patch("daemonsets", "agent", {"metadata": {"labels": {"a": "b"}}})
        await asyncio.sleep(0.3)
        assert plane.registry.store.revision == seen + 1
