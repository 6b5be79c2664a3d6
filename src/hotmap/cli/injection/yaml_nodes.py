"""A manifest as a tree of nodes that know their position in the text.

Parsed with PyYAML's parser, which gives positions; its composer resolves aliases and loses their
positions, so the tree is built here. JSON is parsed as YAML, of which it is a subset.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal

import yaml

__all__ = ["Entry", "InvalidYaml", "Node", "read_documents"]

Kind = Literal["mapping", "sequence", "scalar"]


class InvalidYaml(Exception):
    """The text is not valid YAML: the problem, and `line`, counted from 1."""

    def __init__(self, text: str, line: int) -> None:
        super().__init__(text)
        self.line = line


class Entry:
    """A key of a mapping with its value."""

    __slots__ = ("key", "value")

    def __init__(self, key: Node, value: Node) -> None:
        self.key = key
        self.value = value


class Node:
    """A value, and the part of the text from `start` up to `end` that holds it."""

    __slots__ = ("alias", "end", "entries", "flow", "items", "kind", "scalar", "start")

    def __init__(self, kind: Kind, start: int) -> None:
        self.kind = kind
        self.start = start
        self.end = start
        #: SourceText in brackets, as JSON is.
        self.flow = False
        #: SourceText as `*name`: the value stands elsewhere, and more than one place has it.
        self.alias = False
        self.scalar: Any = None
        #: Of a sequence.
        self.items: list[Node] = []
        #: Of a mapping, in the order of the text; a merge key (`<<`) is one of them.
        self.entries: list[Entry] = []

    @property
    def data(self) -> Any:
        """The value as Python data, merge keys applied; nothing in it is shared."""
        if self.kind == "scalar":
            return self.scalar
        if self.kind == "sequence":
            return [item.data for item in self.items]
        merged: dict[Any, Any] = {}
        for entry in self.entries:
            if entry.key.scalar == "<<":
                sources = entry.value.items if entry.value.kind == "sequence" else [entry.value]
                for source in reversed(sources):
                    if source.kind == "mapping":
                        merged.update(source.data)
        for entry in self.entries:
            if entry.key.scalar != "<<":
                merged[entry.key.data if entry.key.kind == "scalar" else None] = entry.value.data
        return merged

    def entry(self, key: str) -> Entry | None:
        """Find a key of the mapping itself, not of one that is merged into it."""
        found = None
        for entry in self.entries:
            if entry.key.scalar == key:
                found = entry
        return found

    def get(self, *path: str) -> Node | None:
        """Find a value by its path; None where there is none."""
        node: Node | None = self
        for key in path:
            entry = node.entry(key) if node is not None and node.kind == "mapping" else None
            node = entry.value if entry else None
        return node


def read_documents(text: str) -> list[Node]:
    """Parse every document of a YAML stream; an empty one is a scalar None.

    Raises:
        InvalidYaml: it is not valid YAML.
    """
    try:
        return list(_Composer(text).documents())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or "syntax error"
        if "'\\t'" in problem:
            problem = "indented with a tab; YAML requires spaces"
        raise InvalidYaml(problem, mark.line + 1 if mark else 1) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        found = error.character if isinstance(error.character, int) else ord(error.character)
        raise InvalidYaml(f"the character U+{found:04X} is not allowed", line) from None


class _Composer:
    def __init__(self, text: str) -> None:
        self._text = text
        self._events: Iterator[Any] = iter(yaml.parse(text, Loader=yaml.SafeLoader))
        self._anchors: dict[str, Node] = {}

    def documents(self) -> Iterator[Node]:
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors = {}
                yield self._node(next(self._events))

    def _node(self, event: Any) -> Node:
        start = event.start_mark.index
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        if isinstance(event, yaml.ScalarEvent):
            node = Node("scalar", start)
            node.scalar = _scalar(event)
            node.end = self._scalar_end(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = self._sequence(event)
        else:
            node = self._mapping(event)
        if event.anchor:
            self._anchors[event.anchor] = node
        return node

    def _alias(self, event: Any) -> Node:
        original = self._anchors.get(event.anchor)
        if original is None:
            raise yaml.composer.ComposerError(
                None, None, f"the alias *{event.anchor} has no anchor &{event.anchor}",
                event.start_mark,
            )  # fmt: skip
        node = Node(original.kind, event.start_mark.index)
        node.end = event.end_mark.index
        node.alias = True
        node.flow = original.flow
        node.scalar, node.items, node.entries = original.scalar, original.items, original.entries
        return node

    def _sequence(self, event: Any) -> Node:
        node = Node("sequence", event.start_mark.index)
        node.flow = bool(event.flow_style)
        for inner in self._events:
            if isinstance(inner, yaml.SequenceEndEvent):
                node.end = _end(inner) if node.flow else node.items[-1].end
                return node
            node.items.append(self._node(inner))
        raise AssertionError("the parser ended inside a sequence")

    def _mapping(self, event: Any) -> Node:
        node = Node("mapping", event.start_mark.index)
        node.flow = bool(event.flow_style)
        for inner in self._events:
            if isinstance(inner, yaml.MappingEndEvent):
                node.end = _end(inner) if node.flow else node.entries[-1].value.end
                return node
            key = self._node(inner)
            node.entries.append(Entry(key, self._node(next(self._events))))
        raise AssertionError("the parser ended inside a mapping")

    def _scalar_end(self, event: Any) -> int:
        """Exclude the blank lines after a block scalar, unless they belong to it (`|+`)."""
        start, end = event.start_mark.index, event.end_mark.index
        if event.style not in ("|", ">"):
            return int(end)
        written = self._text[start:end]
        header = re.search(r"[|>][0-9+-]*", written)
        if header and "+" in header[0]:
            return int(end) - (len(written) - len(re.sub(r"\r?\n[ \t]*$", "", written)))
        return int(start) + len(written.rstrip())


def _end(event: Any) -> int:
    return int(event.end_mark.index)


class _Scalars(yaml.SafeLoader):
    """Resolves plain scalars to numbers, booleans and null; dates stay text."""

    def value(self, event: Any) -> Any:
        tag = event.tag
        if tag is None or tag == "!":
            resolve: Any = self.resolve
            tag = resolve(yaml.ScalarNode, event.value, event.implicit)
        make = {
            "null": self.construct_yaml_null,
            "bool": self.construct_yaml_bool,
            "int": self.construct_yaml_int,
            "float": self.construct_yaml_float,
        }.get(str(tag).rpartition(":")[2])
        try:
            return make(yaml.ScalarNode(tag, event.value)) if make else event.value
        except (ValueError, KeyError, yaml.YAMLError):
            return event.value


_SCALARS = _Scalars("")


def _scalar(event: Any) -> Any:
    value = _SCALARS.value(event)
    if isinstance(value, str) and re.search("[\ud800-\udfff]", value):
        # JSON writes one character as two escapes, which YAML reads as two characters.
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value
