"""Makes untrusted text safe for one line of a message, log or terminal; parses numbers.

Users who may write a pod template or an annotation choose names, paths and values. A line feed in
one of them would forge a log line, an escape sequence would reach the terminal of a user of `hotmap
why`, and a megabyte would be repeated in every message.

Standard library only: the agent uses this module.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["join_names", "parse_number", "printable", "quote", "quote_short", "shorten"]

_ESCAPES = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}

#: Digits of the largest number of 63 bits, which is what Kubernetes counts with.
_DIGITS = 19


def printable(text: str, limit: int | None = None) -> str:
    """Escape characters that are not printable, and cut a text after `limit` characters.

    Escaped as in Go's strconv.Quote: C0 and C1 control characters, DEL, line and paragraph
    separators, directional overrides and isolates, other format characters, unassigned ones and
    lone surrogates; of the spaces all but U+0020. Backslashes are unchanged, so the result is
    readable but cannot be decoded.
    """
    if limit is not None and len(text) > limit:
        text = shorten(text, limit)
    return text if text.isprintable() else "".join(map(_escape, text))


def quote(text: str) -> str:
    """Quote a text as Go's strconv.Quote does, on one line.

    Which characters count as printable depends on the Unicode version of this Python, as it does
    on that of Kubernetes' Go.
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{printable(escaped)}"'


def quote_short(text: str) -> str:
    """Quote an invalid text for an error message."""
    return quote(shorten(text, 80))


def shorten(text: str, limit: int) -> str:
    """Cut a text after `limit` characters; an ellipsis shows where it was cut."""
    return text if len(text) <= limit else f"{text[:limit]}…"


def join_names(names: Sequence[str], most: int = 3) -> str:
    """Write the first of some names, and how many more there are."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def _escape(character: str) -> str:
    # Go's IsPrint and Python's isprintable have one definition: every letter, mark, number,
    # punctuation and symbol, and of the spaces only U+0020.
    if character.isprintable():
        return character
    if character in _ESCAPES:
        return _ESCAPES[character]
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def parse_number(text: str) -> int | None:
    """Read a decimal number of at most 19 ASCII digits; None for anything else.

    Stricter than `int`, which also takes signs, spaces and other scripts' digits, and raises for
    very long texts.
    """
    if 0 < len(text) <= _DIGITS and text.isascii() and text.isdigit():
        return int(text)
    return None
