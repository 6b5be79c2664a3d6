"""Durations as Go writes them: `500ms`, `1h15m30.918s`, `-1.5h`, `0`.

The grammar is that of time.ParseDuration (go 1.25, src/time/format.go): an optional sign, then
decimal numbers, each with a unit, in any order; 0 needs no unit. hotmap's own flags and
annotations use the same grammar without negative values.

Standard library only, without `re`: the agent uses this module.
"""

from __future__ import annotations

from hotmap.core.text import quote_short

__all__ = [
    "InvalidDuration",
    "format_age",
    "format_time_of_day",
    "parse_duration",
    "parse_signed_duration",
]

_SECONDS = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,  # U+00B5, micro sign
    "μs": 1e-6,  # U+03BC, Greek letter mu
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}

#: Seconds that fit into Go's time.Duration, 63 bits of nanoseconds.
_LONGEST = float(2**63 - 1) / 1e9

_NUMBER = "0123456789."

_EXPECTED = "expected a number with a unit, such as 500ms or 5s"


class InvalidDuration(ValueError):
    """Raised when a text is not a duration; `reason` is the message without the text itself."""

    noun = "duration"

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(f"invalid duration {quote_short(text)}: {reason}")
        self.reason = reason


def parse_duration(text: str) -> float:
    """Parse a duration that is not negative, in seconds; for hotmap's flags and annotations.

    Raises:
        InvalidDuration: time.ParseDuration would not parse it either, or it is negative.
    """
    seconds = parse_signed_duration(text)
    if seconds < 0:
        raise InvalidDuration(text, "must not be negative")
    return seconds


def parse_signed_duration(text: str) -> float:
    """Parse a duration as time.ParseDuration does, in seconds; for what Go programs also read.

    Raises:
        InvalidDuration: a unit is missing or unknown, the text is empty or has anything else in
            it, or it is longer than Go's time.Duration (292 years).
    """
    sign, rest = 1.0, text
    if text[:1] in ("-", "+"):
        sign, rest = (-1.0 if text[0] == "-" else 1.0), text[1:]
    if rest == "0":
        return 0.0
    if not rest:
        raise InvalidDuration(text, _EXPECTED)
    seconds = 0.0
    while rest:
        after_number = rest.lstrip(_NUMBER)
        number = rest[: len(rest) - len(after_number)]
        unit, rest = _split_unit(after_number)
        if unit not in _SECONDS or not number.replace(".", "", 1).isdecimal():
            raise InvalidDuration(text, _EXPECTED)
        seconds += float(number) * _SECONDS[unit]
    if seconds > _LONGEST:
        raise InvalidDuration(text, "must not exceed 292 years")
    return sign * seconds


def format_age(seconds: float) -> str:
    """Write seconds as kubectl writes an age, with the two largest units: 2h5m."""
    whole = int(seconds)
    for size, name, smaller, small in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "m"),
        (60, "m", 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size}{name}" + (f"{rest}{small}" if rest else "")
    return f"{whole}s"


def _split_unit(text: str) -> tuple[str, str]:
    """Split a text before its first digit or point."""
    for position, character in enumerate(text):
        if character in _NUMBER:
            return text[:position], text[position:]
    return text, ""


def format_time_of_day(at: float) -> str:
    """Format POSIX seconds as a time of day in UTC, such as 14:02:11."""
    minutes, second = divmod(int(at) % 86400, 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}"
