"""Ephemeral containers: what `kubectl debug` adds to a pod that runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.local.kubelet.conftest import eventually

if TYPE_CHECKING:
    from tests.local.kubelet.conftest import LocalNode

MARKED = "trap 'exit 0' TERM; while :; do sleep 0.05; done # {}"


async def add(node: LocalNode, script: str, *, name: str = "e", **more: Any) -> None:
    command = ["sh", "-c", script]
    added = {"name": name, "image": "shell", "command": command, **more}
    change = {"spec": {"ephemeralContainers": [added]}}
    await node.registry.patch(
        "pods", "default", "p", change, kind="strategic", manager="test",
        subresource="ephemeralcontainers",
    )  # fmt: skip


def state(pod: dict[str, Any], name: str = "e") -> dict[str, Any]:
    for status in pod.get("status", {}).get("ephemeralContainerStatuses") or ():
        if status["name"] == name:
            return dict(status["state"])
    return {}


async def test_ephemeral_container_runs_once(node: LocalNode) -> None:
    """In a pod that runs, whatever its restart policy; the pod stays as it was."""
    await node.run_pod("p", "exec sleep 600")
    await node.phase("p", "Running")
    await add(node, "echo hello; exit 3")
    pod = await node.until("p", lambda pod: "terminated" in state(pod))
    assert state(pod)["terminated"]["exitCode"] == 3
    status = pod["status"]["ephemeralContainerStatuses"][0]
    assert (status["ready"], status["restartCount"], "started" in status) == (False, 0, False)
    assert pod["status"]["phase"] == "Running"
    assert await node.logs("p", "e") == "hello\n"
    await add(node, "exec sleep 600", name="second")
    pod = await node.until("p", lambda pod: "running" in state(pod, "second"))
    assert state(pod)["terminated"]["exitCode"] == 3
    assert await node.execute("p", "echo $0", container="second") == "sh\n"


async def test_ephemeral_container_starts_before_the_pod_is_initialized(node: LocalNode) -> None:
    """It is there to find out why the pod is not."""
    init = {"name": "i", "image": "shell", "command": ["sh", "-c", "exec sleep 600"]}
    await node.run_pod("p", "true", pod={"initContainers": [init]})
    await node.until("p", lambda pod: pod.get("status", {}).get("initContainerStatuses"))
    await add(node, "exec sleep 600")
    pod = await node.until("p", lambda pod: "running" in state(pod))
    assert pod["status"]["phase"] == "Pending"


async def test_ephemeral_container_sees_the_processes_of_its_target(node: LocalNode) -> None:
    """And what it leaves running there ends with it; the target goes on."""
    await node.run_pod("p", MARKED.format("target"))
    await node.phase("p", "Running")
    leave = (
        "tr '\\0' ' ' < /proc/1/cmdline; (trap '' HUP; while :; do sleep 0.01; done) & sleep 0.1"
    )
    await add(node, leave, targetContainerName="c")
    await node.until("p", lambda pod: "terminated" in state(pod))
    assert "# target" in await node.logs("p", "e")
    listing = "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"
    await add(node, "exec sleep 600", name="other")
    await node.until("p", lambda pod: "running" in state(pod, "other"))
    assert "# target" not in await node.execute("p", listing, container="other")

    assert "trap '' HUP" not in await node.execute("p", listing)
    await node.execute("p", "kill 1")
    pod = await node.until(
        "p", lambda pod: pod["status"]["containerStatuses"][0]["restartCount"] == 1
    )
    assert "running" in state(pod, "other")


async def test_ephemeral_container_mounts_a_volume_that_no_other_mounts(node: LocalNode) -> None:
    """A volume is set up once a container of any kind mounts it."""
    await node.config_map("settings", {"a": "1"})
    volumes = [{"name": "v", "configMap": {"name": "settings"}}]
    await node.run_pod("p", "exec sleep 600", pod={"volumes": volumes})
    await node.phase("p", "Running")
    await add(node, "cat /v/a", volumeMounts=[{"name": "v", "mountPath": "/v"}])
    await node.until("p", lambda pod: "terminated" in state(pod))
    assert await node.logs("p", "e") == "1"


async def test_target_that_has_not_run_is_waited_for(node: LocalNode) -> None:
    await node.run_pod("p", "", image="nowhere", command=None)
    await node.waiting("p", "ErrImageNeverPull")
    await add(node, "true", targetContainerName="c")
    pod = await node.until("p", lambda pod: state(pod).get("waiting", {}).get("message"))
    assert state(pod)["waiting"] == {
        "reason": "CreateContainerConfigError",
        "message": "unable to find target container c",
    }


async def test_ephemeral_container_ends_with_its_pod(node: LocalNode) -> None:
    """Also where it alone still runs."""
    await node.run_pod("p", "sleep 0.5", pod={"restartPolicy": "Never"})
    await node.phase("p", "Running")
    await add(node, "exec sleep 600")
    pod = await node.phase("p", "Succeeded")
    assert state(pod)["terminated"]["exitCode"] == 137
    await node.registry.delete("pods", "default", "p", grace_period=0)
    await eventually(lambda: not list((node.directory / "logs").iterdir()))


async def test_ephemeral_container_is_not_started_by_another_kubelet(node: LocalNode) -> None:
    """What it told is kept."""
    await node.run_pod("p", "exec sleep 600")
    await node.phase("p", "Running")
    await add(node, "echo hello; exit 3")
    await node.until("p", lambda pod: "terminated" in state(pod))
    await node.restart()
    pod = await node.until(
        "p", lambda pod: pod["status"]["containerStatuses"][0]["restartCount"] == 1
    )
    assert state(pod)["terminated"]["exitCode"] == 3
    assert await node.logs("p", "e") == "hello\n"
