"""The annotation by which the controller tells a pod which content it should have.

    hotmap.dev/target: <sequence>/<live fingerprint>/<frozen fingerprint>[/<payload digest>[.…]
                       [/<live fingerprint before>/<frozen fingerprint before>]]

The controller writes it, and the agent in the pod reads it from a file.
"""

from __future__ import annotations

from hotmap.core.text import parse_number
from hotmap.core.value import Value

__all__ = ["TARGET", "Target", "parse_target"]

TARGET = "hotmap.dev/target"


class Target(Value):
    """The content that a pod should have.

    sequence: increases with every nudge, by two where the pod may show content before this that it
        was not told of
    live, frozen: fingerprints, opaque
    payloads: digests of `core.payload_digest`, one for each of the pod's volumes that consists of
        ConfigMaps only
    live_before, frozen_before: of the content that the pod started with, by its first nudge; "" if
        that is not known
    """

    sequence: int
    live: str
    frozen: str
    payloads: tuple[str, ...] = ()
    live_before: str = ""
    frozen_before: str = ""

    def __str__(self) -> str:
        text = f"{self.sequence}/{self.live}/{self.frozen}"
        if self.payloads or self.live_before:
            text += f"/{'.'.join(self.payloads)}"
        return f"{text}/{self.live_before}/{self.frozen_before}" if self.live_before else text

    def names_same_content(self, other: Target) -> bool:
        """Return whether two targets name the same content."""
        return (self.live, self.frozen) == (other.live, other.frozen)


def parse_target(text: str) -> Target | None:
    """Parse the value of the annotation; None if it is invalid."""
    parts = text.split("/")
    sequence = parse_number(parts[0])
    if len(parts) < 3 or sequence is None:
        return None
    payloads = tuple(part for part in "".join(parts[3:4]).split(".") if part)
    before = parts[4:6] if len(parts) >= 6 else ("", "")
    return Target(sequence, parts[1], parts[2], payloads, *before)
