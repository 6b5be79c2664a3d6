"""The edits, node events and crashes of a random history, independent of its target.

The simulation on simulated time and the one on a real API server draw from here, so that both play
the same kinds of histories.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from tests.simulation.pods import SOURCES, TEMPLATES

__all__ = ["EDITS", "Content", "Disturbance", "draw", "pause_after"]

#: The data of a ConfigMap.
Content = dict[str, str]

#: What happens, and how often beside the rest.
_OFTEN = {
    "edit": 10,
    "remove": 4,
    "label": 1,
    "recreate": 1,
    "template": 4,
    "undo": 3,
    "scale": 3,
    "pause": 1,
    "evict": 2,
    "crash": 2,
    "down": 5,
    "cut_off": 5,
}

#: What happens in the simulated cluster alone, where objects are cheap to read again.
_SIMULATED = {
    **_OFTEN,
    "delete": 1,
    "seal": 1,
    "ignore": 1,
    "follow": 1,
    "lose_state": 1,
    "neighbour": 1,
}

#: What happens to a source.
EDITS = ("edit", "remove", "label", "recreate", "delete", "seal", "ignore")


class Disturbance(NamedTuple):
    """One event, with all that is random about it."""

    kind: str
    source: str
    #: The data key and the value of an edit.
    key: str
    value: str
    #: Which of several there are, as a share of them: below 1.
    pick: float
    template: int
    image: int
    replicas: int
    #: Whether it comes about in the harder way.
    hard: bool
    #: Seconds between the deletion and the creation of a source.
    gap: float

    def edited(self, data: Content | None) -> Content:
        """Return the data of the source after an edit."""
        return {**(data or {"a": "0"}), self.key: self.value}

    def without_key(self, data: Content) -> Content:
        """Return the data of the source after the removal of one of its data keys."""
        gone = self.chosen(sorted(data))
        return {key: data[key] for key in data if key != gone}

    def recreated(self, data: Content) -> Content:
        """Return the data of the source when it comes back."""
        first = "012".index(self.value)
        return {key: "012"[(first + number) % 3] for number, key in enumerate(sorted(data))}

    def chosen(self, names: list[str]) -> str:
        """Return one of some names."""
        return names[int(self.pick * len(names))]


def draw(chance: random.Random, *, simulated: bool = False) -> Disturbance:
    """Draw the next event; `simulated` adds those that only the simulated cluster has."""
    often = _SIMULATED if simulated else _OFTEN
    kind = chance.choices(tuple(often), tuple(often.values()))[0]
    return Disturbance(
        kind,
        source=chance.choice(SOURCES),
        key=chance.choice("abc"),
        value=chance.choice("012"),
        pick=chance.random(),
        template=chance.randrange(len(TEMPLATES)),
        image=chance.randrange(3),
        replicas=chance.choice((0, 1, 2, 3)),
        hard=chance.random() < 0.5,
        gap=chance.choice((0.0, 0.5, 3.0)),
    )


def pause_after(chance: random.Random) -> float:
    """Draw the seconds until the next event."""
    return chance.choice((0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 15.0))
