"""Values as Go programs read them: booleans, durations, lists of flags, quoted flag values.

People write flags and annotations for Reloader by Go's rules; what it took is taken here, and
what it refused is refused in a sentence. Sources: go 1.25 src/strconv/atob.go,
src/time/format.go ParseDuration, and spf13/pflag string_slice.go.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable

__all__ = ["parse_bool", "parse_duration", "split_list", "unquote"]

_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))

_DURATION = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
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


def parse_bool(text: str) -> bool:
    """Read a boolean as strconv.ParseBool does.

    Raises:
        ValueError: Go would not read it either.
    """
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(f"{text!r} is no boolean")


def parse_duration(text: str) -> float:
    """Read a duration such as `90s`, `1h15m30.918s`, `-1.5h` or `0` as seconds.

    Raises:
        ValueError: time.ParseDuration would not read it either (no unit, nothing, too long).
    """
    sign, digits = 1.0, text
    if text[:1] in ("-", "+"):
        sign, digits = (-1.0 if text[0] == "-" else 1.0), text[1:]
    if digits == "0":
        return 0.0
    seconds, position = 0.0, 0
    while match := _DURATION.match(digits, position):
        seconds += float(match[1]) * _SECONDS[match[2]]
        position = match.end()
    if position == 0 or position != len(digits) or seconds > _LONGEST:
        raise ValueError(f"{text!r} is no duration (write 30s, 5m or 1h30m)")
    return sign * seconds


def split_list(texts: Iterable[str]) -> tuple[str, ...]:
    """Read a flag that may be repeated and holds a comma list each time, as pflag's StringSlice.

    An item may stand in double quotes, which are taken off; "" holds no item. Space around items
    is no part of them, since no name or selector begins with one.

    Raises:
        ValueError: a quote is not closed.
    """
    items: list[str] = []
    for text in texts:
        try:
            rows = list(csv.reader([unquote(text)], strict=True, skipinitialspace=True))
        except csv.Error as error:
            raise ValueError(f"{text!r} is no comma list ({error})") from error
        items += [item.strip() for row in rows for item in row]
    return tuple(item for item in items if item)


def unquote(text: str) -> str:
    """Take off the quotes that a manifest put around a flag's value (`--namespaces="a,b"` in YAML).

    No shell stands between a manifest and a process, so such quotes arrive as part of the value.
    """
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        inner = text[1:-1]
        return text if text[0] in inner else inner
    return text
