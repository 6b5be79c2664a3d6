"""`hotmap inject`: adds the agent to manifests, and removes it.

Edits the text: only what is added or replaced changes, and `--remove` restores the original text
byte for byte. Injecting again replaces the earlier injection, so the result is the same as
injecting once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from hotmap.cli.command_options import DEFAULT_IMAGE, InjectOptions
from hotmap.cli.injection.agent_addition import Injection, NothingToFollow, add_agent
from hotmap.cli.injection.agent_removal import find_record, remove_agent
from hotmap.cli.injection.pod_templates import Template, find_templates
from hotmap.cli.injection.validation import validate_pod_template
from hotmap.cli.injection.yaml_editor import SourceText, apply_changes, is_equivalent, value_text
from hotmap.cli.injection.yaml_nodes import InvalidYaml, Node, read_documents
from hotmap.cli.manifest_files import (
    describe_file,
    find_manifests,
    join_manifests,
    read_manifest,
    write_manifest,
)
from hotmap.core.errors import ManifestError, SettingsError

__all__ = ["Injection", "default_image", "inject", "run_inject"]

#: A pod template in a document of a manifest, counted from 1.
_Found = tuple[int, Template]


def run_inject(options: InjectOptions, flags: Sequence[str]) -> int:
    """Write manifests with the agent added or removed; `flags` are the agent's.

    To standard output as one stream, to a file, or each to where it was read from. Nothing is
    written unless all manifests are valid.

    Raises:
        SettingsError: the options exclude each other.
        ManifestError: a manifest cannot be read, edited or written.
    """
    injection = _injection(options, flags)
    if options.in_place and (options.output or "-" in options.filename):
        raise SettingsError("--in-place excludes --output and standard input (-f -)")
    filenames = [name for given in options.filename for name in find_manifests(given)]
    if filenames.count("-") > 1:
        raise SettingsError("standard input can be read only once; use one -f -")
    texts = {filename: read_manifest(filename) for filename in dict.fromkeys(filenames)}
    results, notes = _inject_all(texts, injection)
    if options.in_place:
        for filename, text in results.items():
            if text != texts[filename]:
                write_manifest(filename, text)
    elif options.output:
        write_manifest(options.output, join_manifests(results.values()))
    else:
        sys.stdout.write(join_manifests(results.values()))
    for note in notes:
        sys.stderr.write(f"hotmap: {note}\n")
    return 0


def _injection(options: InjectOptions, flags: Sequence[str]) -> Injection | None:
    """Make the injection that the options describe; None for a removal."""
    named = (
        ("--for", options.program),
        ("--restart-on", options.restart_on),
        ("--restart", options.restart),
    )
    words = (*(word for name, value in named if value for word in (name, value)), *flags)
    if options.remove:
        kept = ("filename", "output", "in_place", "remove", "mode")
        given = [getattr(options, field) for field in InjectOptions._fields if field not in kept]
        if words or any(value is not None and value is not False for value in given):
            raise SettingsError("--remove removes any injection; omit the flags of an injection")
        return None
    return Injection(
        options.image or default_image(),
        options.container or "",
        words,
        options.mode,
        options.stage,
        options.keep_env,
        options.user,
    )


def default_image() -> str:
    """Name the image of this version of hotmap."""
    return DEFAULT_IMAGE


def inject(text: str, injection: Injection | None, place: str) -> tuple[str, list[str]]:
    """Edit every pod template of a manifest; returns the text and notes for the user.

    `place` is the manifest's name for messages; without an injection the agent is removed.

    Raises:
        ManifestError: the text is not valid YAML, has no pod template, or one does not allow the
            injection.
    """
    results, notes = _inject_all({place: text}, injection)
    return results[place], notes


def _inject_all(
    texts: dict[str, str], injection: Injection | None
) -> tuple[dict[str, str], list[str]]:
    results: dict[str, str] = {}
    notes: list[str] = []
    skipped: list[str] = []
    found = added = 0
    for place, text in texts.items():
        documents = _documents(text, place)
        templates = _templates(documents)
        found += len(templates)
        text, documents = _remove(text, documents, place)
        if injection is not None:
            text, more, unchanged = _add(text, documents, injection, place)
            notes += [*more, *(f"{reason}; it is left unchanged" for reason in unchanged)]
            skipped += unchanged
            added += len(templates) - len(unchanged)
        results[place] = text
    if not found:
        where = ", ".join(map(describe_file, texts))
        raise ManifestError(f"{where}: no pod template found, nothing to inject into")
    if injection is not None and not added:
        raise ManifestError(skipped[0])
    return results, notes


def _templates(documents: Sequence[Node]) -> list[_Found]:
    return [
        (number, template)
        for number, document in enumerate(documents, start=1)
        for template in find_templates(document)
    ]


def _remove(text: str, documents: list[Node], place: str) -> tuple[str, list[Node]]:
    planned: list[tuple[_Found, dict[str, Any]]] = []
    for found in _templates(documents):
        data = found[1].node.data
        record = find_record(data)
        if record is not None:
            validate_pod_template(data, _object_name(place, documents, found))
            planned.append((found, remove_agent(data, record)))
    if not planned:
        return text, documents
    result = _edited_text(text, documents, planned)
    if result is None:
        # Another program has reformatted the manifest, so the original texts do not fit.
        result = _edited_text(text, documents, [(one, _plain_value(new)) for one, new in planned])
    if result is None:
        raise ManifestError(
            f"{_location(place, documents, planned[0][0])}: cannot restore the original, since "
            "the manifest was changed after the injection; use the original file"
        )
    return result


def _add(
    text: str, documents: list[Node], injection: Injection, place: str
) -> tuple[str, list[str], list[str]]:
    planned: list[tuple[_Found, dict[str, Any]]] = []
    notes: list[str] = []
    skipped: list[str] = []
    for found in _templates(documents):
        template = found[1]
        name = _object_name(place, documents, found)
        texts = _TextLookup(text, template.node)
        try:
            new, more = add_agent(template.node.data, injection, name, texts)
        except NothingToFollow as error:
            skipped.append(str(error))
            continue
        planned.append((found, new))
        notes += more
    result = _edited_text(text, documents, planned)
    if result is None:
        raise ManifestError(
            f"{_location(place, documents, planned[0][0])}: cannot edit a part that injection "
            "changes, such as one shared by an anchor (&) or in unusual syntax; write it out where "
            "it is used"
        )
    return result[0], notes, skipped


def _object_name(place: str, documents: Sequence[Node], found: _Found) -> str:
    name = f"/{found[1].name}" if found[1].name else ""
    return f"{_location(place, documents, found)}: {found[1].kind}{name}"


def _location(place: str, documents: Sequence[Node], found: _Found) -> str:
    return (
        f"{describe_file(place)}, document {found[0]}"
        if len(documents) > 1
        else describe_file(place)
    )


class _TextLookup:
    """Looks up values of a pod template as they are written."""

    def __init__(self, text: str, template: Node) -> None:
        self._text = text
        self._template = template

    def __call__(self, path: tuple[str, ...]) -> str | None:
        node: Node | None = self._template
        for key in path[:-1]:
            node = _child(node, key) if node else None
        if node is None:
            return None
        if node.kind == "sequence":
            item = _child(node, path[-1])
            return self._text[item.start : item.end] if item else None
        return value_text(self._text, node, path[-1])


def _child(node: Node, key: str) -> Node | None:
    if node.kind == "sequence":
        names = [(item, item.get("name")) for item in node.items]
        return next((item for item, name in names if name and name.scalar == key), None)
    return node.get(key)


def _edited_text(
    text: str, documents: Sequence[Node], planned: Sequence[tuple[_Found, dict[str, Any]]]
) -> tuple[str, list[Node]] | None:
    """Edit the text and parse it again; None if the result is not what was intended."""
    result = apply_changes(text, documents, [(found[1].node, new) for found, new in planned])
    expected = [document.data for document in documents]
    for (number, template), new in planned:
        expected[number - 1] = _with_value(expected[number - 1], template.path, new)
    try:
        after = read_documents(result)
    except InvalidYaml:
        return None
    return (result, after) if is_equivalent(expected, [one.data for one in after]) else None


def _with_value(data: Any, path: Sequence[str | int], new: Any) -> Any:
    if not path:
        return new
    data[path[0]] = _with_value(data[path[0]], path[1:], new)
    return data


def _plain_value(value: Any) -> Any:
    if isinstance(value, SourceText):
        return value.value
    if isinstance(value, dict):
        return {key: _plain_value(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain_value(inner) for inner in value]
    return value


def _documents(text: str, place: str) -> list[Node]:
    try:
        return read_documents(text)
    except InvalidYaml as error:
        raise ManifestError(
            f"{describe_file(place)}: invalid YAML at line {error.line}: {error}"
        ) from None
