"""Removes the agent from a pod template.

Changes made since the injection are kept: containers, volumes, mounts and variables. An original
text is restored only where the value is still as the injection left it.
"""

from __future__ import annotations

import json
from typing import Any

from hotmap.cli.injection.record import (
    ANNOTATION,
    MERGED,
    PROGRAM,
    VARIABLE,
    AgentNames,
    Change,
    Record,
    agent_number,
    is_our_mount,
    parse_record,
    unescape_references,
)
from hotmap.cli.injection.yaml_editor import MergedValue, SourceText
from hotmap.cli.injection.yaml_nodes import InvalidYaml, read_documents

__all__ = ["find_records", "remove_agent"]

#: Keys that injection only adds to; those it created are removed when nothing else is in them.
_SHARED = ("metadata", "annotations", "volumes", "initContainers", "volumeMounts")

#: Keys whose value is the agent's while it is injected.
_COMMANDS = ("command", "args")


def find_records(template: dict[str, Any]) -> list[Record]:
    """Read the records of all injections, in their order; a later one is undone first."""
    found: dict[int, Record] = {}
    for field in ("initContainers", "containers"):
        for container in _items(_items(template, "spec"), field):
            number = agent_number(container)
            if number is None or container["name"] != AgentNames(number).container:
                continue
            if (record := _record_in(container)) is not None:
                found[number] = record
    records: list[Record] = []
    while len(records) + 1 in found:
        records.append(found[len(records) + 1])
    return records


def _record_in(container: dict[str, Any]) -> Record | None:
    """Read the record in an agent's environment; the last one of several, as the kubelet does."""
    values = [
        variable.get("value")
        for variable in _items(container, "env")
        if isinstance(variable, dict) and variable.get("name") == VARIABLE
    ]
    records = [parse_record(str(value)) for value in values]
    return next((record for record in reversed(records) if record is not None), None)


def _items(holder: Any, key: str) -> Any:
    """Return the value at a key of an unvalidated template; empty if it is not a container type."""
    found = holder.get(key) if isinstance(holder, dict) else None
    return found if isinstance(found, dict | list) else ()


def remove_agent(template: dict[str, Any], record: Record, names: AgentNames) -> dict[str, Any]:
    """Remove what has an agent's names, then undo the recorded changes. Changes its argument.

    No agent with a higher number is in the template.

    Values whose original text is restored are `SourceText`.
    """
    spec = template["spec"]
    for field in ("initContainers", "containers"):
        if spec.get(field):
            spec[field] = [value for value in spec[field] if agent_number(value) != names.number]
    if spec.get("volumes"):
        spec["volumes"] = [volume for volume in spec["volumes"] if not names.has_volume(volume)]
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    if names.number == 1:
        annotations.pop(ANNOTATION, None)  # of the others, its value before is restored
    application = _named(spec["containers"], record.container)
    if application is not None and application.get("volumeMounts"):
        application["volumeMounts"] = [
            mount for mount in application["volumeMounts"] if not is_our_mount(mount)
        ]
    for change in record.changes:
        holder = _holder(template, change.path)
        if holder is not None:
            _undo(holder, change)
    return template


def _undo(holder: dict[str, Any], change: Change) -> None:
    key = change.path[-1]
    if change.text is None:
        if key not in _SHARED or _is_empty(holder.get(key)):
            holder.pop(key, None)
        return
    if change.text.startswith(MERGED):
        value = json.loads(change.text.removeprefix(MERGED))
        if key in _COMMANDS or holder.get(key) == value or change.taken:
            holder[key] = MergedValue(value)
        return
    before = SourceText(change.text, _parse_value(change.text))
    present = holder.get(key)
    if key == "command":
        if present and list(present[1:2]) == [PROGRAM] and "--" in present:
            words = [unescape_references(item) for item in present[present.index("--") + 1 :]]
            holder[key] = before if before.value in (None, words) else words
    elif key == "args":
        words = [unescape_references(item) for item in present or ()]
        holder[key] = before if before.value in (None, words) else words
    elif isinstance(before.value, list):
        holder[key] = _restore_list(before, present or [], change.taken)
    elif before.value is not None or "*" in change.text or _is_empty(present):
        holder[key] = before


def _restore_list(before: SourceText, present: list[Any], taken: tuple[int, ...]) -> Any:
    left = [item for index, item in enumerate(before.value) if index not in taken]
    if present == left:
        return before
    kept = [item for i, item in enumerate(before.value) if i in taken or item in present]
    return [*kept, *(item for item in present if item not in left)]


def _parse_value(text: str) -> Any:
    if text.lstrip()[:1] in ("[", "{"):
        try:
            return json.loads(text)  # tabs and escapes of surrogates are JSON's alone
        except ValueError:
            pass
    try:
        return read_documents(f"x: {text}\n")[0].data["x"]
    except InvalidYaml:
        return None  # an alias, whose anchor is elsewhere


def _holder(template: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any] | None:
    holder: Any = template
    for key in path[:-1]:
        holder = _named(holder, key) if isinstance(holder, list) else holder.get(key)
        if not isinstance(holder, dict | list):
            return None
    return holder if isinstance(holder, dict) else None


def _named(items: list[Any], name: str) -> dict[str, Any] | None:
    return next((item for item in items if item.get("name") == name), None)


def _is_empty(value: Any) -> bool:
    if isinstance(value, dict):
        return all(_is_empty(inner) for inner in value.values())
    return value in (None, [])
