"""Samples of a Prometheus page, in its text format or OpenMetrics.

NAME VALUE
NAME{LABEL="TEXT",LABEL="TEXT"} VALUE TIMESTAMP
"""

from __future__ import annotations

__all__ = ["parse_sample"]

_ESCAPES = {"\\": "\\", '"': '"', "n": "\n"}


def parse_sample(line: str) -> tuple[str, dict[str, str], str] | None:
    """Parse a line into name, labels and value; None where it is not a sample.

    Labels may be in any order, and a timestamp or an exemplar may follow the value.
    """
    line = line.strip()
    end = next((place for place, letter in enumerate(line) if letter in "{ \t"), len(line))
    name, rest = line[:end], line[end:].lstrip()
    if not name or name.startswith("#"):
        return None
    labels: dict[str, str] = {}
    if rest.startswith("{"):
        after = _parse_labels(rest, labels)
        if after is None:
            return None
        rest = rest[after:]
    words = rest.split()
    return (name, labels, words[0]) if words else None


def _parse_labels(text: str, labels: dict[str, str]) -> int | None:
    """Parse labels in braces; return the place after them, None where they are not well-formed."""
    place = 1
    while True:
        while place < len(text) and text[place] in ", \t":
            place += 1
        if text[place : place + 1] == "}":
            return place + 1
        equals = text.find("=", place)
        if equals < 0:
            return None
        label = text[place:equals].strip()
        place = len(text) - len(text[equals + 1 :].lstrip())
        if not label or text[place : place + 1] != '"':
            return None
        value, place = "", place + 1
        while text[place : place + 1] != '"':
            if place >= len(text):
                return None
            if text[place] == "\\":
                place += 1
                value += _ESCAPES.get(text[place : place + 1], "\\" + text[place : place + 1])
            else:
                value += text[place]
            place += 1
        labels[label] = value
        place += 1
