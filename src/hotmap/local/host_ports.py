"""The ports of the machine that pods ask for, and whether two of them collide.

kubernetes: pkg/scheduler/framework/plugins/nodeports and framework.HostPortInfo.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final, NamedTuple

__all__ = ["NO_FREE_PORTS", "HostPort", "collides", "host_ports"]

#: Why a node is refused, in upstream's words.
NO_FREE_PORTS: Final = "node(s) didn't have free ports for the requested pod ports"

_ANY_ADDRESS = "0.0.0.0"


class HostPort(NamedTuple):
    """A port of the machine."""

    protocol: str
    port: int
    address: str


def host_ports(pod: dict[str, Any]) -> frozenset[HostPort]:
    """Return the ports that the containers of a pod ask for, with restartable init containers."""
    return frozenset(_host_ports(pod["spec"]))


def _host_ports(spec: dict[str, Any]) -> Iterator[HostPort]:
    restartable = (
        each for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"
    )
    for container in (*spec["containers"], *restartable):
        for port in container.get("ports") or ():
            if port.get("hostPort"):
                address = port.get("hostIP") or _ANY_ADDRESS
                yield HostPort(port.get("protocol", "TCP"), port["hostPort"], address)


def collides(wanted: Collection[HostPort], used: Collection[HostPort]) -> bool:
    """Return whether one of some ports is taken."""
    return any(
        (port.protocol, port.port) == (taken.protocol, taken.port)
        and (port.address == taken.address or _ANY_ADDRESS in (port.address, taken.address))
        for port in wanted
        for taken in used
    )
