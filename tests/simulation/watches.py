"""The watches of the simulated controller: when the cluster's events reach it.

They arrive late, and in the order of each kind. While a connection is interrupted they are held,
until the watch resumes or everything is listed.
"""

from __future__ import annotations

import random
from collections.abc import Collection

from tests.simulation.cluster import Cluster, Event

__all__ = ["Watches"]

#: Seconds from an event to its arrival.
_LATENCY = (0.0, 0.02, 0.3)


class Watches:
    """The watches of one process at a time."""

    def __init__(self, cluster: Cluster, chance: random.Random) -> None:
        self._cluster, self._chance = cluster, chance
        #: Whether the watch of ConfigMaps is interrupted.
        self.is_cut_off = False
        #: Whether all is that goes to and from the API server, or was when the controller ended.
        self.is_outage = False
        #: How many events have been taken from the cluster, and those that have not arrived.
        self._position = 0
        self._pending: list[tuple[float, Event]] = []
        #: Until when the watch of each kind is delayed.
        self._delayed: dict[str, float] = {}

    def start(self) -> None:
        """Begin with a list of everything."""
        self._position = len(self._cluster.events)
        self._pending = []
        self.is_cut_off = self.is_outage = False

    @property
    def is_idle(self) -> bool:
        """Whether all events have arrived."""
        return not self._pending and self._position == len(self._cluster.events)

    @property
    def is_current(self) -> bool:
        """Whether events arrive soon."""
        return not self.is_cut_off and not any(map(self.is_delayed, self._delayed))

    def is_delayed(self, kind: str) -> bool:
        """Return whether the watch of a kind delivers nothing at this time."""
        return self._cluster.now < self._delayed.get(kind, 0.0)

    def delay(self, kind: str, seconds: float) -> None:
        """Let the watch of a kind deliver nothing for a while; then all that it has missed."""
        self._delayed[kind] = self._cluster.now + seconds

    def take_arrived(self) -> list[Event]:
        """Return the events that have arrived by now."""
        for event in self._take_new():
            late = max([at for at, other in self._pending if other.kind == event.kind] + [0.0])
            late = max(late, self._delayed.get(event.kind, 0.0))
            at = max(late, event.at + self._chance.choice(_LATENCY))
            self._pending.append((at, event))
        now = self._cluster.now
        arrived = [event for at, event in self._pending if at <= now]
        self._pending = [(at, event) for at, event in self._pending if at > now]
        if self.is_cut_off:
            held = [(event.at, event) for event in arrived if self._is_held(event)]
            self._pending = held + self._pending
            arrived = [event for event in arrived if not self._is_held(event)]
        return arrived

    def reconnect(self, kinds: Collection[str]) -> list[Event]:
        """End an interruption, and return the events of its kinds that were missed, in order."""
        self.is_cut_off = self.is_outage = False
        missed = [event for _, event in self._pending if event.kind in kinds]
        self._pending = [(at, event) for at, event in self._pending if event.kind not in kinds]
        for event in self._take_new():
            if event.kind in kinds:
                missed.append(event)
            else:
                self._pending.append((event.at, event))
        return missed

    def list_older(self, kind: str, age: float, lag: float) -> list[Event]:
        """List a kind as it was, as its last events by then; a watch delivers the rest later."""
        now, known = self._cluster.now, self._take_new()
        self._pending += [(event.at, event) for event in known if event.kind != kind]
        events = [event for event in self._cluster.events if event.kind == kind]
        newer = [event for event in events if event.at > now - age]
        others = [(at, event) for at, event in self._pending if event.kind != kind]
        self._pending = others + [(now + lag, event) for event in newer]
        return list({event.name: event for event in events if event not in newer}.values())

    def _take_new(self) -> list[Event]:
        new = self._cluster.events[self._position :]
        self._position += len(new)
        return new

    def _is_held(self, event: Event) -> bool:
        return event.kind == "ConfigMap" or self.is_outage
