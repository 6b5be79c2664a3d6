"""The Lease of a node: a kubelet renews it as a sign of life.

kubernetes: pkg/kubelet/kubelet.go (nodeLeaseController) and component-helpers/apimachinery/lease.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hotmap.core.errors import AlreadyExists, HotmapError, NotFound

if TYPE_CHECKING:
    from hotmap.local.client import Client

_log = logging.getLogger(__name__)

NAMESPACE = "kube-node-lease"
#: Seconds that the Lease holds, and between renewals (nodeLeaseDurationSeconds, and a quarter).
DURATION, PERIOD = 40, 10.0


class NodeLease:
    """Creates and renews the Lease of one node; the Node is its owner."""

    def __init__(self, client: Client, node: str, *, manager: str) -> None:
        self._client = client
        self._node = node
        self._manager = manager

    async def run(self) -> None:
        """Renew until cancelled; a renewal that fails is tried again at the next."""
        while True:
            try:
                await self.renew()
            except HotmapError as error:
                _log.warning("lease of node %s: %s", self._node, error)
            await asyncio.sleep(PERIOD)

    async def renew(self) -> None:
        """Renew the Lease once; create it where there is none."""
        now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"

        def change(lease: dict[str, Any]) -> dict[str, Any]:
            return {**lease, "spec": {**(lease.get("spec") or {}), **self._spec(now)}}

        try:
            await self._client.modify(
                "leases.coordination.k8s.io", NAMESPACE, self._node, change, manager=self._manager
            )
        except NotFound:
            await self._create(now)

    async def _create(self, now: str) -> None:
        node = await self._client.get("nodes", None, self._node)
        owner = {
            "apiVersion": "v1",
            "kind": "Node",
            "name": self._node,
            "uid": node["metadata"]["uid"],
        }
        metadata = {"name": self._node, "namespace": NAMESPACE, "ownerReferences": [owner]}
        lease = {"metadata": metadata, "spec": self._spec(now)}
        try:
            await self._client.create(
                "leases.coordination.k8s.io", NAMESPACE, lease, manager=self._manager
            )
        except AlreadyExists:
            return

    def _spec(self, now: str) -> dict[str, Any]:
        return {
            "holderIdentity": self._node,
            "leaseDurationSeconds": DURATION,
            "renewTime": now,
        }
