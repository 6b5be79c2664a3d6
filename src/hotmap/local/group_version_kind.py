"""The name of a kind of objects, as the objects themselves say it, and the order of versions."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["GroupVersionKind", "version_order"]

_VERSION = re.compile(r"v(?P<major>\d+)(?:(?P<stage>alpha|beta)(?P<minor>\d+))?")
_STAGES = (None, "beta", "alpha")


class GroupVersionKind(NamedTuple):
    """Group, version and kind of an object (schema.GroupVersionKind)."""

    group: str
    version: str
    kind: str


def version_order(version: str) -> tuple[int, int, int, str]:
    """Order versions by how much they are preferred (apimachinery: version/helpers.go).

    Stable ones come before beta and alpha ones, later ones before earlier ones, and what is named
    otherwise last, by name.
    """
    match = _VERSION.fullmatch(version)
    if match is None:
        return len(_STAGES), 0, 0, version
    return _STAGES.index(match["stage"]), -int(match["major"]), -int(match["minor"] or 0), version
