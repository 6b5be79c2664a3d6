"""A manifest as a tree of nodes that know their position in the text.

Parsed with PyYAML's parser, which gives positions; its composer resolves aliases and loses their
positions, so the tree is built here. JSON is parsed as YAML, of which it is a subset.

A stream is parsed in parts, each up to the next line that starts with `---`, so that an edit of one
document needs no more than that document to be parsed again. libyaml parses where PyYAML has it; a
text that it refuses is parsed by PyYAML, whose errors are better, and which takes JSON's escapes of
surrogates.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import yaml

from hotmap.core.yaml_scalars import read_scalar

__all__ = ["Entry", "InvalidYaml", "Node", "Part", "find_dash", "read_documents", "read_parts"]

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

    __slots__ = ("alias", "end", "entries", "flow", "items", "kind", "merges", "scalar", "start")

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
        self.items: Sequence[Node] = ()
        #: Of a mapping, in the order of the text; a merge key (`<<`) is one of them.
        self.entries: Sequence[Entry] = ()
        #: A mapping with a merge key.
        self.merges = False

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
                # In the order of the text, as kubectl reads it: it replaces what precedes it.
                sources = entry.value.items if entry.value.kind == "sequence" else [entry.value]
                for source in reversed(sources):
                    if source.kind == "mapping":
                        merged.update(source.data)
            else:
                merged[entry.key.scalar] = entry.value.data
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


class Part(NamedTuple):
    """A part of a stream: one document as a rule, or only comments; positions are in its text."""

    text: str
    documents: list[Node]


def read_documents(text: str) -> list[Node]:
    """Parse every document of a YAML stream, as `read_parts` does."""
    return [document for part in read_parts(text) for document in part.documents]


def read_parts(text: str) -> list[Part]:
    """Parse a YAML stream; its parts' texts joined are the stream. An empty document is None.

    Raises:
        InvalidYaml: it is not valid YAML.
    """
    try:
        if _FAST is not None:
            try:
                return [Part(part, _compose(part, _FAST)) for part in _split(text)]
            except yaml.YAMLError:
                pass
        return [Part(text, _read_slowly(text))]
    except RecursionError:
        raise InvalidYaml("nested too deeply", 1) from None


def find_dash(text: str, sequence: Node) -> int:
    """Find the first dash of a list in block style; an anchor or a tag may stand before it."""
    if text[sequence.start] == "-":
        return sequence.start
    found = _DASH.search(text, sequence.start)
    return found.end() - 1 if found else sequence.start


#: A dash in a line of its own list.
_DASH = re.compile("^ *-", re.MULTILINE)

#: libyaml's parser, where PyYAML was built with it.
_FAST: Any = getattr(yaml, "CSafeLoader", None)

_SLOW: Any = yaml.SafeLoader

#: Values that the aliases of one document may stand for in all: nested ones multiply, so that a few
#: lines would fill the memory.
_MOST_ALIASED = 1_000_000

#: A line that starts a document, wherever it stands; and one that is a directive.
_START = re.compile(r"^---(?=[ \t\r\n]|\Z)", re.MULTILINE)
_DIRECTIVE = re.compile("^%", re.MULTILINE)


def _split(text: str) -> list[str]:
    if _DIRECTIVE.search(text):
        return [text]
    places = [found.start() for found in _START.finditer(text)]
    places = [0, *(place for place in places if place > 0), len(text)]
    return [text[start:end] for start, end in pairwise(places)]


def _compose(text: str, loader: Any) -> list[Node]:
    """Parse a text with one of the parsers; a byte order mark counts as a character."""
    mark = 1 if text.startswith("\ufeff") else 0
    return list(_Composer(text[mark:], loader, mark).documents())


def _read_slowly(text: str) -> list[Node]:
    try:
        return _compose(_without_tabs(text), _SLOW)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or "syntax error"
        if problem.startswith("expected '<document start>'"):
            problem = "a document ends here; separate two with a line ---"
        if "'\\t'" in problem:
            problem = "indented with a tab; YAML requires spaces"
        if problem.startswith("found undefined tag handle"):  # not named: as for an alias
            problem = "a tag (!) is not defined; put a text that begins with ! in quotes"
        raise InvalidYaml(problem, mark.line + 1 if mark else 1) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        found = error.character if isinstance(error.character, int) else ord(error.character)
        raise InvalidYaml(f"the character U+{found:04X} is not allowed", line) from None


def _without_tabs(text: str) -> str:
    """Replace the tabs in JSON, which has none in its strings: PyYAML takes none."""
    if "\t" in text and text.lstrip("\ufeff \t\r\n")[:1] in ("{", "["):
        try:
            json.loads(text.lstrip("\ufeff"))
        except ValueError:
            return text
        return text.replace("\t", " ")
    return text


class _Composer:
    def __init__(self, text: str, loader: Any, offset: int) -> None:
        """`offset`: what is added to positions."""
        self._text = text
        self._offset = offset
        self._events: Iterator[Any] = iter(yaml.parse(text, Loader=loader))
        self._anchors: dict[str, Node] = {}
        #: Values of each anchor, aliases in it written out; and those of the document so far.
        self._sizes: dict[str, int] = {}
        self._size = self._aliased = 0

    def documents(self) -> Iterator[Node]:
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors, self._sizes, self._aliased = {}, {}, 0
                yield self._node(next(self._events))

    def _node(self, event: Any) -> Node:
        kind = type(event)
        before = self._size
        self._size += 1
        if kind is yaml.ScalarEvent:
            node = Node("scalar", event.start_mark.index + self._offset)
            node.scalar = _scalar(event)
            node.end = self._scalar_end(event) + self._offset
        elif kind is yaml.AliasEvent:
            return self._alias(event)
        elif kind is yaml.SequenceStartEvent:
            node = self._sequence(event)
        else:
            node = self._mapping(event)
        if event.anchor:
            self._anchors[event.anchor] = node
            self._sizes[event.anchor] = self._size - before
        return node

    def _alias(self, event: Any) -> Node:
        original = self._anchors.get(event.anchor)
        if original is None:  # not named: it may be a password that begins with *
            raise yaml.composer.ComposerError(
                None, None, "an alias (*) has no anchor (&); put a text that begins with * in "
                "quotes", event.start_mark,
            )  # fmt: skip
        self._size += self._sizes[event.anchor]
        self._aliased += self._sizes[event.anchor]
        if self._aliased > _MOST_ALIASED:
            raise yaml.composer.ComposerError(
                None, None, f"aliases stand for more than {_MOST_ALIASED:,} values",
                event.start_mark,
            )  # fmt: skip
        node = Node(original.kind, event.start_mark.index + self._offset)
        node.end = event.end_mark.index + self._offset
        node.alias = True
        node.flow = original.flow
        node.scalar, node.items, node.entries = original.scalar, original.items, original.entries
        node.merges = original.merges
        return node

    def _sequence(self, event: Any) -> Node:
        node = Node("sequence", event.start_mark.index + self._offset)
        node.flow = bool(event.flow_style)
        items: list[Node] = []
        node.items = items
        for inner in self._events:
            if type(inner) is yaml.SequenceEndEvent:
                node.end = self._end(inner) if node.flow else items[-1].end
                return node
            items.append(self._node(inner))
        raise AssertionError("the parser ended inside a sequence")

    def _mapping(self, event: Any) -> Node:
        node = Node("mapping", event.start_mark.index + self._offset)
        node.flow = bool(event.flow_style)
        entries: list[Entry] = []
        node.entries = entries
        for inner in self._events:
            if type(inner) is yaml.MappingEndEvent:
                node.end = self._end(inner) if node.flow else entries[-1].value.end
                return node
            key = self._node(inner)
            if key.kind != "scalar":
                # As a placeholder of a template is read: `{{ x }}`. No object has such a key.
                raise yaml.composer.ComposerError(
                    None, None, "a key is not a text", inner.start_mark
                )
            if type(key.scalar) is not str:
                key.scalar = _key_text(key.scalar)
            if key.scalar == "<<":
                node.merges = True
            entries.append(Entry(key, self._node(next(self._events))))
        raise AssertionError("the parser ended inside a mapping")

    def _end(self, event: Any) -> int:
        return int(event.end_mark.index) + self._offset

    def _scalar_end(self, event: Any) -> int:
        """Exclude the blank lines after a block scalar, unless they belong to it (`|+`)."""
        start, end = event.start_mark.index, event.end_mark.index
        if event.style not in ("|", ">"):
            return int(end)
        written = self._text[start:end]
        header = re.search(r"[|>][0-9+-]*", written)
        if header and "+" in header[0]:
            return int(end) - (len(written) - len(re.sub(r"\r?\n[ \t]*\Z", "", written)))
        return int(start) + len(written.rstrip())


def _key_text(key: Any) -> Any:
    """Write a key that is a number or a boolean as kubectl does (sigs.k8s.io/yaml)."""
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key) if isinstance(key, int | float) else key


#: Values of plain scalars, most of which a manifest has many times.
_KNOWN: dict[str, Any] = {}


def _scalar(event: Any) -> Any:
    if event.tag is None and event.implicit[0]:
        try:
            return _KNOWN[event.value]
        except KeyError:
            if len(_KNOWN) > 10_000:
                _KNOWN.clear()
            return _KNOWN.setdefault(event.value, _value_of(event))
    return _value_of(event)


def _value_of(event: Any) -> Any:
    try:
        value = read_scalar(event.value, event.tag, plain=event.implicit[0])
    except ValueError:
        value = event.value  # kubectl refuses it
    if isinstance(value, str) and re.search("[\ud800-\udfff]", value):
        # JSON writes one character as two escapes, which YAML reads as two characters.
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value
