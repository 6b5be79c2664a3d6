"""`hotmap inject`: adds the agent to manifests, and removes it.

Edits the text: only what is added or replaced changes, and `--remove` restores the original text
byte for byte. Injecting again replaces the earlier injection, so the result is the same as
injecting once.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Sequence
from typing import Any

from hotmap.agent.runtime.standard_streams import print_message
from hotmap.cli.command_options import DEFAULT_IMAGE, InjectOptions
from hotmap.cli.injection.agent_addition import add_agent
from hotmap.cli.injection.agent_removal import find_records, remove_agent
from hotmap.cli.injection.application import NothingToFollow
from hotmap.cli.injection.checkers import is_agent_image
from hotmap.cli.injection.injection import Injection
from hotmap.cli.injection.manifest import FoundTemplate, Manifest, Planned
from hotmap.cli.injection.record import MERGED, AgentNames, Record
from hotmap.cli.injection.validation import validate_pod_template
from hotmap.cli.injection.yaml_editor import MergedValue, SourceText, value_text
from hotmap.cli.injection.yaml_nodes import Node
from hotmap.cli.manifest_files import (
    describe_file,
    is_manifest,
    read_manifests,
    write_manifests,
)
from hotmap.core.errors import ManifestError, SettingsError
from hotmap.core.text import printable, quote_short

__all__ = ["Injection", "default_image", "inject", "run_inject"]


def run_inject(options: InjectOptions, flags: Sequence[str]) -> int:
    """Write manifests with the agent added or removed; `flags` are the agent's.

    To standard output as one stream, to a file, or each to where it was read from. Nothing is
    written unless all manifests are valid.

    Raises:
        SettingsError: options cannot be used together.
        ManifestError: a manifest cannot be read, edited or written.
    """
    if flags and not flags[0].startswith("-"):
        word = printable(flags[0], 80)
        hint = f"write '-f {word}'" if is_manifest(word) else "put flags of the agent after --"
        raise SettingsError(f'unexpected argument "{word}": {hint}')
    gc.disable()  # a manifest's nodes live until the end: looking for garbage takes a third of it
    injection = _injection(options, flags)
    texts = read_manifests(options.filename, options.output, in_place=options.in_place)
    results, notes = _inject_all(texts, injection)
    write_manifests(texts, results, options.output, in_place=options.in_place)
    for note in notes:
        print_message(f"hotmap: note: {note}")
    return 0


def _injection(options: InjectOptions, flags: Sequence[str]) -> Injection | None:
    """Make the injection that the options describe; None for a removal."""
    named = (
        ("--for", options.program),
        ("--restart-on", options.restart_on),
        ("--restart", options.restart),
    )
    words = (
        *(word for name, value in named if value is not None for word in (name, value)),
        *flags,
    )
    if options.remove:
        kept = ("filename", "output", "in_place", "remove", "mode")
        given = [getattr(options, field) for field in InjectOptions._fields if field not in kept]
        if words or any(value is not None and value is not False for value in given):
            raise SettingsError(
                "--remove cannot be used with options that add the agent; omit them"
            )
        return None
    image = default_image() if options.image is None else options.image
    if not image or image.split() != [image]:
        raise SettingsError(
            f"--image: invalid image {quote_short(image)}: expected a name such as "
            f"{default_image()}"
        )
    if options.container == "":
        raise SettingsError('--container: invalid name "": expected the name of a container')
    if options.keep_env and options.mode != "supervisor":
        raise SettingsError("--keep-env requires --mode supervisor")
    return Injection(
        image,
        options.container or "",
        words,
        options.mode,
        options.stage,
        options.keep_env,
        options.user,
        plain_image=is_agent_image(image),
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
        manifest = Manifest(text, describe_file(place))
        templates = manifest.templates()
        found += len(templates)
        if injection is None:
            _remove(manifest)
        else:
            more, unchanged = _add(manifest, injection)
            notes += [*more, *(f"{reason}; it is left unchanged" for reason in unchanged)]
            skipped += unchanged
            added += len(templates) - len(unchanged)
        results[place] = manifest.text
    if not found:
        where = ", ".join(map(describe_file, texts))
        raise ManifestError(f"{where}: no pod template found, nothing to inject into")
    if injection is not None and not added:
        raise ManifestError(skipped[0])
    return results, notes


def _remove(manifest: Manifest) -> None:
    """Remove all agents."""
    while _remove_last(manifest, lambda _, records: bool(records)):
        pass


def _remove_last(manifest: Manifest, is_due: Callable[[FoundTemplate, list[Record]], bool]) -> bool:
    """Remove the last agent of each pod template where that is due; returns whether any was."""
    planned: list[Planned] = []
    for found in manifest.templates():
        data = found.template.node.data
        records = find_records(data)
        if records and is_due(found, records):
            validate_pod_template(data, manifest.describe(found))
            planned.append((found, remove_agent(data, records[-1], AgentNames(len(records)))))
    if not planned or manifest.edit(planned):
        return bool(planned)
    # Another program has reformatted the manifest, so the original texts do not fit.
    planned = [(found, _plain_value(new)) for found, new in planned]
    if not manifest.edit(planned):
        raise ManifestError(
            f"{manifest.locate_refused(planned)}: cannot restore the original, since the "
            "manifest was changed after the injection; use the original file"
        )
    return True


class _Additions:
    """The agents to add to one pod template, one after the other."""

    def __init__(self, kept: int, injections: list[Injection]) -> None:
        #: Agents of other containers, which stay.
        self.kept = kept
        self.injections = injections


def _plan_additions(template: Any, injection: Injection, name: str) -> _Additions:
    """Determine which agents of a pod template stay, and which are added again.

    That of the same container is replaced, in its place; those after it are added again, since
    their records refer to the text with it.
    """
    records = find_records(template)
    containers = [record.container for record in records]
    if len(records) > 1 and not injection.container:
        raise ManifestError(
            f"{name} has agents for the containers {', '.join(containers)}; choose one with "
            "--container"
        )
    chosen = injection.container or next(iter(containers), "")
    kept = containers.index(chosen) if chosen in containers else len(records)
    again = [Injection.of_record(record.injection) for record in records[kept + 1 :]]
    return _Additions(kept, [injection, *again])


def _add(manifest: Manifest, injection: Injection) -> tuple[list[str], list[str]]:
    """Add the agent to every pod template; returns notes, and why some are unchanged.

    In rounds, since a further agent of a pod is added to the text with the one before it.
    """
    additions: dict[tuple[int, tuple[Any, ...]], _Additions] = {}
    notes: list[str] = []
    skipped: list[str] = []
    for found in manifest.templates():
        try:
            additions[found.key] = _plan_additions(
                found.template.node.data, injection, manifest.describe(found)
            )
        except NothingToFollow as error:
            skipped.append(str(error))
            additions[found.key] = _Additions(0, [])

    def is_due(found: FoundTemplate, records: list[Record]) -> bool:
        plan = additions[found.key]
        return bool(plan.injections) and len(records) > plan.kept

    while _remove_last(manifest, is_due):
        pass
    number = 0
    while any(len(plan.injections) > number for plan in additions.values()):
        more, unchanged = _add_next(manifest, additions, number)
        notes += more
        skipped += unchanged
        number += 1
    return notes, skipped


def _add_next(
    manifest: Manifest, additions: dict[tuple[int, tuple[Any, ...]], _Additions], number: int
) -> tuple[list[str], list[str]]:
    """Add the next agent to each pod template that gets one."""
    planned: list[Planned] = []
    notes: list[str] = []
    skipped: list[str] = []
    for found in manifest.templates():
        plan = additions[found.key]
        if len(plan.injections) <= number:
            continue
        node = found.template.node
        texts = _TextLookup(manifest.parts[found.part].text, node)
        try:
            new, more = add_agent(
                node.data,
                plan.injections[number],
                manifest.describe(found),
                texts,
                names=AgentNames(plan.kept + number + 1),
            )
        except NothingToFollow as error:
            skipped.append(str(error))
            plan.injections = []
            continue
        planned.append((found, new))
        notes += more
    if not manifest.edit(planned):
        raise ManifestError(
            f"{manifest.locate_refused(planned)}: cannot edit a part that injection changes, such "
            "as one shared by an anchor (&) or in unusual syntax; write it out where it is used"
        )
    return notes, skipped


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
        text = value_text(self._text, node, path[-1])
        if text is None and node.merges and not node.alias and path[-1] in node.data:
            return MERGED + json.dumps(node.data[path[-1]])
        return text


def _child(node: Node, key: str) -> Node | None:
    if node.kind == "sequence":
        named = (item for item in node.items if item.kind == "mapping")
        return next((item for item in named if item.data.get("name") == key), None)
    return node.get(key)


def _plain_value(value: Any) -> Any:
    if isinstance(value, SourceText | MergedValue):
        return value.value
    if isinstance(value, dict):
        return {key: _plain_value(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain_value(inner) for inner in value]
    return value
