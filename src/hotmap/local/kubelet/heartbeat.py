"""The status of a node over time: a kubelet reports it again where nothing changes.

kubernetes: pkg/kubelet/kubelet_node_status.go. The sign of life is the Lease, every 10 s (`lease`);
the status follows every 5 minutes (nodeStatusReportFrequency).
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

from hotmap.core.errors import HotmapError
from hotmap.local.kubelet.status import rfc3339

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotmap.local.client import Client

__all__ = ["NodeHeartbeat", "with_known_transitions"]

_log = logging.getLogger(__name__)

#: Seconds between two reports of an unchanged status.
PERIOD = 300.0


class NodeHeartbeat:
    """Reports the conditions of one node again and again."""

    def __init__(
        self,
        client: Client,
        node: str,
        *,
        manager: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._node = node
        self._manager = manager
        self._clock = clock

    async def run(self) -> None:
        """Report until cancelled; a report that fails is tried again at the next."""
        while True:
            await asyncio.sleep(PERIOD)
            try:
                await self.report()
            except HotmapError as error:
                _log.warning("status of node %s: %s", self._node, error)

    async def report(self) -> None:
        """Date the conditions of the node."""
        now = rfc3339(self._clock())

        def change(node: dict[str, Any]) -> dict[str, Any]:
            status = node.get("status") or {}
            conditions = [
                {**known, "lastHeartbeatTime": now} if "lastHeartbeatTime" in known else known
                for known in status.get("conditions") or ()
            ]
            return {**node, "status": {**status, "conditions": conditions}}

        await self._client.modify(
            "nodes", None, self._node, change, manager=self._manager, subresource="status"
        )


def with_known_transitions(
    conditions: list[dict[str, str]], known: list[dict[str, str]]
) -> list[dict[str, str]]:
    """Keep the times of transitions that a node which is known already has had."""
    before = {condition["type"]: condition for condition in known}
    return [
        {**condition, "lastTransitionTime": old["lastTransitionTime"]}
        if (old := before.get(condition["type"])) is not None
        and old.get("status") == condition["status"]
        and "lastTransitionTime" in old
        else condition
        for condition in conditions
    ]
