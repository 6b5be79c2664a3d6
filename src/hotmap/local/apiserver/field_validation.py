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
_TYPE = {"kind", "apiVersion", "metadata"}
_TOP_LEVEL: dict[str, frozenset[str]] = {
    "configmaps": frozenset(_TYPE | {"data", "binaryData", "immutable"}),
    "secrets": frozenset(_TYPE | {"data", "stringData", "type", "immutable"}),
    "serviceaccounts": frozenset(
        _TYPE | {"secrets", "imagePullSecrets", "automountServiceAccountToken"}
    ),
    "endpoints": frozenset(_TYPE | {"subsets"}),
    "controllerrevisions": frozenset(_TYPE | {"data", "revision"}),
    "leases": frozenset(_TYPE | {"spec"}),
}
_SPEC_AND_STATUS = frozenset(_TYPE | {"spec", "status"})


def drop_unknown_fields(kind: Kind, obj: dict[str, Any]) -> None:
    """Forget the fields that the kind does not have, in place, as Go's decoder does."""
    for field in [name for name in obj if not _is_known(kind, name)]:
        del obj[field]
    metadata = obj["metadata"]
    for field in [name for name in metadata if name not in _METADATA]:
        del metadata[field]


def _is_known(kind: Kind, field: str) -> bool:
    # Events have many fields of their own, and nobody writes them by hand.
    return kind.plural == "events" or field in _TOP_LEVEL.get(kind.plural, _SPEC_AND_STATUS)


def unknown_fields(kind: Kind, obj: dict[str, Any]) -> list[str]:
    """Name the fields that the kind does not have, metadata's first, as paths."""
    metadata = obj.get("metadata")
    found = []
    if isinstance(metadata, dict):
        found = [f"metadata.{field}" for field in metadata if field not in _METADATA]
    # The directives of a strategic merge patch are no fields.
    found += [name for name in obj if not _is_known(kind, name) and not name.startswith("$")]
    return found
