"""A manifest whose pod templates are edited: one text, of which everything else stays as it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from hotmap.cli.injection.pod_templates import Template, find_templates
from hotmap.cli.injection.yaml_editor import apply_changes, is_equivalent
from hotmap.cli.injection.yaml_nodes import InvalidYaml, Part, read_parts
from hotmap.cli.injection.yaml_writer import Style, find_style
from hotmap.core.errors import ManifestError

__all__ = ["FoundTemplate", "Manifest", "Planned"]


class FoundTemplate(NamedTuple):
    """A pod template of a manifest: its part, the document in that part, and its number."""

    part: int
    document: int
    #: Of the document in the manifest, counted from 1.
    number: int
    template: Template

    @property
    def key(self) -> tuple[int, tuple[Any, ...]]:
        """What names the template while the text around it is edited."""
        return self.number, self.template.path


#: A pod template with its new value.
Planned = tuple[FoundTemplate, dict[str, Any]]


class Manifest:
    """A manifest in parts; an edit replaces the parts that it changes.

    Raises:
        ManifestError: the text is not valid YAML; `file` names it in messages.
    """

    def __init__(self, text: str, file: str) -> None:
        self._file = file
        try:
            self.parts = read_parts(text)
        except InvalidYaml as error:
            is_template = "{{" in text
            hint = "; of a Helm chart, read the output of 'helm template'" if is_template else ""
            raise ManifestError(
                f"{self._file}: invalid YAML at line {error.line}: {error}{hint}"
            ) from None
        self._has_several = sum(len(part.documents) for part in self.parts) > 1

    @property
    def text(self) -> str:
        """The manifest as it is now."""
        return "".join(part.text for part in self.parts)

    def templates(self) -> list[FoundTemplate]:
        """Find all pod templates, in the order of the text."""
        found = []
        number = 0
        for index, part in enumerate(self.parts):
            for position, document in enumerate(part.documents):
                number += 1
                found += [
                    FoundTemplate(index, position, number, template)
                    for template in find_templates(document)
                ]
        return found

    def objects(self) -> Iterator[tuple[dict[str, Any], str]]:
        """Yield every object with its place for messages, including the items of a List."""
        number = 0
        for part in self.parts:
            for document in part.documents:
                number += 1
                place = f"{self._file}, document {number}" if self._has_several else self._file
                for each in _objects(document.data):
                    yield each, place

    def edit(self, planned: Sequence[Planned]) -> bool:
        """Give templates their new values; False if the text would not have these."""
        style = self._find_style()
        changes: dict[int, list[Planned]] = {}
        for found, new in planned:
            changes.setdefault(found.part, []).append((found, new))
        edited: dict[int, Part] = {}
        for index, own in changes.items():
            part = _edited_part(self.parts[index], own, style)
            if part is None:
                return False
            edited[index] = part
        self.parts = [edited.get(index, part) for index, part in enumerate(self.parts)]
        return True

    def locate_refused(self, planned: Sequence[Planned]) -> str:
        """Name the first document that cannot be edited, after `edit` has returned False."""
        style = self._find_style()
        refused = (
            found
            for found, new in planned
            if _edited_part(self.parts[found.part], [(found, new)], style) is None
        )
        return self.locate(next(refused, planned[0][0]))

    def _find_style(self) -> Style:
        documents = [(part.text, document) for part in self.parts for document in part.documents]
        return find_style(self.text, documents)

    def describe(self, found: FoundTemplate) -> str:
        """Name the object of a pod template."""
        name = f"/{found.template.name}" if found.template.name else ""
        return f"{self.locate(found)}: {found.template.kind}{name}"

    def locate(self, found: FoundTemplate) -> str:
        """Name the document of a pod template."""
        return f"{self._file}, document {found.number}" if self._has_several else self._file


def _objects(data: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(data, dict):
        return
    kind = str(data.get("kind"))
    if kind.endswith("List") and isinstance(data.get("items"), list):
        # Those of a ConfigMapList need not say that they are ConfigMaps, as for kubectl.
        implied = {"apiVersion": data.get("apiVersion"), "kind": kind.removesuffix("List")}
        for item in data["items"]:
            yield from _objects({**implied, **item} if isinstance(item, dict) else item)
    else:
        yield data


def _edited_part(part: Part, planned: Sequence[Planned], style: Style) -> Part | None:
    """Edit the text and parse it again; None if the result has other values than intended."""
    changes = [(found.template.node, new) for found, new in planned]
    text = apply_changes(part.text, style, changes)
    expected: dict[int, Any] = {}
    for found, new in planned:
        number, template = found.document, found.template
        if number not in expected:
            expected[number] = part.documents[number].data
        expected[number] = _with_value(expected[number], template.path, new)
    try:
        parts = read_parts(text)
    except InvalidYaml:
        return None
    if len(parts) != 1 or len(parts[0].documents) != len(part.documents):
        return None
    after = parts[0].documents
    same = all(is_equivalent(value, after[number].data) for number, value in expected.items())
    return parts[0] if same else None


def _with_value(data: Any, path: Sequence[str | int], new: Any) -> Any:
    if not path:
        return new
    data[path[0]] = _with_value(data[path[0]], path[1:], new)
    return data
