"""Pods find the node, or say why they wait."""

from __future__ import annotations

from typing import Any

import pytest
from tests.local.controllers.plane import Object, Plane, control_plane

from hotmap.local.controllers import scheduler
from hotmap.local.controllers.scheduler import find_unfit_reason


def _node(*, ready: str = "True", labels: dict[str, str] | None = None, **spec: Any) -> Object:
    return {
        "metadata": {"name": "local", "labels": labels or {}},
        "spec": spec,
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


def _pod(**spec: Any) -> Object:
    containers = [{"name": "main", "image": "host", "command": ["true"]}]
    return {"metadata": {"name": "web"}, "spec": {"containers": containers, **spec}}


def _on_node(name: str) -> Object:
    field = {"key": "metadata.name", "operator": "In", "values": [name]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


_TAINT = {"key": "team", "value": "blue", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("pod", "node", "reason"),
    [
        (_pod(), _node(), None),
        (_pod(), _node(unschedulable=True), "node(s) were unschedulable"),
        (_pod(), _node(ready="Unknown"), "node(s) had untolerated taint(s)"),
        (_pod(), _node(taints=[_TAINT]), "node(s) had untolerated taint(s)"),
        (_pod(), _node(taints=[_TAINT | {"effect": "PreferNoSchedule"}]), None),
        (
            _pod(tolerations=[{"key": "team", "value": "blue"}]),
            _node(taints=[_TAINT]),
            None,
        ),
        (
            _pod(tolerations=[{"key": "team", "operator": "Exists", "effect": "NoExecute"}]),
            _node(taints=[_TAINT]),
            "node(s) had untolerated taint(s)",
        ),
        (
            _pod(tolerations=[{"operator": "Exists"}]),
            _node(taints=[_TAINT], unschedulable=True, ready="False"),
            None,
        ),
        (
            _pod(nodeSelector={"disk": "ssd"}),
            _node(),
            "node(s) didn't match Pod's node affinity/selector",
        ),
        (_pod(nodeSelector={"disk": "ssd"}), _node(labels={"disk": "ssd", "a": "b"}), None),
        (_pod(affinity=_on_node("local")), _node(), None),
        (
            _pod(affinity=_on_node("other")),
            _node(),
            "node(s) didn't match Pod's node affinity/selector",
        ),
    ],
)
def test_scheduler_reports_why_node_does_not_fit(
    pod: Object, node: Object, reason: str | None
) -> None:
    """Unschedulable, labels, taints and readiness, in upstream's words."""
    assert find_unfit_reason(pod, node) == reason


async def _events(plane: Plane, reason: str, count: int = 1) -> list[str]:
    async def check() -> list[str] | None:
        messages = await plane.messages(reason)
        return messages if len(messages) >= count else None

    messages: list[str] = await plane.until(check, what=f"{count} {reason} events")
    return messages


async def test_scheduler_binds_pod_and_records_event() -> None:
    """spec.nodeName and PodScheduled are set, and the Event has upstream's text."""
    async with control_plane() as plane:
        await plane.create("pods", _pod())
        assert await _events(plane, "Scheduled") == ["Successfully assigned default/web to local"]
        pod = await plane.registry.get("pods", "default", "web")
        assert pod["spec"]["nodeName"] == "local"
        assert {"PodScheduled": "True"}.items() <= {
            c["type"]: c["status"] for c in pod["status"]["conditions"]
        }.items()


async def test_scheduler_binds_waiting_pod_when_node_appears() -> None:
    """FailedScheduling once, the reason in the status, and bound as soon as a node comes."""
    async with control_plane(with_node=False) as plane:
        await plane.create("pods", _pod())
        assert await _events(plane, "FailedScheduling") == ["no nodes available to schedule pods"]
        pod = await plane.registry.get("pods", "default", "web")
        (condition,) = pod["status"]["conditions"]
        assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
        await plane.node.register()
        await _events(plane, "Scheduled")
        events = await plane.items("events")
        refusals = [e for e in events if e["reason"] == "FailedScheduling"]
        assert [event["count"] for event in refusals] == [1]


async def test_scheduler_binds_waiting_pod_when_node_is_uncordoned() -> None:
    """The refusal counts nodes; uncordoning is enough to be looked at again."""
    async with control_plane() as plane:
        await plane.registry.modify(
            "nodes", None, "local", lambda n: {**n, "spec": {"unschedulable": True}}, manager="test"
        )
        await plane.create("pods", _pod())
        assert await _events(plane, "FailedScheduling") == [
            "0/1 nodes are available: 1 node(s) were unschedulable. no new claims to deallocate, "
            "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
        ]
        await plane.registry.modify(
            "nodes", None, "local", lambda n: {**n, "spec": {}}, manager="test"
        )
        await _events(plane, "Scheduled")


async def test_scheduler_waits_for_the_last_gate_of_a_pod() -> None:
    async with control_plane() as plane:
        await plane.create("pods", _pod(schedulingGates=[{"name": "example.com/quota"}]))
        await plane.create("pods", {**_pod(), "metadata": {"name": "later"}})
        await _until_bound(plane, "later")
        waiting = await plane.registry.get("pods", "default", "web")
        assert "nodeName" not in waiting["spec"]

        def opened(obj: Object) -> Object:
            spec = {f: value for f, value in obj["spec"].items() if f != "schedulingGates"}
            return {**obj, "spec": spec}

        await plane.registry.modify("pods", "default", "web", opened, manager="test")
        await _until_bound(plane, "later", "web")


async def test_scheduler_ignores_pods_of_other_schedulers() -> None:
    """schedulerName says whose a pod is; one bound already needs no scheduler."""
    async with control_plane() as plane:
        other, bound = _pod(schedulerName="mine"), _pod(nodeName="elsewhere")
        other["metadata"]["name"], bound["metadata"]["name"] = "other", "bound"
        await plane.create("pods", other)
        await plane.create("pods", bound)
        await plane.create("pods", _pod())
        await _events(plane, "Scheduled")
        nodes = {
            p["metadata"]["name"]: p["spec"].get("nodeName") for p in await plane.items("pods")
        }
        assert nodes == {"other": None, "bound": "elsewhere", "web": "local"}


_NO_ROOM = (
    "0/1 nodes are available: 1 Too many pods. no new claims to deallocate, preemption: "
    "0/1 nodes are available: 1 No preemption victims found for incoming pod."
)


async def _create_pods(plane: Plane, *names: str) -> None:
    for name in names:
        pod = _pod()
        pod["metadata"]["name"] = name
        await plane.create("pods", pod)


async def _bound(plane: Plane) -> set[str]:
    pods = await plane.items("pods")
    return {pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName")}


async def _until_bound(plane: Plane, *names: str) -> None:
    async def check() -> bool:
        return await _bound(plane) == set(names)

    await plane.until(check, what=f"{names} to be the bound pods")


async def test_scheduler_leaves_pods_waiting_when_node_is_full() -> None:
    """No more than the allocatable number is bound, and the others say why they wait."""
    async with control_plane(with_node=False) as plane:
        await plane.node.register(pods=2)
        await _create_pods(plane, "a", "b", "c", "d")
        assert await _events(plane, "FailedScheduling", 2) == [_NO_ROOM, _NO_ROOM]
        assert len(await _bound(plane)) == 2
        waiting = [pod for pod in await plane.items("pods") if not pod["spec"].get("nodeName")]
        messages = {pod["status"]["conditions"][0]["message"] for pod in waiting}
        assert messages == {_NO_ROOM}


async def test_scheduler_binds_waiting_pod_when_pod_is_deleted_or_ends() -> None:
    """Waiting pods are bound in their order, one for each that leaves."""
    async with control_plane(with_node=False) as plane:
        await plane.node.register(pods=1)
        await _create_pods(plane, "a")
        await _until_bound(plane, "a")
        await _create_pods(plane, "b", "c", "d")
        await _events(plane, "FailedScheduling", 3)
        await plane.registry.delete("pods", "default", "a")
        await _until_bound(plane, "b")
        await plane.registry.modify(
            "pods",
            "default",
            "b",
            lambda pod: {**pod, "status": {**pod["status"], "phase": "Succeeded"}},
            subresource="status",
            manager="test",
        )
        await _until_bound(plane, "b", "c")


async def test_scheduler_gives_room_to_next_pod_when_first_waiting_one_is_gone() -> None:
    """A waiting pod that is deleted, or that no longer fits, leaves no room unused."""
    async with control_plane(with_node=False) as plane:
        await plane.node.register(pods=1)
        await _create_pods(plane, "a")
        await _until_bound(plane, "a")
        await _create_pods(plane, "b", "c")
        await _events(plane, "FailedScheduling", 2)
        await plane.registry.delete("pods", "default", "a")
        await plane.registry.delete("pods", "default", "b")
        await _until_bound(plane, "c")


async def test_scheduler_binds_all_waiting_pods_when_node_allows_more() -> None:
    """A larger allocatable number is used at once."""
    async with control_plane(with_node=False) as plane:
        await plane.node.register(pods=0)
        await _create_pods(plane, "a", "b", "c")
        await _events(plane, "FailedScheduling", 3)
        await plane.registry.modify(
            "nodes",
            None,
            "local",
            lambda node: {**node, "status": {**node["status"], "allocatable": {"pods": "5"}}},
            subresource="status",
            manager="test",
        )
        await _until_bound(plane, "a", "b", "c")


async def test_scheduler_looks_at_one_waiting_pod_for_each_that_leaves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """300 pods wait: room for one costs a look at one or two of them, not at all."""
    async with control_plane(with_node=False) as plane:
        await plane.node.register(pods=1)
        await _create_pods(plane, "a")
        await _until_bound(plane, "a")
        await _create_pods(plane, *(f"b{number:03}" for number in range(300)))
        await _events(plane, "FailedScheduling", 300)
        looks: list[str] = []

        def count(pod: Object, node: Object, **used: Any) -> str | None:
            looks.append(pod["metadata"]["name"])
            return find_unfit_reason(pod, node, **used)

        monkeypatch.setattr(scheduler, "find_unfit_reason", count)
        await plane.registry.delete("pods", "default", "a")
        await _until_bound(plane, "b000")
        assert len(looks) <= 2


async def test_node_without_spec_is_cordoned() -> None:
    """Objects of people may lack what kubelets write; other pods are scheduled as before."""
    async with control_plane() as plane:
        await plane.create("nodes", {"metadata": {"name": "bare"}}, None)
        await plane.registry.modify(
            "nodes", None, "bare", lambda n: {**n, "spec": {"unschedulable": True}}, manager="test"
        )
        await plane.create("pods", _pod())
        await _events(plane, "Scheduled")


def _listening(name: str, **port: Any) -> Object:
    pod = _pod()
    pod["metadata"]["name"] = name
    pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, **port}]
    return pod


async def test_host_port_is_given_once_and_again_when_it_is_free() -> None:
    """The second pod says that the port is taken; other addresses and protocols do not collide."""
    async with control_plane() as plane:
        await plane.create("pods", _listening("first", hostPort=8080, hostIP="127.0.0.1"))

        async def nodes() -> dict[str, str]:
            found = await plane.items("pods")
            return {p["metadata"]["name"]: p["spec"].get("nodeName", "") for p in found}

        async def first_runs() -> bool:
            return (await nodes())["first"] == "local"

        await plane.until(first_runs)
        await plane.create("pods", _listening("second", hostPort=8080))
        text = (
            "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod "
            "ports. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No "
            "preemption victims found for incoming pod."
        )
        assert await _events(plane, "FailedScheduling") == [text]
        await plane.create("pods", _listening("datagrams", hostPort=8080, protocol="UDP"))
        await plane.create("pods", _listening("elsewhere", hostPort=8080, hostIP="127.0.0.2"))

        async def others_run() -> bool:
            found = await nodes()
            return found["datagrams"] == found["elsewhere"] == "local"

        await plane.until(others_run)
        assert (await nodes())["second"] == ""
        for name in ("first", "elsewhere"):
            await plane.registry.delete("pods", "default", name, grace_period=0)

        async def second_runs() -> bool:
            return (await nodes())["second"] == "local"

        await plane.until(second_runs)
