"""The Node: its labels, and what a kubelet reports of it over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotmap.local.kubelet.heartbeat import NodeHeartbeat

if TYPE_CHECKING:
    from tests.local.kubelet.conftest import LocalNode


async def conditions(node: LocalNode) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await node.registry.get("nodes", None, "local"))["status"][
        "conditions"
    ]
    return found


async def test_node_has_the_older_labels(node: LocalNode) -> None:
    """Manifests still select by them; a node of an earlier version gets them as well."""
    patch = {"metadata": {"labels": {"beta.kubernetes.io/os": None, "own": "kept"}}}
    await node.registry.patch("nodes", None, "local", patch, kind="merge", manager="t")
    await node.restart()
    labels = (await node.registry.get("nodes", None, "local"))["metadata"]["labels"]
    assert labels["beta.kubernetes.io/os"] == "linux"
    assert labels["beta.kubernetes.io/arch"] == labels["kubernetes.io/arch"]
    assert labels["own"] == "kept"


async def test_unchanged_conditions_are_reported_again(node: LocalNode) -> None:
    """With a new heartbeat and the old transition."""
    before = await conditions(node)
    heartbeat = NodeHeartbeat(node.registry, "local", manager="kubelet", clock=lambda: 4e9)
    await heartbeat.report()
    for old, new in zip(before, await conditions(node), strict=True):
        assert new["lastHeartbeatTime"] == "2096-10-02T07:06:40Z"
        assert new["lastTransitionTime"] == old["lastTransitionTime"]


async def test_restart_is_not_a_transition(node: LocalNode) -> None:
    """A node that was ready is ready since then."""
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}

    def change(known: dict[str, Any]) -> dict[str, Any]:
        return {**known, "status": {**known["status"], "conditions": [ready]}}

    await node.registry.modify("nodes", None, "local", change, manager="t", subresource="status")
    await node.restart()
    times = {c["type"]: c["lastTransitionTime"] for c in await conditions(node)}
    assert times["Ready"] == "2020-01-01T00:00:00Z"
    assert times["DiskPressure"] != times["Ready"]
