"""Warns a controller without leader election that another one leads.

Both would roll out the same workloads. Reads the Lease and never writes it.
"""

from __future__ import annotations

import asyncio
import logging
from math import floor

from hotmap.core.errors import ApiError, Unreachable
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.source import parse_time
from hotmap.kube.client import Client
from hotmap.kube.leaderelection import DEFAULT_TIMING
from hotmap.kube.lease import LeaseClient

__all__ = ["OtherLeaderWarning"]

#: Seconds between two reads of the Lease.
_PERIOD = 60.0

_log = logging.getLogger(__name__)


class OtherLeaderWarning:
    """Logs each leader that is found, once for as long as it leads."""

    def __init__(self, client: Client, lease: ObjectKey) -> None:
        self._client = client
        self._lease = lease
        self._leases = LeaseClient(client, lease, default_duration=DEFAULT_TIMING.duration)
        self._known = ""

    async def run(self) -> None:
        """Look for a leader until cancelled."""
        while True:
            await self.check()
            await asyncio.sleep(_PERIOD)

    async def check(self) -> None:
        """Log a leader that was not known; without the right to read the Lease, nothing."""
        try:
            holder = await self._holder()
        except (ApiError, Unreachable) as error:
            _log.debug("%s cannot be read: %s", self._lease, error)
            return
        if holder and holder != self._known:
            _log.warning(
                "%s is the leader (%s): both controllers act on the same workloads; stop one of "
                "them, or leave out --no-leader-elect here",
                holder,
                self._lease,
            )
        self._known = holder

    async def _holder(self) -> str:
        """Return the holder of the Lease if it has not expired; "" if there is none."""
        lease = await self._leases.get()
        if lease is None or not lease.record.holder:
            return ""
        spec = lease.body.get("spec")
        text = spec.get("renewTime") if isinstance(spec, dict) else None
        renewed = parse_time(text if isinstance(text, str) else None)
        expires = -1.0 if renewed is None else renewed + lease.record.duration + 1
        return lease.record.holder if floor(self._client.server_time()) <= expires else ""
