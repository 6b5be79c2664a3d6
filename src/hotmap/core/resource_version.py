"""Compares resourceVersions of one object, or of objects of one resource (KEP-5504)."""

from __future__ import annotations

from hotmap.core.text import parse_number

__all__ = ["is_newer", "version_number"]


def version_number(resource_version: str) -> int:
    """Return a resourceVersion as a number; 0 if it is none, as where nothing was observed."""
    return parse_number(resource_version) or 0


def is_newer(resource_version: str, than: str) -> bool:
    """Return whether a resourceVersion is certainly newer than another one."""
    number, other = parse_number(resource_version), parse_number(than)
    return number is not None and other is not None and number > other
