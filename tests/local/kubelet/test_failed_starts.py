"""What remains of a container whose command cannot be executed."""

from __future__ import annotations

import gc
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
