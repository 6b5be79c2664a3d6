"""Reads a YAML document as upstream does before it becomes JSON.

sigs.k8s.io/yaml over go.yaml.in/yaml/v2. The document is built from the events of libyaml, whose
composer follows deep nesting until its stack is exhausted.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from hotmap.core.yaml_scalars import MERGE_TAG, read_scalar
from hotmap.local.apiserver.decode_errors import yaml_error
from hotmap.local.apiserver.nesting import MAX_DEPTH

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["YAML_ERRORS", "YamlDocument", "YamlError", "read_yaml"]

#: What Go's strict reader says before the lines of repeated keys.
YAML_ERRORS = "yaml: unmarshal errors:\n"

#: Nodes that aliases may make of a short document (go-yaml: alias_ratio_range_low).
_ALIASED_NODES = 400_000


class YamlError(Exception):
    """A document that cannot be read; the text says why, as Go does."""


class YamlDocument(NamedTuple):
    """A document, and what strict reading finds in it."""

    value: Any
    #: Keys that a mapping has twice, one text for each.
    repeated: tuple[str, ...] = ()

    @property
    def strict_error(self) -> str:
        """What Go's strict reader says about the repeated keys; "" for none."""
        if not self.repeated:
            return ""
        return YAML_ERRORS + "\n".join(self.repeated)


class _Node(NamedTuple):
    """A value and where it begins; an alias has the size of its value."""

    value: Any
    line: int
    size: int = 1
    height: int = 0
    is_merge: bool = False


class _Open:
    """A mapping or sequence of which the end has not been read."""

    def __init__(self, value: dict[str, Any] | list[Any], line: int, anchor: str | None) -> None:
        self.value = value
        self.line = line
        self.anchor = anchor
        self.key: _Node | None = None
        #: What `<<` adds where the mapping has no such key, the strongest first.
        self.merged: list[dict[str, Any]] = []
        self.size = 1
        self.height = 1


def read_yaml(body: bytes) -> YamlDocument:
    """Read the first document of a body.

    Raises:
        YamlError: it is not well formed, too deep, or would be too large without aliases.
    """
    import yaml  # 20 ms that only those who send YAML pay

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return _Reader(max(len(body), _ALIASED_NODES)).read(yaml.parse(body, loader))
    except (yaml.YAMLError, ValueError) as error:
        raise YamlError(yaml_error(error)) from None


class _Reader:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: list[_Open] = []
        self._anchors: dict[str, _Node | None] = {}
        self._repeated: list[str] = []

    def read(self, events: Iterator[Any]) -> YamlDocument:
        import yaml

        value = None
        for event in events:
            if isinstance(event, yaml.ScalarEvent):
                node = _scalar(event)
                if event.anchor:
                    self._anchors[event.anchor] = node
            elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
                self._begin(event, {} if isinstance(event, yaml.MappingStartEvent) else [])
                continue
            elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
                node = self._end()
            elif isinstance(event, yaml.AliasEvent):
                node = self._alias(event)
            elif isinstance(event, yaml.DocumentEndEvent):
                break
            else:
                continue
            if self._open:
                self._add(self._open[-1], node)
            else:
                value = node.value
        return YamlDocument(value, tuple(self._repeated))

    def _begin(self, event: Any, value: dict[str, Any] | list[Any]) -> None:
        if len(self._open) >= MAX_DEPTH:
            raise YamlError(f"yaml: exceeded max depth of {MAX_DEPTH}")
        if event.anchor:
            self._anchors[event.anchor] = None
        self._open.append(_Open(value, event.start_mark.line, event.anchor))

    def _end(self) -> _Node:
        ended = self._open.pop()
        if isinstance(ended.value, dict):
            for source in ended.merged:
                ended.value.update({k: v for k, v in source.items() if k not in ended.value})
        node = _Node(ended.value, ended.line, ended.size, ended.height)
        if ended.anchor:
            self._anchors[ended.anchor] = node
        return node

    def _alias(self, event: Any) -> _Node:
        if event.anchor not in self._anchors:
            raise YamlError(f"yaml: unknown anchor '{event.anchor}' referenced")
        node = self._anchors[event.anchor]
        if node is None:
            raise YamlError(f"yaml: anchor '{event.anchor}' value contains itself")
        if len(self._open) + node.height > MAX_DEPTH:
            raise YamlError(f"yaml: exceeded max depth of {MAX_DEPTH}")
        return node._replace(line=event.start_mark.line, is_merge=False)

    def _add(self, parent: _Open, node: _Node) -> None:
        parent.size += node.size
        parent.height = max(parent.height, node.height + 1)
        if parent.size > self._limit:
            raise YamlError("yaml: document contains excessive aliasing")
        if isinstance(parent.value, list):
            parent.value.append(node.value)
            return
        key, parent.key = parent.key, None
        if key is None:
            parent.key = node
        elif key.is_merge:
            parent.merged.extend(_sources(node.value))
        else:
            name = _name(key.value)
            if name in parent.value:
                shown = f'"{name}"' if isinstance(key.value, str) else name
                text = f"  line {node.line + 1}: key {shown} already set in map"
                self._repeated.append(text)
            parent.value[name] = node.value


def _scalar(event: Any) -> _Node:
    line, text, tag = event.start_mark.line, event.value, event.tag
    plain = event.implicit[0]
    if text == "<<" and (tag == MERGE_TAG or (tag is None and plain)):
        return _Node(text, line, is_merge=True)
    try:
        value = read_scalar(text, tag, plain=plain)
    except ValueError as error:
        raise YamlError(str(error)) from None
    if isinstance(value, float) and not math.isfinite(value):
        shown = "NaN" if math.isnan(value) else f"{'+' if value > 0 else '-'}Inf"
        raise YamlError(f"json: unsupported value: {shown}")
    return _Node(value, line)


def _name(key: object) -> str:
    """Return a key as JSON has it (sigs.k8s.io/yaml: convertToJSONableObject)."""
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, (int, float)):
        return f"{key:g}" if isinstance(key, float) else str(key)
    if key is None:
        raise YamlError("unsupported map key of type: %!s(<nil>), key: <nil>")
    raise YamlError("yaml: invalid map key")


def _sources(value: Any) -> list[dict[str, Any]]:
    """Return the mappings that a `<<` names."""
    sources: list[Any] = value if isinstance(value, list) else [value]
    if not all(isinstance(source, dict) for source in sources):
        raise YamlError("yaml: map merge requires map or sequence of maps as the value")
    return sources
