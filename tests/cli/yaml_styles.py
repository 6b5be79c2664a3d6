"""Writes a manifest in one of the many ways that YAML allows, chosen at random."""

from __future__ import annotations

import json
import random
from typing import Any

__all__ = ["write_stream"]

_PLAIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ/_.-0123456789"


class _Writer:
    """Writes one document; each mapping, list and text gets a style of its own."""

    def __init__(self, choose: random.Random) -> None:
        self._choose = choose
        self._anchors: dict[str, str] = {}
        self._after_block_scalar = False
        self._listing = choose.choice([0, 0, 2, 2, 1, 4])
        self._step = choose.choice([2, 2, 2, 4, 1, 3])
        self._comments = choose.random() < 0.5

    def write(self, document: dict[str, Any]) -> str:
        return "\n".join(self._mapping(document, 0)) + "\n"

    def _chance(self, probability: float) -> bool:
        return self._choose.random() < probability

    def _noise(self, indent: int) -> list[str]:
        """Write comments and blank lines, sometimes less indented than what follows."""
        if self._after_block_scalar:  # whose line ends they would be
            self._after_block_scalar = False
            return []
        if not self._comments or self._chance(0.85):
            return []
        margin = " " * self._choose.choice([0, indent, indent + 3])
        return self._choose.choice(
            [[""], [f"{margin}# - left: {{over}}"], ["", f"{margin}#", "   "]]
        )

    def _tail(self) -> str:
        if not self._comments or self._chance(0.85):
            return ""
        return self._choose.choice(["  # why: - this", " #", "   "])

    def _mapping(self, value: dict[str, Any], indent: int) -> list[str]:
        lines: list[str] = []
        for key, inner in value.items():
            lines += self._noise(indent)
            lines += self._entry(f"{' ' * indent}{self._key(key)}:", inner, indent)
        return lines

    def _key(self, key: str) -> str:
        return self._choose.choice([f'"{key}"', f"'{key}'"]) if self._chance(0.05) else key

    def _entry(self, start: str, value: Any, indent: int) -> list[str]:
        blank = " " * self._choose.choice([1, 1, 1, 1, 3])
        if isinstance(value, dict | list) and value:
            written = json.dumps(value)
            if written in self._anchors and self._chance(0.7):
                return [f"{start}{blank}*{self._anchors[written]}{self._tail()}"]
            anchor = ""
            if self._chance(0.08):
                name = f"a{len(self._anchors)}"
                anchor = f" &{name}"
                self._anchors[written] = name
            if self._chance(0.15):
                return [f"{start}{anchor}{blank}{self._flow(value)}{self._tail()}"]
            first = f"{start}{anchor}{self._tail()}"
            if isinstance(value, dict):
                return [first, *self._mapping(value, indent + self._step)]
            return [first, *self._list(value, indent + self._listing)]
        if isinstance(value, str) and "\n" in value and self._chance(0.8):
            return self._block_scalar(start, value, indent)
        return [f"{start}{blank}{self._scalar(value)}{self._tail()}"]

    def _block_scalar(self, start: str, value: str, indent: int) -> list[str]:
        self._after_block_scalar = True
        body = value.rstrip("\n")
        ends = len(value) - len(body)
        chomp = {0: "-", 1: ""}.get(ends, "+")
        margin = " " * (indent + self._choose.choice([1, 2, 4]))
        lines = [f"{margin}{line}" if line else "" for line in body.split("\n")]
        return [f"{start} |{chomp}", *lines, *([""] * (ends - 1))]

    def _list(self, value: list[Any], indent: int) -> list[str]:
        lines: list[str] = []
        dash = f"-{' ' * self._choose.choice([1, 1, 1, 3])}"
        for item in value:
            lines += self._noise(indent)
            inner = indent + len(dash)
            if isinstance(item, dict) and item and self._chance(0.85):
                first, *rest = self._block_item(item, inner)
                lines += [" " * indent + dash + first[inner:], *rest]
            elif isinstance(item, dict | list):
                lines.append(f"{' ' * indent}{dash}{self._flow(item)}{self._tail()}")
            else:
                lines.append(f"{' ' * indent}{dash}{self._scalar(item)}{self._tail()}")
        return lines

    def _block_item(self, item: dict[str, Any], indent: int) -> list[str]:
        comments, self._comments = self._comments, False
        key = next(iter(item))
        lines = self._entry(f"{' ' * indent}{self._key(key)}:", item[key], indent)
        self._comments = comments
        return [*lines, *self._mapping({k: v for k, v in item.items() if k != key}, indent)]

    def _flow(self, value: Any) -> str:
        if isinstance(value, dict):
            inside = [f"{self._key(key)}: {self._flow(inner)}" for key, inner in value.items()]
            return self._brackets("{", inside, "}")
        if isinstance(value, list):
            return self._brackets("[", [self._flow(item) for item in value], "]")
        return self._scalar(value, flow=True)

    def _brackets(self, opening: str, inside: list[str], closing: str) -> str:
        blank = self._choose.choice(["", "", " "])
        comma = self._choose.choice([", ", ", ", ",  "])
        last = "," if inside and self._chance(0.05) else ""
        return f"{opening}{blank}{comma.join(inside)}{last}{blank}{closing}"

    def _scalar(self, value: Any, *, flow: bool = False) -> str:
        if not isinstance(value, str):
            if value is None:
                return self._choose.choice(["null", "~"])
            return "{}" if value == {} else "[]" if value == [] else json.dumps(value)
        special = ("true", "null", "yes", "no", "on", "off", "y")
        if value[:1].isalpha() and not set(value) - set(_PLAIN) and value not in special:
            return value if self._chance(0.8) else f'"{value}"'
        if "\n" not in value and value.isprintable() and self._chance(0.5):
            quoted = value.replace("'", "''")
            return f"'{quoted}'"
        return json.dumps(value)


def write_stream(documents: list[dict[str, Any]], seed: int) -> str:
    """Write documents as a stream: block or flow style, JSON, CRLF, byte order mark, separators."""
    choose = random.Random(seed)
    if len(documents) == 1 and choose.random() < 0.15:
        indent = choose.choice([None, 1, 2, "\t"])
        compact = (",", ":") if indent is None and choose.random() < 0.5 else None
        text = json.dumps(documents[0], indent=indent, separators=compact)
        return text + choose.choice(["", "\n", "\n\n"])
    text = choose.choice(
        ["", "", "---\n", "# first\n---\n", "--- # one\n", "\n\n", "%YAML 1.1\n---\n"]
    )
    for number, document in enumerate(documents):
        if number:
            text += choose.choice(["---\n", "---  \n", "...\n---\n", "--- # next\n", "---\n---\n"])
        text += _Writer(choose).write(document)
    # Blank lines after a block scalar may belong to it.
    free = "|" not in text
    text += choose.choice(["", "", "", "...\n", "# last\n", "---\n", "\n\n" if free else ""])
    if choose.random() < 0.1 and free:
        text = text.rstrip("\n")
    if choose.random() < 0.15:
        text = text.replace("\n", "\r\n")
    return f"\ufeff{text}" if choose.random() < 0.1 else text
