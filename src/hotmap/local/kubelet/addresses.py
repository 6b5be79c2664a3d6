"""The addresses of the host and of pods: each pod has its own while it exists."""

from __future__ import annotations

import ipaddress
from collections import deque

__all__ = ["HOST_ADDRESS", "POD_NETWORK", "PodAddresses"]

#: Pods share the host's network, so a loopback address is reachable from every pod and from the
#: host.
HOST_ADDRESS = "127.0.0.1"
#: Each pod gets the next address from here on: all of 127.0.0.0/8 is this machine.
POD_NETWORK = ipaddress.IPv4Network("127.1.0.0/16")


class PodAddresses:
    """Gives out the addresses of a network.

    Those that were never used come first, then the one released longest ago: connections to a pod
    that is gone reach no other for as long as possible.
    """

    def __init__(self, network: ipaddress.IPv4Network) -> None:
        self._unused = network.hosts()
        self._released: deque[str] = deque()

    def take(self) -> str:
        """Return an address that no pod has.

        Raises:
            IndexError: all are in use; networks have more addresses than nodes have pods.
        """
        unused = next(self._unused, None)
        return str(unused) if unused is not None else self._released.popleft()

    def release(self, address: str) -> None:
        """Take back an address."""
        self._released.append(address)
