"""Parses values as Go programs do: booleans, list flags, quoted flag values.

Flags and annotations for Reloader follow Go's rules; the same values are accepted and rejected
here. Sources: go 1.25 src/strconv/atob.go and spf13/pflag string_slice.go. Durations are in
`core.duration`.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable

from hotmap.core.text import quote_short

__all__ = ["parse_bool", "split_list", "unquote"]

_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))


def parse_bool(text: str) -> bool:
    """Read a boolean as strconv.ParseBool does.

    Raises:
        ValueError: Go would not read it either.
    """
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(f"invalid boolean {quote_short(text)}: expected true or false")


def split_list(texts: Iterable[str]) -> tuple[str, ...]:
    """Read a repeatable flag with a comma-separated list, as pflag's StringSlice.

    An item may be in double quotes, which are removed; "" has no item. Space around items is
    ignored, since no name or selector begins with one.

    Raises:
        ValueError: a quote is not closed.
    """
    items: list[str] = []
    for text in texts:
        try:
            rows = list(csv.reader([unquote(text)], strict=True, skipinitialspace=True))
        except csv.Error as error:
            raise ValueError(f"invalid list {quote_short(text)}: {error}") from error
        items += [item.strip() for row in rows for item in row]
    return tuple(item for item in items if item)


def unquote(text: str) -> str:
    """Remove the quotes that a manifest has around a flag's value (`--namespaces="a,b"` in YAML).

    No shell processes a manifest's arguments, so such quotes are part of the value.
    """
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        inner = text[1:-1]
        return text if text[0] in inner else inner
    return text
