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


def unknown_fields(kind: Kind, obj: dict[str, Any]) -> list[str]:
    """Name the fields that the kind does not have, metadata's first, as paths."""
    metadata = obj.get("metadata")
    found = []
    if isinstance(metadata, dict):
        found = [f"metadata.{field}" for field in metadata if field not in _METADATA]
    if kind.plural == "events":
        return found
    known = _TOP_LEVEL.get(kind.plural, _SPEC_AND_STATUS)
    # The directives of a strategic merge patch are no fields.
    return found + [field for field in obj if field not in known and not field.startswith("$")]
