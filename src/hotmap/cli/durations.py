"""Durations on the command line: `500ms`, `1.5s`, `2m30s`, `0`."""

from __future__ import annotations

from hotmap.core.duration import InvalidDuration, parse_duration
from hotmap.core.errors import SettingsError

__all__ = ["read_duration"]


def read_duration(flag: str, text: str) -> float:
    """Read the value of a flag as seconds.

    Raises:
        SettingsError: the duration is invalid; the text names the flag.
    """
    try:
        return parse_duration(text)
    except InvalidDuration as error:
        raise SettingsError(f"{flag}: {error}") from None
