"""Writes values as YAML in a manifest's own style, as text that is added to it."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

import yaml

from hotmap.cli.injection.yaml_nodes import Node, find_dash

__all__ = ["Style", "find_style", "flow_text", "lines_of"]


class Style(NamedTuple):
    """How a manifest is written."""

    newline: str
    #: Lists are indented below their key.
    indented: bool
    #: The manifest is JSON, without blanks after colons and commas if it is compact.
    json: bool
    compact: bool

    @property
    def comma(self) -> str:
        """What separates two values in brackets."""
        return "," if self.compact else ", "

    @property
    def blank(self) -> str:
        """White space between a colon and a value in brackets."""
        return "" if self.compact else " "


def find_style(text: str, documents: Iterable[tuple[str, Node]]) -> Style:
    """Return how a manifest is written; each document comes with the text of its positions."""
    is_json = re.match(r"[\ufeff\s]*[\[{]", text) is not None
    return Style(
        newline="\r\n" if "\r\n" in text else "\n",
        indented=_lists_are_indented(documents),
        json=is_json,
        compact=is_json and re.search(r'"\s*:\s', text) is None,
    )


def lines_of(value: Any, style: Style) -> list[str]:
    """Write a mapping or a list in block style."""
    return list(_block(value, 2 if style.indented else 0))


def _block(value: Any, indent: int) -> Iterable[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _entry(f"{_word(key)}:", inner, indent)
    else:
        for item in value:
            if isinstance(item, dict | list) and item:
                first, *rest = _block(item, indent)
                yield f"- {first}"
                yield from (f"  {line}" for line in rest)
            else:
                yield f"- {_leaf(item)}"


def _entry(start: str, value: Any, indent: int) -> Iterable[str]:
    if not (isinstance(value, dict | list) and value):
        yield f"{start} {_leaf(value)}"
        return
    yield start
    margin = " " * (2 if isinstance(value, dict) else indent)
    yield from (f"{margin}{line}" for line in _block(value, indent))


def _leaf(value: Any) -> str:
    if isinstance(value, dict | list):
        return "{}" if isinstance(value, dict) else "[]"
    return _word(value)


def flow_text(value: Any, style: Style) -> str:
    """Write a value in one line: as JSON in a JSON manifest, else in YAML's flow style."""
    if style.json:
        separators = (",", ":") if style.compact else None
        written = json.dumps(value, ensure_ascii=False, separators=separators)
        return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", written)
    return _flow(value)


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        found = (f"{_word(key, flow=True)}: {_flow(inner)}" for key, inner in value.items())
        return f"{{{', '.join(found)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_flow, value))}]"
    return _word(value, flow=True)


#: Texts that mean themselves without quotes, except those that mean something else.
_PLAIN = re.compile(r"[A-Za-z/_][A-Za-z0-9_./-]*")
_SPECIAL = re.compile("y|n|yes|no|on|off|true|false|null|none", re.IGNORECASE)


def _word(value: Any, *, flow: bool = False) -> str:
    if isinstance(value, str):
        if _PLAIN.fullmatch(value) and not _SPECIAL.fullmatch(value):
            return value
        return _scalar(value, flow)
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return str(value) if type(value) is int else _scalar(value, flow)


@lru_cache(maxsize=4096)
def _scalar(value: Any, flow: bool) -> str:
    """Write a scalar as PyYAML does."""
    written: str = yaml.dump(
        [value], Dumper=_Dumper, default_flow_style=flow, allow_unicode=True, width=1 << 30
    )
    return written.strip()[1:-1] if flow else written.rstrip("\n").removeprefix("- ")


class _Dumper(yaml.SafeDumper):
    pass


#: Plain scalars that other parsers than PyYAML's read as a boolean or a number.
_MISREAD = re.compile(r"[yYnN]|0o[0-7_]+|(?=.*[0-9])[-+.0-9][-+.0-9_eE:xa-fA-F]*")

#: Characters that JSON allows and YAML reads as a line end or rejects.
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]")


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    quoted = "\n" in text or _MISREAD.fullmatch(text)
    style = '"' if quoted else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def _lists_are_indented(documents: Iterable[tuple[str, Node]]) -> bool:
    pending = deque(documents)
    while pending:
        text, node = pending.popleft()
        for entry in node.entries:
            inner = entry.value
            if inner.kind == "sequence" and not (inner.flow or inner.alias):
                return _column(text, find_dash(text, inner)) > _column(text, entry.key.start)
        pending += [(text, entry.value) for entry in node.entries if not entry.value.alias]
        pending += [(text, item) for item in node.items if not item.alias]
    return False


def _column(text: str, place: int) -> int:
    return place - (text.rfind("\n", 0, place) + 1)
