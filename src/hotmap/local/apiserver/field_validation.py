"""Fields that a kind does not have (KEP-2885, fieldValidation).

Looks at the top level and at metadata, where a typing error silently loses configuration;
deeper shapes are not known here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotmap.local.scheme import Kind

_METADATA = frozenset(
    {
        "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation",
        "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "labels",
        "annotations", "ownerReferences", "finalizers", "managedFields",
    }
)  # fmt: skip
_EVERY_KIND = frozenset(("kind", "apiVersion", "metadata"))


def drop_unknown_fields(kind: Kind, obj: dict[str, Any]) -> None:
    """Forget the fields that the kind does not have, in place, as Go's decoder does."""
    for field in [name for name in obj if not _is_known(kind, name)]:
        del obj[field]
    metadata = obj["metadata"]
    for field in [name for name in metadata if name not in _METADATA]:
        del metadata[field]


def _is_known(kind: Kind, field: str) -> bool:
    fields = kind.strategy.fields
    return fields is None or field in fields or field in _EVERY_KIND


def unknown_fields(kind: Kind, obj: dict[str, Any]) -> list[str]:
    """Name the fields that the kind does not have, metadata's first, as paths."""
    metadata = obj.get("metadata")
    found = []
    if isinstance(metadata, dict):
        found = [f"metadata.{field}" for field in metadata if field not in _METADATA]
    # The directives of a strategic merge patch are no fields.
    found += [name for name in obj if not _is_known(kind, name) and not name.startswith("$")]
    return found
