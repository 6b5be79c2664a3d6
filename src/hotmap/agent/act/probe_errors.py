"""What a probe raises while it does not show that an action took effect.

NotConfirmed            not yet: read it again
  Refused               tell the application again
    NothingToCompare    at once: reading it again would show nothing more
"""

from __future__ import annotations

__all__ = ["NotConfirmed", "NothingToCompare", "Refused"]


class NotConfirmed(Exception):
    """Raised when a probe does not show (yet) what it should; one sentence."""


class Refused(NotConfirmed):
    """Raised when the application says what it has not loaded; it has to be told again."""


class NothingToCompare(Refused):
    """Raised when what a probe shows proves nothing, and will not: it was not read in time."""
