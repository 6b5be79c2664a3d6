"""A node takes only so many pods, and gives their addresses out again."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from tests.local.kubelet.conftest import LocalNode

from hotmap.local.kubelet.addresses import PodAddresses
from hotmap.local.kubelet.sync import SyncSettings

if TYPE_CHECKING:
    from pathlib import Path


async def test_kubelet_fails_pods_beyond_its_number(tmp_path: Path) -> None:
    """Upstream's reason and texts; a finished pod makes room; the failed pod can be deleted."""
    node = LocalNode(tmp_path / "node")
    try:
        await node.start(SyncSettings(max_pods=1))
        known = await node.registry.get("nodes", None, "local")
        assert known["status"]["allocatable"]["pods"] == "1"
        await node.run_pod("first", "sleep 1000", pod={"restartPolicy": "Never"})
        await node.phase("first", "Running")
        await node.run_pod("second", "sleep 1000")
        failed = await node.phase("second", "Failed")
        text = "Node didn't have enough resource: pods, requested: 1, used: 1, capacity: 1"
        assert failed["status"]["reason"] == "OutOfpods"
        assert failed["status"]["message"] == f"Pod was rejected: {text}"
        await node.event("OutOfpods", text)
        await node.registry.delete("pods", "default", "second")
        await node.gone("second")
        await node.registry.delete("pods", "default", "first")
        await node.gone("first")
        await node.run_pod("third", "sleep 1000")
        await node.phase("third", "Running")
    finally:
        await node.stop()


def test_addresses_are_used_again_when_all_were_given_out() -> None:
    """Never used ones first, then those released longest ago."""
    addresses = PodAddresses(ipaddress.IPv4Network("127.1.0.0/29"))
    taken = [addresses.take() for _ in range(6)]
    assert len(set(taken)) == 6
    addresses.release(taken[3])
    addresses.release(taken[0])
    assert [addresses.take(), addresses.take()] == [taken[3], taken[0]]
