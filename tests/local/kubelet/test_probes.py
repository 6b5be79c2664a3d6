"""Probes and hooks: what a container is asked, and what its answers change."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.local.kubelet.conftest import LocalNode, eventually

from hotmap.local.kubelet.probes import Target, ask
from hotmap.local.kubelet_api import LogOptions

#: The shortest period that the API allows.
FAST = {"periodSeconds": 1, "failureThreshold": 1}


def is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions") or []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def scratch(**container: Any) -> dict[str, Any]:
    """A container with a volume in which files are the test's switches."""
    return {
        "pod": {"volumes": [{"name": "v", "emptyDir": {}}]},
        "volumeMounts": [{"name": "v", "mountPath": "/switch"}],
        **container,
    }


def has_file(name: str) -> dict[str, Any]:
    return {"exec": {"command": ["test", "-e", f"/switch/{name}"]}, **FAST}


async def test_readiness_follows_probe(node: LocalNode) -> None:
    """A running container is not ready before its probe says so, nor after it fails again."""
    await node.run_pod("web", "exec sleep 600", **scratch(readinessProbe=has_file("ready")))
    pod = await node.phase("web", "Running")
    assert not is_ready(pod)
    switch = await node.volume("web", "v", "empty-dir") / "ready"
    switch.touch()
    await node.until("web", is_ready)
    switch.unlink()
    pod = await node.until("web", lambda pod: not is_ready(pod))
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 0


async def test_failed_liveness_probe_restarts_container(node: LocalNode) -> None:
    """The container is killed and started again, and an Event says why."""
    probe = {"exec": {"command": ["sh", "-c", "echo I am ill; exit 1"]}, **FAST}
    script = "trap 'exit 1' TERM; while :; do sleep 0.01; done"
    await node.run_pod("web", script, livenessProbe=probe)
    await node.phase("web", "Running")
    await node.until("web", lambda pod: pod["status"]["containerStatuses"][0]["restartCount"])
    await node.event("Killing", "Container c failed liveness probe, will be restarted")
    await node.event("Unhealthy", "Liveness probe failed: I am ill\n")


async def test_failure_of_a_silent_command_has_no_text(node: LocalNode) -> None:
    """The Event ends where the output would begin, as of a kubelet."""
    probe = {"exec": {"command": ["false"]}, **FAST}
    await node.run_pod("web", "exec sleep 600", readinessProbe=probe)
    pod = await node.phase("web", "Running")
    await node.event("Unhealthy", "Readiness probe failed: ")
    assert not is_ready(pod)


async def test_silent_failure_of_a_hook_restarts_the_container(node: LocalNode) -> None:
    lifecycle = {"postStart": {"exec": {"command": ["false"]}}}
    await node.run_pod("web", "exec sleep 600", lifecycle=lifecycle)
    await node.event("FailedPostStartHook", "PostStartHook failed")


@pytest.mark.parametrize("kind", ["livenessProbe", "startupProbe"])
async def test_application_has_a_period_to_start(node: LocalNode, kind: str) -> None:
    """Before the first probe that could kill it, as on a kubelet."""
    script = "sleep 0.3; touch /switch/up; exec sleep 600"
    asked = "if test -e /switch/up; then touch /switch/passed; else touch /switch/failed; fi"
    probe = {"exec": {"command": ["sh", "-c", asked]}, **FAST}
    await node.run_pod("web", script, **scratch(**{kind: probe}))
    await node.phase("web", "Running")
    results = await node.volume("web", "v", "empty-dir")
    await eventually(lambda: {"passed", "failed"} & {path.name for path in results.iterdir()})
    assert not (results / "failed").exists()


async def test_application_that_listens_within_a_second_is_ready_within_two(
    node: LocalNode,
) -> None:
    """And not after the ten seconds between its probes: a kubelet asks when it sees the start."""
    script = "sleep 0.3; touch /switch/up; exec sleep 600"
    probe = {**has_file("up"), "periodSeconds": 3600}
    await node.run_pod("web", script, **scratch(readinessProbe=probe))
    await node.phase("web", "Running")
    await node.until("web", is_ready)


async def test_failed_liveness_probe_has_a_grace_period_of_its_own(node: LocalNode) -> None:
    """The pod's would be over long after the test."""
    probe = {"exec": {"command": ["false"]}, **FAST, "terminationGracePeriodSeconds": 1}
    script = "trap '' TERM; while :; do sleep 0.01; done"
    pod = {"terminationGracePeriodSeconds": 3600}
    await node.run_pod("web", script, livenessProbe=probe, pod=pod)
    await node.phase("web", "Running")
    await node.until("web", lambda pod: pod["status"]["containerStatuses"][0]["restartCount"])
    await node.registry.delete("pods", "default", "web", grace_period=0)


async def test_failed_liveness_probe_ends_a_container_that_runs_once(node: LocalNode) -> None:
    """The Event promises no restart."""
    probe = {"exec": {"command": ["false"]}, **FAST}
    script = "trap 'exit 1' TERM; while :; do sleep 0.01; done"
    told = asyncio.create_task(node.event("Killing", "Container c failed liveness probe"))
    await node.run_pod("web", script, livenessProbe=probe, pod={"restartPolicy": "Never"})
    await node.phase("web", "Failed")
    await told


async def test_startup_probe_delays_other_probes(node: LocalNode) -> None:
    """Until it succeeds the container is not started and its liveness is not asked."""
    parts = scratch(
        startupProbe={**has_file("up"), "failureThreshold": 1000},
        livenessProbe=has_file("up"),
    )
    await node.run_pod("web", "exec sleep 600", **parts)
    pod = await node.phase("web", "Running")
    assert pod["status"]["containerStatuses"][0]["started"] is False
    (await node.volume("web", "v", "empty-dir") / "up").touch()
    pod = await node.until("web", is_ready)
    assert pod["status"]["containerStatuses"][0]["started"] is True
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 0


def hook(script: str) -> dict[str, Any]:
    """The lifecycle of a container that runs a script after its start."""
    return {"postStart": {"exec": {"command": ["sh", "-c", script]}}}


async def test_post_start_delays_the_state_and_later_containers(node: LocalNode) -> None:
    """As in Kubernetes 1.36.3: nothing counts as started before the hook has ended."""
    shell: dict[str, Any] = {
        "image": "shell",
        "volumeMounts": [{"name": "v", "mountPath": "/switch"}],
    }
    waits = hook("touch /switch/hook; until [ -e /switch/go ]; do sleep 0.01; done")
    containers = [
        {**shell, "name": "c", "command": ["sleep", "600"], "lifecycle": waits},
        {**shell, "name": "after", "command": ["sh", "-c", "touch /switch/after; sleep 600"]},
    ]
    spec = {"volumes": [{"name": "v", "emptyDir": {}}], "containers": containers}
    await node.run_pod("web", "", command=["sleep", "600"], pod=spec)
    files = await node.volume("web", "v", "empty-dir")
    await eventually((files / "hook").exists)
    await node.waiting("web", "ContainerCreating")
    assert node.pods.objects["default", "web"]["status"]["phase"] == "Pending"
    assert not (files / "after").exists()
    (files / "go").touch()
    pod = await node.until("web", is_ready)
    assert pod["status"]["phase"] == "Running"
    await eventually((files / "after").exists)


async def test_container_whose_post_start_fails_is_restarted(node: LocalNode) -> None:
    await node.run_pod("web", "exec sleep 600", lifecycle=hook("exit 4"))
    await node.event("FailedPostStartHook", "PostStartHook failed")
    await node.waiting("web", "CrashLoopBackOff")


async def test_failed_post_start_does_not_hold_up_later_containers(node: LocalNode) -> None:
    """As in Kubernetes: while the first container backs off, the next one runs."""
    shell = {"image": "shell", "command": ["sleep", "600"]}
    containers = [{"name": "c", **shell, "lifecycle": hook("exit 4")}, {"name": "later", **shell}]
    pod = {"containers": containers, "terminationGracePeriodSeconds": 0}
    await node.run_pod("web", "", pod=pod)
    await node.until("web", lambda found: "running" in state_of(found, "later"))
    await node.waiting("web", "CrashLoopBackOff")


def state_of(pod: dict[str, Any], name: str) -> dict[str, Any]:
    """The state of a container in the status of its pod."""
    statuses = pod["status"].get("containerStatuses") or []
    return next((dict(found["state"]) for found in statuses if found["name"] == name), {})


async def test_pod_is_deleted_while_post_start_runs(node: LocalNode) -> None:
    await node.run_pod("web", "exec sleep 600", lifecycle=hook("sleep 600"))
    await node.waiting("web", "ContainerCreating")
    await node.registry.delete("pods", "default", "web", grace_period=1)
    await node.gone("web")


async def test_pre_stop_runs_before_term(node: LocalNode) -> None:
    """The hook runs in the container while it still runs, and its failure is an Event."""
    hook = {"exec": {"command": ["sh", "-c", "echo stopping > /proc/1/fd/1; echo no; exit 1"]}}
    script = "trap 'echo term; exit 0' TERM; echo up; while :; do sleep 0.01; done"
    await node.run_pod("web", script, lifecycle={"preStop": hook})
    await node.phase("web", "Running")
    log = await node.pod_requests.logs("default", "web", "c", LogOptions(follow=True))
    assert await anext(log) == b"up\n"
    await node.registry.delete("pods", "default", "web", grace_period=60)
    assert b"".join([chunk async for chunk in log]) == b"stopping\nterm\n"
    await node.gone("web")
    await node.event("FailedPreStopHook", "PreStopHook failed")


async def test_tcp_probe_needs_an_open_port() -> None:
    """A port that is open is good, one that is closed is not."""
    target = Target({"name": "c"}, "127.0.0.1", no_command)
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        assert await ask({"tcpSocket": {"port": port}}, target, timeout=5) is None
    closed = await ask({"tcpSocket": {"port": port}}, target, timeout=5)
    assert closed == f"dial tcp 127.0.0.1:{port}: connect: connection refused"
    unknown = await ask({"tcpSocket": {"port": "http"}}, target, timeout=5)
    assert unknown == "couldn't find port http in container c"


async def test_slow_command_is_named() -> None:
    async def sleep(command: object) -> tuple[int, bytes]:
        await asyncio.sleep(60)
        return 0, b""

    target = Target({"name": "c"}, "127.0.0.1", sleep)
    probe = {"exec": {"command": ["sh", "-c", "sleep 60"]}}
    assert await ask(probe, target, timeout=0.1) == (
        'command timed out: "sh -c sleep 60" timed out after 0.1s'
    )


async def no_command(command: object) -> tuple[int, bytes]:
    raise AssertionError(f"no command was to be run: {command}")
