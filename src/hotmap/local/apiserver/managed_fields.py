"""Who wrote which fields, and when: metadata.managedFields.

Update entries follow structured-merge-diff's Updater.Update: the writer owns what it changed
or added on top of what it owned; others lose what was changed under them; removed fields
belong to no manager. So a write that only removes another manager's fields leaves no entry and no
time behind. Field sets go down to single data keys, labels and annotations (the pod template's
too), and to the fields directly below spec and status; lists and deeper maps count as one field.
"""

from __future__ import annotations

from typing import Any, NamedTuple

JsonObject = dict[str, Any]
FieldSet = set[tuple[str, ...]]

# Maps whose keys are owned one by one, beside spec and status.
_GRANULAR = (
    ("metadata", "labels"),
    ("metadata", "annotations"),
    ("data",),
    ("binaryData",),
    ("stringData",),
    ("spec",),
    ("spec", "template"),
    ("spec", "template", "metadata"),
    ("spec", "template", "metadata", "labels"),
    ("spec", "template", "metadata", "annotations"),
    ("status",),
)
# Written by the server or naming the object, so owned by no manager (upstream: strip.go).
_STRIPPED = {
    ("apiVersion",), ("kind",),
    *(
        ("metadata", name)
        for name in (
            "name", "namespace", "uid", "creationTimestamp", "deletionTimestamp",
            "deletionGracePeriodSeconds", "generation", "resourceVersion", "selfLink",
            "managedFields",
        )
    ),
}  # fmt: skip


class Writer(NamedTuple):
    """Whose write it is, as the entry will say; `time` is RFC 3339 in whole seconds."""

    manager: str
    api_version: str
    subresource: str
    time: str

    def owns(self, entry: JsonObject) -> bool:
        """Whether an entry is this writer's own."""
        return (
            entry.get("operation") == "Update"
            and entry.get("manager") == self.manager
            and entry.get("apiVersion") == self.api_version
            and entry.get("subresource", "") == self.subresource
        )


def record_write(old: JsonObject | None, new: JsonObject, writer: Writer) -> list[JsonObject]:
    """Give the managedFields of `new`, which `writer` made out of `old`.

    An explicit `managedFields: []` in the write clears what was known of the others.
    """
    before = _leaves(old) if old is not None else {}
    after = _leaves(new)
    # The main resource cannot write status, nor anything else through /status
    # (upstream: GetResetFields of the strategies).
    foreign = ("spec",) if writer.subresource == "status" else ("status",)
    changed = {
        path
        for path, value in after.items()
        if path[:1] != foreign and (path not in before or before[path] != value)
    }
    # Go's clients send a single empty entry to clear the list; others an empty list.
    kept = [entry for entry in new["metadata"].get("managedFields") or () if entry]
    entries: list[JsonObject] = []
    own: FieldSet = set(changed)
    for entry in kept:
        fields = _field_set(entry.get("fieldsV1") or {})
        if writer.owns(entry):
            own |= fields & after.keys()
            continue
        fields = {path for path in fields if path in after} - changed
        if fields:
            entries.append({**entry, "fieldsV1": _fields_v1(fields)})
    if own:
        entries.append(_entry(writer, own))
    return entries


def without_times(entries: list[JsonObject] | None) -> list[JsonObject]:
    """Strip the times, which alone are no change (upstream: SkipNonApplied, equality.go)."""
    return [{k: v for k, v in entry.items() if k != "time"} for entry in entries or ()]


def _entry(writer: Writer, fields: FieldSet) -> JsonObject:
    entry = {
        "manager": writer.manager,
        "operation": "Update",
        "apiVersion": writer.api_version,
        "time": writer.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": _fields_v1(fields),
    }
    if writer.subresource:
        entry["subresource"] = writer.subresource
    return entry


def _leaves(obj: JsonObject) -> dict[tuple[str, ...], Any]:
    leaves: dict[tuple[str, ...], Any] = {}
    for name, value in obj.items():
        if name == "metadata":
            for inner, inner_value in value.items():
                _add(leaves, (name, inner), inner_value)
        else:
            _add(leaves, (name,), value)
    return leaves


def _add(leaves: dict[tuple[str, ...], Any], path: tuple[str, ...], value: Any) -> None:
    if path in _STRIPPED:
        return
    if path in _GRANULAR and isinstance(value, dict):
        for key, inner in value.items():
            _add(leaves, (*path, key), inner)
    else:
        leaves[path] = value


def _field_set(fields: JsonObject, path: tuple[str, ...] = ()) -> FieldSet:
    found: FieldSet = set()
    for name, inner in fields.items():
        if not name.startswith("f:"):
            continue
        at = (*path, name[2:])
        if isinstance(inner, dict) and inner and (at in _GRANULAR or at == ("metadata",)):
            found |= _field_set(inner, at)
        else:
            found.add(at)
    return found


def _fields_v1(fields: FieldSet) -> JsonObject:
    tree: JsonObject = {}
    for path in sorted(fields):
        node = tree
        for part in path:
            node = node.setdefault(f"f:{part}", {})
    return tree
