"""The rules of deletions: grace periods, finalizers and preconditions.

Decides on objects alone; `deleter` reads and writes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hotmap.local.apiserver.status import failed_precondition
from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from hotmap.local.apiserver.options import DeleteOptions
    from hotmap.local.client import Propagation
    from hotmap.local.scheme import Kind

__all__ = [
    "begin_deletion",
    "check_preconditions",
    "is_deletion_complete",
    "is_held_by_finalizers",
    "set_propagation_finalizer",
]

_PROPAGATION_FINALIZERS: Final = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}


def begin_deletion(kind: Kind, obj: JsonObject, *, grace: int, at: str) -> None:
    """Mark an object as being deleted, with `grace` seconds that end at `at`.

    A deletion that already runs is only ever shortened (kubernetes:
    apiserver/pkg/registry/rest/delete.go, BeforeDelete).
    """
    metadata = obj["metadata"]
    known = metadata.get("deletionGracePeriodSeconds")
    if known is None and "deletionTimestamp" in metadata:
        known = 0
    if known is not None and known <= grace:
        return
    counts = kind.strategy.has_generation and kind.strategy.tells_grace
    if counts and "deletionTimestamp" not in metadata:
        metadata["generation"] = metadata.get("generation", 0) + 1
    metadata["deletionTimestamp"] = at
    if kind.strategy.tells_grace:
        metadata["deletionGracePeriodSeconds"] = grace
    kind.strategy.prepare_delete(obj)


def is_held_by_finalizers(kind: Kind, obj: JsonObject) -> bool:
    """Return whether finalizers keep an object that is to be deleted."""
    return bool(obj["metadata"].get("finalizers")) or kind.strategy.has_finalizers(obj)


def is_deletion_complete(kind: Kind, obj: JsonObject) -> bool:
    """Return whether an update took away the last thing that kept an object.

    kubernetes: apiserver/pkg/registry/generic/registry/store.go, ShouldDeleteDuringUpdate.
    """
    metadata = obj["metadata"]
    return (
        "deletionTimestamp" in metadata
        and metadata.get("deletionGracePeriodSeconds", 0) == 0
        and not is_held_by_finalizers(kind, obj)
    )


def check_preconditions(kind: Kind, metadata: JsonObject, options: DeleteOptions) -> None:
    """Hold a deletion's preconditions against the object; None asks for nothing.

    Raises:
        Conflict: it is another object now, or another version of it.
    """
    name, uid, resource_version = metadata["name"], options.uid, options.resource_version
    if uid is not None and uid != metadata["uid"]:
        raise failed_precondition(
            kind,
            name,
            f"the UID in the precondition ({uid}) does not match the UID in record "
            f"({metadata['uid']}). The object might have been deleted and then recreated",
        )
    if resource_version is not None and resource_version != metadata["resourceVersion"]:
        raise failed_precondition(
            kind,
            name,
            f"the ResourceVersion in the precondition ({resource_version}) does not match the "
            f"ResourceVersion in record ({metadata['resourceVersion']}). "
            "The object might have been modified",
        )


def set_propagation_finalizer(
    metadata: JsonObject, asked: Propagation | None, default: Propagation
) -> None:
    """Leave the dependents to the garbage collector, which takes the finalizer away at its end.

    What a deletion asks for replaces what an earlier one did; if it asks for nothing, an earlier
    finalizer stays (kubernetes: registry/store.go, deletionFinalizersForGarbageCollection).
    """
    finalizers = metadata.get("finalizers", [])
    others = [name for name in finalizers if name not in _PROPAGATION_FINALIZERS.values()]
    if asked is None and len(others) < len(finalizers):
        return
    wanted = _PROPAGATION_FINALIZERS.get(asked or default)
    metadata["finalizers"] = [*others, wanted] if wanted else others
    if not metadata["finalizers"]:
        del metadata["finalizers"]
