"""Who wrote which fields, and when: metadata.managedFields.

structured-merge-diff's Updater, which apimachinery/pkg/util/managedfields wraps. After an update
the writer owns what it changed or added on top of what it owned; others lose what was changed
under them; removed fields belong to no manager. So a write that only removes fields, its own or
another manager's, leaves no time behind. After an apply the applier owns exactly what it sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from hotmap.local.apiserver.field_sets import (
    Difference,
    FieldSet,
    Path,
    compare,
    fields_of_object,
    in_order,
    merge,
    path_text,
    read_fields_v1,
    remove,
    root_field,
    with_named_fields,
    write_fields_v1,
)
from hotmap.local.apiserver.status import apply_conflict
from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from hotmap.local.scheme import Kind

# Written by the server or naming the object, so owned by no manager (upstream: stripmeta.go).
_STRIPPED: frozenset[Path] = frozenset(
    {
        ("f:apiVersion",),
        ("f:kind",),
        ("f:metadata",),
        *(
            ("f:metadata", f"f:{name}")
            for name in (
                "name", "namespace", "uid", "creationTimestamp", "deletionTimestamp",
                "deletionGracePeriodSeconds", "generation", "resourceVersion", "selfLink",
                "clusterName", "managedFields",
            )
        ),
    }
)  # fmt: skip


# Who may migrate from client-side apply, and where that keeps what it applied last.
_KUBECTL = "kubectl"
_UNKNOWN = "before-first-apply"
# The manager of what the oldest updates wrote, and how many managers of updates are kept.
_ANCIENT = "ancient-changes"
_MAX_UPDATES = 10
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class Writer(NamedTuple):
    """The writer, as in its managedFields entry; `time` is RFC 3339 in whole seconds."""

    manager: str
    api_version: str
    subresource: str
    time: str
    operation: Literal["Update", "Apply"] = "Update"

    def owns(self, entry: JsonObject) -> bool:
        """Whether an entry is this writer's own; who applies is the same in all versions."""
        return (
            entry.get("operation") == self.operation
            and entry.get("manager") == self.manager
            and (self.operation == "Apply" or entry.get("apiVersion") == self.api_version)
            and entry.get("subresource", "") == self.subresource
        )


class Applied(NamedTuple):
    """An applied configuration merged into its object, and the managers from then on."""

    obj: JsonObject
    managed_fields: list[JsonObject]


def record_write(
    kind: Kind, old: JsonObject | None, new: JsonObject, writer: Writer
) -> list[JsonObject]:
    """Return the managedFields of `new`, which `writer` made out of `old`.

    An explicit `managedFields: []` in the write clears what was known of the others.
    """
    if old is not None and not old["metadata"].get("managedFields"):
        # What has no known owner is not tracked before the first apply (skipnonapplied.go).
        return [entry for entry in new["metadata"].get("managedFields") or () if entry]
    difference = _own_difference(compare(root_field(kind), old or {}, new), writer)
    # Go's clients send a single empty entry to clear the list; others an empty list.
    kept = [entry for entry in new["metadata"].get("managedFields") or () if entry]
    own: FieldSet = set(difference.changed)
    for entry in kept:
        if writer.owns(entry):
            own |= read_fields_v1(entry.get("fieldsV1") or {}) - difference.removed
    if not difference.changed:  # upstream: managedfieldsupdater.go Update
        writer = _with_known_time(writer, kept)
    return _merge_oldest(_entries(kept, difference, writer, own))


def apply(
    kind: Kind, live: JsonObject, config: JsonObject, writer: Writer, *, force: bool
) -> Applied:
    """Merge an applied configuration into the live object (Updater.Apply).

    `live` is {} for an object that does not exist. What the manager applied before and no longer
    sends is removed unless another manager owns it.

    Raises:
        Conflict: other managers own fields that would change, and `force` is not given.
    """
    root = root_field(kind)
    entries = [e for e in live.get("metadata", {}).get("managedFields") or () if e]
    if live and not entries:
        entries = _before_first_apply(kind, live, writer)
    own = _without_stripped(fields_of_object(root, config), writer)
    last: FieldSet = set()
    owned = set(own)
    for entry in entries:
        fields = read_fields_v1(entry.get("fieldsV1") or {})
        if writer.owns(entry):
            last = fields
        else:
            owned |= fields
    merged = merge(root, live, config)
    # What only this manager has applied takes along what lies in it, such as defaults of a probe.
    pruned = remove(root, merged, with_named_fields(root, last) - with_named_fields(root, owned))
    difference = _own_difference(compare(root, live, pruned), writer)
    if not force:
        changed = difference.changed - _allowed_conflicts(kind, live, writer)
        _check_conflicts(entries, changed, writer)
    if pruned == live:
        # Nothing changes but who owns it, which upstream gives no new time.
        writer = _with_known_time(writer, entries)
    _update_last_applied(live, pruned, config, writer)
    return Applied(pruned, _entries(entries, difference, writer, own))


def _with_known_time(writer: Writer, entries: list[JsonObject]) -> Writer:
    """Give a writer the time of its last write that took a field."""
    known: JsonObject = next((entry for entry in entries if writer.owns(entry)), {})
    return writer._replace(time=str(known.get("time", "")))


def _before_first_apply(kind: Kind, live: JsonObject, writer: Writer) -> list[JsonObject]:
    """Return the entry of what an object had before it was applied for the first time, if any."""
    unknown = writer._replace(manager=_UNKNOWN, operation="Update", subresource="")
    fields = _without_stripped(compare(root_field(kind), {}, live).changed, unknown)
    return [_entry(unknown, fields)] if fields else []


def _own_difference(difference: Difference, writer: Writer) -> Difference:
    return Difference(*(_without_stripped(fields, writer) for fields in difference))


def _without_stripped(fields: FieldSet, writer: Writer) -> FieldSet:
    """Remove fields without an owner, and those that this kind of write cannot change.

    The main resource cannot write status, nor anything else through /status (upstream:
    GetResetFields of the strategies).
    """
    foreign = "f:spec" if writer.subresource == "status" else "f:status"
    return {path for path in fields if path[0] != foreign and path not in _STRIPPED}


def _allowed_conflicts(kind: Kind, live: JsonObject, writer: Writer) -> FieldSet:
    """Find what kubectl may take over from its own client-side apply (lastappliedmanager.go).

    These are the fields of its annotation that the live object still has.
    """
    text = _last_applied(live)
    if writer.manager != _KUBECTL or text is None:
        return set()
    try:
        last = msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.MsgspecError:
        return set()
    root = root_field(kind)
    difference = compare(root, live, last)
    return fields_of_object(root, last) - difference.changed


def _update_last_applied(
    live: JsonObject, new: JsonObject, config: JsonObject, writer: Writer
) -> None:
    """Keep the annotation of client-side apply up to date (lastappliedupdater.go)."""
    if writer.manager == _KUBECTL and _last_applied(live) is not None:
        text = msgspec.json.encode(config, order="sorted").decode() + "\n"
        annotations = new["metadata"].get("annotations", {})
        new["metadata"] = {**new["metadata"], "annotations": {**annotations, _LAST_APPLIED: text}}


def _last_applied(obj: JsonObject) -> str | None:
    text = obj.get("metadata", {}).get("annotations", {}).get(_LAST_APPLIED)
    return text if isinstance(text, str) else None


def _check_conflicts(entries: list[JsonObject], changed: FieldSet, writer: Writer) -> None:
    conflicts: list[tuple[str, str]] = []
    for entry in entries:
        if not writer.owns(entry):
            fields = read_fields_v1(entry.get("fieldsV1") or {}) & changed
            conflicts += [(_shown_manager(entry), path_text(path)) for path in in_order(fields)]
    if conflicts:
        raise apply_conflict(conflicts)


def _shown_manager(entry: JsonObject) -> str:
    """apimachinery/pkg/util/managedfields/internal/conflict.go: printManager."""
    shown = f'"{entry.get("manager", "")}"'
    if entry.get("subresource"):
        shown += f' with subresource "{entry["subresource"]}"'
    if entry.get("operation") == "Update":
        shown += f" using {entry.get('apiVersion', '')}"
    return shown


def _entries(
    kept: list[JsonObject], difference: Difference, writer: Writer, own: FieldSet
) -> list[JsonObject]:
    """Return the entries after a write, in upstream's order."""
    entries: list[JsonObject] = []
    for entry in kept:
        if writer.owns(entry):
            continue
        fields = read_fields_v1(entry.get("fieldsV1") or {})
        left = fields - difference.removed - difference.changed
        if left == fields:
            entries.append(entry)
        elif left:
            entries.append({**entry, "fieldsV1": write_fields_v1(left)})
    if own:
        entries.append(_entry(writer, own))
    return in_entry_order(entries)


def _merge_oldest(entries: list[JsonObject]) -> list[JsonObject]:
    """Merge the oldest entries of updates of each version where there are too many.

    kubernetes: apimachinery/pkg/util/managedfields/internal/capmanagers.go
    """
    updates = [entry for entry in in_entry_order(entries) if entry.get("operation") == "Update"]
    excess = len(updates) - _MAX_UPDATES
    if excess <= 0:
        return entries
    # What earlier merges have made takes the others, whatever its place among them.
    merged = {_version(entry): [entry] for entry in updates if _is_ancient(entry)}
    for entry in updates:
        if _is_ancient(entry):
            continue
        same_version = merged.setdefault(_version(entry), [])
        excess -= bool(same_version)
        same_version.append(entry)
        if not excess:
            break
    kept = [entry for entry in entries if all(entry not in group for group in merged.values())]
    for version, group in merged.items():
        if len(group) == 1:
            kept += group
            continue
        fields: FieldSet = set()
        for entry in group:
            fields |= read_fields_v1(entry.get("fieldsV1") or {})
        time = str(group[-1].get("time", ""))
        kept.append(_entry(Writer(_ANCIENT, version, "", time), fields))
    return in_entry_order(kept)


def _is_ancient(entry: JsonObject) -> bool:
    return Writer(_ANCIENT, _version(entry), "", "").owns(entry)


def _version(entry: JsonObject) -> str:
    return str(entry.get("apiVersion", ""))


def in_entry_order(entries: list[JsonObject]) -> list[JsonObject]:
    """Sort entries as upstream does (sortEncodedManagedFields)."""
    return sorted(entries, key=_order)


def _order(entry: JsonObject) -> tuple[str, ...]:
    fields = ("operation", "time", "manager", "apiVersion", "subresource")
    return tuple(str(entry.get(field) or "") for field in fields)


def without_times(entries: list[JsonObject] | None) -> list[JsonObject]:
    """Strip the times, which alone are no change (upstream: SkipNonApplied, equality.go)."""
    stripped = [{k: v for k, v in entry.items() if k != "time"} for entry in entries or ()]
    return in_entry_order(stripped)


def _entry(writer: Writer, fields: FieldSet) -> JsonObject:
    entry = {
        "manager": writer.manager,
        "operation": writer.operation,
        "apiVersion": writer.api_version,
        "time": writer.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": write_fields_v1(fields),
    }
    if not writer.time:
        del entry["time"]
    if writer.subresource:
        entry["subresource"] = writer.subresource
    return entry
