"""`hotmap inject`: adds the agent to manifests, and takes it out again.

Works on the text: only what is added or replaced changes, and `--remove` gives the text back to
the byte. Injecting again replaces what was injected before, so doing it twice is doing it once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hotmap import __version__
from hotmap.cli.injection.documents import Node, NotYaml, read_documents
from hotmap.cli.injection.edits import Written, edit, means, raw_value
from hotmap.cli.injection.pods import Template, find_templates
from hotmap.cli.injection.removal import find_record, without_agent
from hotmap.cli.injection.shape import require_shape
from hotmap.cli.injection.template import Injection, NothingToDo, with_agent
from hotmap.core.errors import ManifestError, SettingsError

__all__ = ["Injection", "default_image", "inject", "run_inject"]

#: What is read of a directory, as kubectl does it.
_SUFFIXES = (".yaml", ".yml", ".json")

#: A pod template in a document of a manifest, counted from 1.
_Found = tuple[int, Template]


def run_inject(
    filenames: Sequence[str], injection: Injection | None, *, output: str, in_place: bool
) -> int:
    """Write manifests with the agent added, or, without an injection, taken out.

    To standard output as one stream, to a file, or each to where it came from. Nothing is written
    unless everything went well.
    """
    if in_place and (output or "-" in filenames):
        raise SettingsError("--in-place writes files to where they came from; leave -o and - out")
    places = [place for filename in filenames for place in _files(filename)]
    if places.count("-") > 1:
        raise SettingsError("standard input can be read only once; give one -f -")
    texts = {place: _read(place) for place in dict.fromkeys(places)}
    results, notes = _inject_all(texts, injection)
    if in_place:
        for place, text in results.items():
            if text != texts[place]:
                _write(place, text)
    elif output:
        _write(output, _stream(results.values()))
    else:
        sys.stdout.write(_stream(results.values()))
    for note in notes:
        sys.stderr.write(f"hotmap: {note}\n")
    return 0


def default_image() -> str:
    """Name the image of this version of hotmap."""
    return f"hotmap:{__version__}"


def inject(text: str, injection: Injection | None, place: str) -> tuple[str, list[str]]:
    """Edit every pod template of a manifest; gives the text and what a person should know.

    Raises:
        ManifestError: the text is no YAML, has no pod template, or one cannot take an agent.
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
            text, more, left = _add(text, documents, injection, place)
            notes += [*more, *(f"{one}; it is left as it is" for one in left)]
            skipped += left
            added += len(templates) - len(left)
        results[place] = text
    if not found:
        where = ", ".join(map(_shown, texts))
        raise ManifestError(f"{where} holds no pod template, so there is nothing to inject into")
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
    wanted: list[tuple[_Found, dict[str, Any]]] = []
    for found in _templates(documents):
        data = found[1].node.data
        record = find_record(data)
        if record is not None:
            require_shape(data, _called(place, documents, found))
            wanted.append((found, without_agent(data, record)))
    if not wanted:
        return text, documents
    result = _rewritten(text, documents, wanted)
    if result is None:
        # Another program has laid the manifest out anew, so old texts do not fit any more.
        result = _rewritten(text, documents, [(one, _without_texts(new)) for one, new in wanted])
    if result is None:
        raise ManifestError(
            f"{_where(place, documents, wanted[0][0])}: what was there before the injection "
            "cannot be put back, since the manifest was changed around it; take the original"
        )
    return result


def _add(
    text: str, documents: list[Node], injection: Injection, place: str
) -> tuple[str, list[str], list[str]]:
    wanted: list[tuple[_Found, dict[str, Any]]] = []
    notes: list[str] = []
    skipped: list[str] = []
    for found in _templates(documents):
        template = found[1]
        name = _called(place, documents, found)
        texts = _Texts(text, template.node)
        try:
            new, more = with_agent(template.node.data, injection, name, texts)
        except NothingToDo as error:
            skipped.append(str(error))
            continue
        wanted.append((found, new))
        notes += more
    result = _rewritten(text, documents, wanted)
    if result is None:
        raise ManifestError(
            f"{_where(place, documents, wanted[0][0])}: a part that injection changes is "
            "written so that others would change with it (an anchor, &) or cannot be edited; write "
            "it out plainly where it is used"
        )
    return result[0], notes, skipped


def _called(place: str, documents: Sequence[Node], found: _Found) -> str:
    name = f"/{found[1].name}" if found[1].name else ""
    return f"{_where(place, documents, found)}: {found[1].kind}{name}"


def _where(place: str, documents: Sequence[Node], found: _Found) -> str:
    return f"{_shown(place)}, document {found[0]}" if len(documents) > 1 else _shown(place)


def _shown(place: str) -> str:
    return "standard input" if place == "-" else place


class _Texts:
    """Gives values of a pod template as they are written."""

    def __init__(self, text: str, template: Node) -> None:
        self._text = text
        self._template = template

    def __call__(self, path: tuple[str, ...]) -> str | None:
        node: Node | None = self._template
        for key in path[:-1]:
            node = _inner(node, key) if node else None
        if node is None:
            return None
        if node.kind == "sequence":
            item = _inner(node, path[-1])
            return self._text[item.start : item.end] if item else None
        return raw_value(self._text, node, path[-1])


def _inner(node: Node, key: str) -> Node | None:
    if node.kind == "sequence":
        names = [(item, item.get("name")) for item in node.items]
        return next((item for item, name in names if name and name.scalar == key), None)
    return node.get(key)


def _rewritten(
    text: str, documents: Sequence[Node], wanted: Sequence[tuple[_Found, dict[str, Any]]]
) -> tuple[str, list[Node]] | None:
    """Change the text, and read it again: None when it does not say what it should."""
    result = edit(text, documents, [(found[1].node, new) for found, new in wanted])
    expected = [document.data for document in documents]
    for (number, template), new in wanted:
        expected[number - 1] = _with(expected[number - 1], template.path, new)
    try:
        after = read_documents(result)
    except NotYaml:
        return None
    return (result, after) if means(expected, [one.data for one in after]) else None


def _with(data: Any, path: Sequence[str | int], new: Any) -> Any:
    if not path:
        return new
    data[path[0]] = _with(data[path[0]], path[1:], new)
    return data


def _without_texts(value: Any) -> Any:
    if isinstance(value, Written):
        return value.value
    if isinstance(value, dict):
        return {key: _without_texts(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_texts(inner) for inner in value]
    return value


def _documents(text: str, place: str) -> list[Node]:
    try:
        return read_documents(text)
    except NotYaml as error:
        raise ManifestError(f"{_shown(place)} is no YAML at line {error.line}: {error}") from None


def _files(filename: str) -> Iterator[str]:
    if filename == "-" or not Path(filename).is_dir():
        yield filename
        return
    found = sorted(one for one in Path(filename).iterdir() if one.suffix in _SUFFIXES)
    if not found:
        raise ManifestError(f"{filename} holds no manifest: no {', '.join(_SUFFIXES)} file")
    yield from map(str, found)


def _read(place: str) -> str:
    try:
        data = sys.stdin.buffer.read() if place == "-" else Path(place).read_bytes()
        return data.decode()
    except UnicodeDecodeError:
        raise ManifestError(f"{_shown(place)} cannot be read: it is not UTF-8") from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ManifestError(f"{place} cannot be read: {reason}") from None


def _stream(texts: Iterator[str] | Any) -> str:
    """Join manifests to one YAML stream."""
    stream = ""
    for text in texts:
        if stream and not text.startswith("---"):
            stream += "---\n" if stream.endswith("\n") else "\n---\n"
        elif stream and not stream.endswith("\n"):
            stream += "\n"
        stream += text
    return stream


def _write(place: str, text: str) -> None:
    """Write a file as a whole or not at all; it keeps its permissions."""
    target = Path(place).resolve()
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        draft.write_bytes(text.encode())
        if target.exists():
            draft.chmod(target.stat().st_mode & 0o7777)
        draft.rename(target)
    except OSError as error:
        draft.unlink(missing_ok=True)
        reason = (error.strerror or str(error)).lower()
        raise ManifestError(f"{place} cannot be written: {reason}") from None
