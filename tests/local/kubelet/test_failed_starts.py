"""Containers whose command cannot be executed: when they are tried again, and what remains."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING

from hotmap.local.kubelet.runtime import Process

if TYPE_CHECKING:
    from tests.local.kubelet.conftest import LocalNode


async def test_environment_of_a_failed_start_is_not_kept(node: LocalNode) -> None:
    """It may have megabytes, and each retry makes another; only what runs keeps one."""
    gc.collect()
    gc.disable()
    try:
        await node.run_pod("p", "", command=["/missing"])
        await node.waiting("p", "RunContainerError")
        assert node.kubelet is not None
        ((worker, _),) = node.kubelet._workers.values()
        assert worker.containers.states["c"].env == {}
        assert [found for found in gc.get_objects() if isinstance(found, Process)] == []
    finally:
        gc.enable()


async def test_failed_start_is_repeated_like_a_crash(node: LocalNode) -> None:
    """The first time at once, as soon as the kubelet sees that the container has ended."""
    began = time.monotonic()
    await node.run_pod("p", "", command=["/missing"])
    await node.waiting("p", "RunContainerError")
    waiting = await node.waiting("p", "CrashLoopBackOff")
    assert time.monotonic() - began < 8
    assert waiting["message"].startswith("back-off 10s restarting failed container=c")
    status = node.pods.objects["default", "p"]["status"]["containerStatuses"][0]
    assert (status["restartCount"], status["lastState"]["terminated"]["reason"]) == (
        1,
        "StartError",
    )


async def test_failed_start_fails_a_pod_that_never_restarts(node: LocalNode) -> None:
    began = time.monotonic()
    await node.run_pod("p", "", command=["/missing"], pod={"restartPolicy": "Never"})
    await node.phase("p", "Failed")
    assert time.monotonic() - began < 8
    status = node.pods.objects["default", "p"]["status"]["containerStatuses"][0]
    ended = status["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"], ended["containerID"] != "") == (
        128,
        "StartError",
        True,
    )
    assert status["lastState"] == {}
