"""Dictionaries with a bound: what tenants choose must not fill the memory."""

from __future__ import annotations

from typing import TypeVar

__all__ = ["put_latest"]

K = TypeVar("K")
V = TypeVar("V")


def put_latest(entries: dict[K, V], key: K, value: V, *, most: int) -> None:
    """Put an entry at the end of a dictionary; of more than `most`, drop the first one."""
    entries.pop(key, None)
    entries[key] = value
    if len(entries) > most:
        del entries[next(iter(entries))]
