"""Containers whose image is changed while they run (`kubectl set image pod/…`): they restart."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from hotmap.local.kubelet.actions import PodActions, Run, compute_pod_actions

if TYPE_CHECKING:
    from tests.local.kubelet.conftest import LocalNode

RUNNING = Run("r", 0, 100.0, image="old")
FAILED = RUNNING._replace(finished_at=110.0, exit_code=1)
#: As a container says that it has another image than it runs.
CHANGED = {"image": "new"}


def spec(*containers: dict[str, Any], init: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {"restartPolicy": "Never", "containers": containers, "initContainers": init}


SIDECAR = {"name": "s", "restartPolicy": "Always", **CHANGED}


@pytest.mark.parametrize(
    ("pod", "runs", "expected"),
    [
        (spec({"name": "a", "image": "old"}), {"a": RUNNING}, ()),
        (spec({"name": "a", **CHANGED}), {"a": RUNNING}, ("a",)),
        (spec({"name": "a", **CHANGED}), {"a": RUNNING._replace(image="")}, ()),
        (spec({"name": "a", **CHANGED}), {"a": RUNNING._replace(starting=True)}, ()),
        (spec({"name": "a", **CHANGED}, {"name": "b"}), {"a": FAILED, "b": RUNNING}, ()),
        (spec({"name": "a"}, init=(SIDECAR,)), {"s": RUNNING, "a": RUNNING}, ("s",)),
        (spec({"name": "a"}, init=({"name": "i", **CHANGED},)), {"i": RUNNING}, ()),
    ],
    ids=[
        "the same image",
        "another one",
        "its image is not known",
        "its hook is waited for",
        "one that has ended is not run again",
        "a sidecar",
        "an init container goes on",
    ],
)
def test_what_runs_another_image_is_replaced(
    pod: dict[str, Any], runs: dict[str, Run], expected: tuple[str, ...]
) -> None:
    """As in Kubernetes (computePodActions), whatever the restart policy says."""
    for container in pod["containers"]:
        container.setdefault("image", "old")
    assert compute_pod_actions(pod, runs).replace == expected


def test_pod_that_has_ended_stays_so() -> None:
    assert compute_pod_actions(spec({"name": "a", **CHANGED}), {"a": FAILED}) == PodActions(
        finished=True
    )


async def set_image(node: LocalNode, image: str) -> None:
    patch = {"spec": {"containers": [{"name": "c", "image": image}]}}
    await node.registry.patch("pods", "default", "p", patch, kind="strategic", manager="test")


def status_of(pod: dict[str, Any]) -> dict[str, Any]:
    statuses = pod.get("status", {}).get("containerStatuses") or [{}]
    return dict(statuses[0])


def has_restarted(pod: dict[str, Any], times: int) -> bool:
    return bool(status_of(pod).get("restartCount") == times)


async def has_written(node: LocalNode, text: str) -> None:
    """Wait until the container has written a text, before which it traps TERM."""
    async with asyncio.timeout(9):
        while await node.logs("p") != text:  # noqa: ASYNC110 - it may not have written yet
            await asyncio.sleep(0.01)


async def test_new_image_restarts_a_container_at_once(node: LocalNode) -> None:
    """Twice, without a back-off: it belongs to one image. The environment is read again."""
    await node.config_map("app", {"A": "1"})
    script = "trap 'exit 0' TERM; echo $A; while :; do sleep 0.01; done"
    source = [{"configMapRef": {"name": "app"}}]
    await node.run_pod("p", script, envFrom=source, pod={"restartPolicy": "Never"})
    began = time.monotonic()
    for restarts, value in ((1, "1"), (2, "now 1")):
        await node.phase("p", "Running")
        await has_written(node, f"{value}\n")
        await node.edit("app", A=f"now {restarts}")
        await set_image(node, f"shell:{restarts}")
        pod = await node.until("p", partial(has_restarted, times=restarts))
        status = status_of(await node.until("p", lambda pod: "running" in status_of(pod)["state"]))
        assert (status["image"], pod["status"]["phase"]) == (f"shell:{restarts}", "Running")
        assert status["lastState"]["terminated"]["reason"] == "Completed"
    assert time.monotonic() - began < 9
    await has_written(node, "now 2\n")
    await node.event("Killing", "Container c definition changed, will be restarted")


async def test_status_has_the_image_that_runs(node: LocalNode) -> None:
    """Until the container has ended, which takes as long as it wants."""
    script = "trap 'echo stopping' TERM; echo up; while [ ! -e /v/go ]; do sleep 0.01; done"
    parts: dict[str, Any] = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    pod = {"volumes": [{"name": "v", "emptyDir": {}}], "terminationGracePeriodSeconds": 60}
    await node.run_pod("p", script, pod=pod, **parts)
    await node.phase("p", "Running")
    await set_image(node, "shell:2")
    await node.event("Killing", "Container c definition changed, will be restarted")
    assert status_of(node.pods.objects["default", "p"])["image"] == "shell"
    # The end of the Pod does not wait for the start of a container that is not wanted any more.
    await node.registry.delete("pods", "default", "p", grace_period=1)
    await node.gone("p")
    assert not any(
        event["reason"] == "Started" and event.get("count", 1) > 1
        for event in (await node.registry.list("events", "default")).items
    )


async def test_container_that_cannot_start_with_its_new_image_has_ended(node: LocalNode) -> None:
    """If it is not run again: it waits for nothing, and has ended with the image that it had."""
    await node.config_map("app", {})
    script = "trap 'exit 3' TERM; echo up; while :; do sleep 0.01; done"
    source = [{"configMapRef": {"name": "app"}}]
    await node.run_pod("p", script, envFrom=source, pod={"restartPolicy": "Never"})
    await node.phase("p", "Running")
    async with asyncio.timeout(9):
        while not await node.logs("p"):  # noqa: ASYNC110 - its trap is not set yet
            await asyncio.sleep(0.01)
    await node.registry.delete("configmaps", "default", "app")
    await set_image(node, "shell:2")
    status = status_of(await node.phase("p", "Failed"))
    assert status["state"]["terminated"]["exitCode"] == 3
    assert status["image"] == "shell"
