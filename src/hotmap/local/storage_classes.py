"""The class of a volume or claim, and which class is the default one.

kubernetes: pkg/volume/util/storageclass.go, component-helpers/storage/volume/helpers.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hotmap.local.json_object import JsonObject
from hotmap.local.meta import annotations_of

__all__ = ["class_of", "default_class", "names_class"]

_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_DEFAULTS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def class_of(obj: JsonObject) -> str:
    """Return the class of a volume or a claim, "" for none; an annotation comes first."""
    return str(annotations_of(obj).get(_CLASS) or obj["spec"].get("storageClassName") or "")


def names_class(claim: JsonObject) -> bool:
    """Return whether a claim says anything about its class, even that it wants none."""
    return "storageClassName" in claim["spec"] or _CLASS in annotations_of(claim)


def default_class(classes: Iterable[JsonObject]) -> JsonObject | None:
    """Return the newest of the classes that are marked as the default one, then by name."""
    marked = [
        found
        for found in classes
        if any(annotations_of(found).get(name) == "true" for name in _DEFAULTS)
    ]
    marked.sort(key=lambda found: str(found["metadata"]["name"]))
    return max(marked, key=lambda found: str(found["metadata"]["creationTimestamp"]), default=None)
