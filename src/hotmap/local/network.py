"""The addresses of one plane: a range for its pods and one for its Services, both of loopback.

All of 127.0.0.0/8 belongs to every Linux machine without any set-up, so planes need neither
namespaces nor root; each takes a slot of its own, so that several work side by side.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import NamedTuple, Self

from hotmap.core.errors import SettingsError

__all__ = ["SLOTS", "PlaneNetwork", "kubernetes_address"]

#: Planes that may run on one machine at the same time.
SLOTS = 16
_FIRST_POD_NETWORK = 1
_FIRST_SERVICE_NETWORK = 96


class PlaneNetwork(NamedTuple):
    """The ranges of a slot, until `release`."""

    slot: int
    # Held while the slot is: a name in the abstract namespace is free when its process is gone.
    claim: socket.socket | None = None

    @classmethod
    def take(cls) -> Self:
        """Take the first free slot.

        Raises:
            SettingsError: there is none.
        """
        for slot in range(SLOTS):
            claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                claim.bind(f"\0hotmap-local-network-{slot}")
            except OSError:
                claim.close()
                continue
            return cls(slot, claim)
        raise SettingsError(
            f"{SLOTS} local control planes are running on this machine; stop one of them"
        )

    def release(self) -> None:
        """Return the slot back."""
        if self.claim is not None:
            self.claim.close()

    @property
    def pods(self) -> ipaddress.IPv4Network:
        return ipaddress.IPv4Network(f"127.{_FIRST_POD_NETWORK + self.slot}.0.0/16")

    @property
    def services(self) -> ipaddress.IPv4Network:
        return ipaddress.IPv4Network(f"127.{_FIRST_SERVICE_NETWORK + self.slot}.0.0/16")


def kubernetes_address(network: PlaneNetwork) -> str:
    """Return the address of the Service `kubernetes`: the first of the range."""
    return str(network.services[1])
