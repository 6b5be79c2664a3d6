"""Dictionaries that keep the latest entries."""

from __future__ import annotations

from hotmap.kube.bounded_dict import put_latest


def test_oldest_entry_is_dropped() -> None:
    """An entry that is put again is the latest, and so outlives those that were put since."""
    entries: dict[str, int] = {}
    for number, key in enumerate("abacd"):
        put_latest(entries, key, number, most=3)
    assert list(entries.items()) == [("a", 2), ("c", 3), ("d", 4)]
