"""The addresses of pods: each has its own while it exists."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ipaddress

__all__ = ["PodAddresses"]


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
