"""Text in double quotes, as Go's %q prints it: for files of the downward API and for messages.

Standard library only: the agent uses this module.
"""

from __future__ import annotations

__all__ = ["quote"]

_ESCAPES = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}


def quote(text: str) -> str:
    """Quote a text as Go's strconv.Quote does, on one line.

    Which characters count as printable depends on the Unicode version of this Python, as it does
    on that of Kubernetes' Go.
    """
    return '"' + "".join(_escape(character) for character in text) + '"'


def _escape(character: str) -> str:
    # Go's IsPrint and Python's isprintable have one definition: every letter, mark, number,
    # punctuation and symbol, and of the spaces only U+0020.
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
