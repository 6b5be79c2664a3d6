"""Works out a pod template without what an injection put into it.

What a person has changed since then stays: their containers, volumes, mounts and variables. Only
where a value is as the injection left it does its old text come back.
"""

from __future__ import annotations

from typing import Any

from hotmap.cli.injection.documents import NotYaml, read_documents
from hotmap.cli.injection.edits import Written
from hotmap.cli.injection.record import (
    AGENT,
    ANNOTATION,
    FIRST,
    PROGRAM,
    VARIABLE,
    Change,
    Record,
    is_our_mount,
    is_ours,
    parse_record,
    unprotected,
)

__all__ = ["find_record", "without_agent"]

#: Keys that injection only adds to; made by it, they go when nothing of a person's is in them.
_SHARED = ("metadata", "annotations", "volumes", "initContainers", "volumeMounts")


def find_record(template: dict[str, Any]) -> Record | None:
    """Read what an injection noted; None when there was none."""
    for field in ("initContainers", "containers"):
        for container in _items(_items(template, "spec"), field):
            if isinstance(container, dict) and container.get("name") == AGENT:
                for variable in _items(container, "env"):
                    if isinstance(variable, dict) and variable.get("name") == VARIABLE:
                        return parse_record(str(variable.get("value")))
    return None


def _items(holder: Any, key: str) -> Any:
    """Give what is at a key, whatever else may be wrong around it."""
    found = holder.get(key) if isinstance(holder, dict) else None
    return found if isinstance(found, dict | list) else ()


def without_agent(template: dict[str, Any], record: Record) -> dict[str, Any]:
    """Take out what is named as ours, then undo what is recorded. Changes its argument.

    Values whose text comes back are `Written`.
    """
    spec = template["spec"]
    for field in ("initContainers", "containers"):
        if spec.get(field):
            spec[field] = [one for one in spec[field] if one.get("name") not in (AGENT, FIRST)]
    if spec.get("volumes"):
        spec["volumes"] = [one for one in spec["volumes"] if not is_ours(one)]
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    annotations.pop(ANNOTATION, None)
    application = _named(spec["containers"], record.container)
    if application is not None and application.get("volumeMounts"):
        application["volumeMounts"] = [
            one for one in application["volumeMounts"] if not is_our_mount(one)
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
    before = Written(change.text, _meaning(change.text))
    present = holder.get(key)
    if key == "command":
        if present and list(present[1:2]) == [PROGRAM] and "--" in present:
            words = [unprotected(one) for one in present[present.index("--") + 1 :]]
            holder[key] = before if before.value in (None, words) else words
    elif key == "args":
        words = [unprotected(one) for one in present or ()]
        holder[key] = before if before.value in (None, words) else words
    elif isinstance(before.value, list):
        holder[key] = _list_before(before, present or [], change.taken)
    elif before.value is not None or "*" in change.text or _is_empty(present):
        holder[key] = before


def _list_before(before: Written, present: list[Any], taken: tuple[int, ...]) -> Any:
    left = [one for index, one in enumerate(before.value) if index not in taken]
    if present == left:
        return before
    kept = [one for i, one in enumerate(before.value) if i in taken or one in present]
    return [*kept, *(one for one in present if one not in left)]


def _meaning(text: str) -> Any:
    try:
        return read_documents(f"x:{text}\n")[0].data["x"]
    except NotYaml:
        return None  # an alias: its anchor is elsewhere


def _holder(template: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any] | None:
    holder: Any = template
    for key in path[:-1]:
        holder = _named(holder, key) if isinstance(holder, list) else holder.get(key)
        if not isinstance(holder, dict | list):
            return None
    return holder if isinstance(holder, dict) else None


def _named(items: list[Any], name: str) -> dict[str, Any] | None:
    return next((one for one in items if one.get("name") == name), None)


def _is_empty(value: Any) -> bool:
    if isinstance(value, dict):
        return all(_is_empty(inner) for inner in value.values())
    return value in (None, [])
