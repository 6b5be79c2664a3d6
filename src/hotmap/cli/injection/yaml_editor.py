"""Edits a manifest's text so that it describes other values, and changes nothing else.

Additions go to the end of their mapping or list, in the manifest's own style: block style or flow
style (brackets, as in JSON). So comments, quotes, indentation and line ends of everything else are
kept byte for byte, and removing the additions restores the text.

A key or item in block style owns the text from the end of its predecessor's last line up to the
end of its own last line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from hotmap.cli.injection.yaml_nodes import Entry, Node, find_dash
from hotmap.cli.injection.yaml_writer import Style, flow_text, lines_of

__all__ = ["MergedValue", "SourceText", "apply_changes", "is_equivalent", "value_text"]


class SourceText(NamedTuple):
    """A value together with its original text, which is restored as it is."""

    text: str
    #: The value; None where the text alone does not determine it (an alias).
    value: Any


class MergedValue(NamedTuple):
    """A value that a merge key (`<<`) gives: the mapping has no key of its own for it."""

    value: Any


class _Edit(NamedTuple):
    start: int
    end: int
    text: str


def apply_changes(text: str, style: Style, changes: Sequence[tuple[Node, Any]]) -> str:
    """Give each of these mappings its new value in a text; none may contain another."""
    editor = _Editor(text, style)
    found = [item for node, new in changes for item in editor.mapping(node, new)]
    # Where several begin at one place, the inner ones, which were found first, come first.
    pieces, place = [], 0
    for item in sorted(found, key=lambda edit: edit.start):
        pieces += [text[place : item.start], item.text]
        place = max(place, item.end)
    return "".join([*pieces, text[place:]])


def value_text(text: str, mapping: Node, key: str) -> str | None:
    """Return the text of a key's value up to the end of its line; None without such a key."""
    entry = mapping.entry(key)
    if mapping.alias or entry is None:
        return None
    start, end = _value_place(text, mapping, entry)
    return text[start:end]


def is_equivalent(expected: Any, found: Any) -> bool:
    """Compare a value with the expected one, in which some parts may be `SourceText`."""
    return _equal(expected, found, texts=True)


def _equal(expected: Any, found: Any, *, texts: bool = False) -> bool:
    """Compare values, types too. `texts`: a `SourceText` may be equal; without, it never is."""
    if isinstance(expected, SourceText):
        return texts and (expected.value is None or _equal(expected.value, found))
    if isinstance(expected, MergedValue):
        return texts and _equal(expected.value, found)
    if type(expected) is not type(found):
        return False
    if isinstance(expected, dict):
        return expected.keys() == found.keys() and all(
            _equal(value, found[key], texts=texts) for key, value in expected.items()
        )
    if isinstance(expected, list):
        return len(expected) == len(found) and all(
            _equal(item, other, texts=texts) for item, other in zip(expected, found, strict=True)
        )
    return bool(expected == found)


def _value_place(text: str, mapping: Node, entry: Entry) -> tuple[int, int]:
    colon = text.find(":", entry.key.end, entry.value.start)
    start = colon + 1 or entry.key.end  # `{key}` has none
    return start, entry.value.end if mapping.flow else _end_of_line(text, entry.value.end)


def _end_of_line(text: str, place: int) -> int:
    end = text.find("\n", place)
    if end < 0:
        return len(text)
    return end - 1 if end > place and text[end - 1] == "\r" else end


def _start_of_line(text: str, place: int) -> int:
    return text.rfind("\n", 0, place) + 1


class _Unmatched(Exception):
    """Items of a list cannot be matched, so the list is replaced as a whole."""


class _Editor:
    """Computes the edits; offsets refer to the text before any of them."""

    def __init__(self, text: str, style: Style) -> None:
        self._text = text
        self._style = style

    # Mappings

    def mapping(self, node: Node, new: dict[Any, Any]) -> Iterator[_Edit]:
        old = node.data
        gone = [key for key in old if key not in new]
        merged = [key for key, value in new.items() if isinstance(value, MergedValue)]
        own = [entry for entry in node.entries if entry.key.scalar in (*gone, *merged)]
        for key, value in new.items():
            if key in merged or (key in old and _equal(value, old[key])):
                continue
            entry = node.entry(key)
            if entry is not None:
                yield from self._value(node, entry, value)
        yield from self._remove_entries(node, own)
        for key, value in new.items():
            if key in merged or (key in old and _equal(value, old[key])):
                continue
            if node.entry(key) is None:
                yield self._append_entry(node, key, value)
        for key in gone:
            if node.entry(key) is None:  # merged in: only an explicit null hides it
                yield self._append_entry(node, key, None)

    def _value(self, parent: Node, entry: Entry, new: Any) -> Iterator[_Edit]:
        node = entry.value
        if isinstance(new, SourceText):
            start, end = _value_place(self._text, parent, entry)
            yield _Edit(start, end, new.text)
            return
        if not node.alias and new:
            if node.kind == "mapping" and isinstance(new, dict) and _keeps_any(node, new):
                yield from self.mapping(node, new)
                return
            if node.kind == "sequence" and isinstance(new, list):
                try:
                    yield from list(self._sequence(node, new))
                    return
                except _Unmatched:
                    pass
        yield self._replace(parent, entry, new)

    def _replace(self, parent: Node, entry: Entry, new: Any) -> _Edit:
        start, end = _value_place(self._text, parent, entry)
        if parent.flow:
            return _Edit(start, end, f"{self._style.blank}{flow_text(new, self._style)}")
        if entry.value.kind == "scalar" and not isinstance(new, dict | list):
            kept = entry.value
            if kept.start < kept.end and "\n" not in self._text[kept.start : kept.end]:
                return _Edit(
                    kept.start, kept.end, lines_of({"x": new}, self._style)[0].removeprefix("x: ")
                )
        column = entry.key.start - _start_of_line(self._text, entry.key.start)
        lines = lines_of({"x": new}, self._style)
        if len(lines) == 1:
            return _Edit(start, end, lines[0].removeprefix("x:"))
        return _Edit(start, end, self._style.newline + self._indent(lines[1:], column))

    def _append_entry(self, node: Node, key: str, value: Any) -> _Edit:
        if isinstance(value, SourceText):
            value = value.value
        if node.flow:
            return self._append_flow(
                node,
                [entry.value for entry in node.entries],
                flow_text({key: value}, self._style)[1:-1],
            )
        first = node.entries[0].key.start
        column = first - _start_of_line(self._text, first)
        place = _end_of_line(self._text, node.end)
        return _Edit(
            place,
            place,
            self._style.newline + self._indent(lines_of({key: value}, self._style), column),
        )

    def _remove_entries(self, node: Node, gone: Sequence[Entry]) -> Iterator[_Edit]:
        spans = [(entry.key.start, entry.value.end) for entry in node.entries]
        indexes = [node.entries.index(entry) for entry in gone]
        yield from self._remove(node, spans, indexes)

    # Lists

    def _sequence(self, node: Node, new: Sequence[Any]) -> Iterator[_Edit]:
        """Match items in order: equal ones, then ones of the same name; add or remove the rest."""
        rest = list(new)
        gone = []
        later = [item.data for item in node.items[1:]]
        for index, item in enumerate(node.items):
            old = item.data
            if rest and _equal(rest[0], old):
                rest.pop(0)
            elif rest and not item.alias and _same(old, rest[0]) and rest[0] not in later[index:]:
                yield from self.mapping(item, rest.pop(0))
            else:
                gone.append(index)
        kept = [item for index, item in enumerate(node.items) if index not in gone]
        if (rest and gone) or not kept:
            raise _Unmatched
        yield from self._remove(node, [(item.start, item.end) for item in node.items], gone)
        for item in rest:
            yield self._append_item(node, item)

    def _append_item(self, node: Node, value: Any) -> _Edit:
        if node.flow:
            return self._append_flow(node, node.items, flow_text(value, self._style))
        dash = find_dash(self._text, node)
        column = dash - _start_of_line(self._text, dash)
        place = _end_of_line(self._text, node.end)
        lines = lines_of([value], self._style)
        return _Edit(place, place, self._style.newline + self._indent(lines, column))

    def _append_flow(self, node: Node, items: Sequence[Node], new: str) -> _Edit:
        if items:
            return _Edit(items[-1].end, items[-1].end, f"{self._style.comma}{new}")
        place = min(
            found
            for bracket in "[{"
            if (found := self._text.find(bracket, node.start, node.end)) >= 0
        )
        return _Edit(place + 1, place + 1, new)

    def _remove(
        self, node: Node, spans: Sequence[tuple[int, int]], gone: Sequence[int]
    ) -> Iterator[_Edit]:
        for index in gone:
            start, end = spans[index]
            if index > 0 and not all(before in gone for before in range(index)):
                if node.flow:
                    yield _Edit(spans[index - 1][1], end, "")
                else:
                    before = _end_of_line(self._text, spans[index - 1][1])
                    yield _Edit(before, _end_of_line(self._text, end), "")
            else:
                yield _Edit(start, spans[index + 1][0], "")

    def _indent(self, lines: Sequence[str], column: int) -> str:
        return self._style.newline.join(f"{' ' * column}{line}" for line in lines)


def _keeps_any(node: Node, new: dict[Any, Any]) -> bool:
    """Return whether a key stays, so that the mapping is never empty in between."""
    if not node.entries:
        return True
    return any(entry.key.scalar in new or entry.key.scalar == "<<" for entry in node.entries)


def _same(old: Any, new: Any) -> bool:
    """Return whether two items have the same identity: mounts by path, all else by name."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return False
    key = "mountPath" if "mountPath" in old else "name"
    return key in old and bool(old[key] == new.get(key))
