"""A kubelet that starts again goes on with what the statuses of its pods tell."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from hotmap.local.kubelet.earlier_runs import earlier_runs

if TYPE_CHECKING:
    from tests.local.kubelet.conftest import LocalNode

WAIT = "while :; do sleep 0.05; done"


def container(pod: dict[str, Any], position: int = 0) -> dict[str, Any]:
    statuses = pod.get("status", {}).get("containerStatuses") or [{"state": {}}] * 2
    found: dict[str, Any] = statuses[position]
    return found


def restarted(pod: dict[str, Any], count: int = 1) -> bool:
    status = container(pod)
    return status.get("restartCount") == count and "running" in status["state"]


async def test_running_containers_are_restarted(node: LocalNode) -> None:
    """The restart is counted, and the end of the run before is told, as after a reboot."""
    await node.run_pod("p", WAIT)
    await node.phase("p", "Running")
    for count in (1, 2):
        await node.restart()
        pod = await node.until("p", partial(restarted, count=count))
        ended = container(pod)["lastState"]["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (255, "Unknown")


async def test_finished_containers_are_not_run_again(node: LocalNode) -> None:
    """One that has succeeded stays so with OnFailure, beside one that is run again."""
    runs = {"name": "c", "image": "shell", "command": ["sh", "-c", WAIT]}
    done = {"name": "done", "image": "shell", "command": ["true"]}
    await node.run_pod("p", "", pod={"restartPolicy": "OnFailure", "containers": [runs, done]})
    await node.until("p", lambda pod: "terminated" in container(pod, 1)["state"])
    before = container(node.pods.objects["default", "p"], 1)
    await node.restart()
    pod = await node.until("p", restarted)
    assert container(pod, 1) == before


async def test_pod_that_is_never_restarted_fails(node: LocalNode) -> None:
    """What it did was lost, and another run could do it twice."""
    await node.run_pod("p", WAIT, pod={"restartPolicy": "Never"})
    await node.phase("p", "Running")
    await node.restart()
    pod = await node.phase("p", "Failed")
    assert container(pod)["state"]["terminated"]["exitCode"] == 255
    assert container(pod)["restartCount"] == 0


async def test_init_containers_run_again(node: LocalNode) -> None:
    """Empty directories are new, so they have to be filled again."""
    mount = [{"name": "v", "mountPath": "/v"}]
    init = {"name": "i", "image": "shell", "command": ["touch", "/v/x"], "volumeMounts": mount}
    spec = {"initContainers": [init], "volumes": [{"name": "v", "emptyDir": {}}]}
    await node.run_pod("p", f"cat /v/x && {WAIT}", pod=spec, volumeMounts=mount)
    await node.phase("p", "Running")
    await node.restart()
    pod = await node.until("p", restarted)
    (status,) = pod["status"]["initContainerStatuses"]
    assert (status["restartCount"], status["state"]["terminated"]["exitCode"]) == (1, 0)


def test_container_that_backs_off_counts_its_last_run() -> None:
    ended = {"exitCode": 3, "reason": "Error", "finishedAt": "2026-01-01T00:00:00Z"}
    state = {"waiting": {"reason": "CrashLoopBackOff"}}
    status = {"name": "c", "restartCount": 4, "state": state, "lastState": {"terminated": ended}}
    never = {"name": "d", "restartCount": 0, "state": {"waiting": {"reason": "X"}}, "lastState": {}}
    pod = {
        "spec": {"containers": [{"name": "c"}, {"name": "d"}]},
        "status": {"containerStatuses": [status, never]},
    }
    found = earlier_runs(pod, now=1.0)
    assert list(found) == ["c"]
    assert (found["c"].run.restarts, found["c"].run.exit_code) == (4, 3)
    assert not found["c"].is_final
