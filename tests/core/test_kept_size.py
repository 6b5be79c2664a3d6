"""What is kept of an object is bounded, whatever its owner writes into it."""

from __future__ import annotations

import tracemalloc

from tests.support.objects import config_map, sources

from hotmap.core.model.annotations import known_annotations
from hotmap.core.model.patterns import LONGEST_VALUE
from hotmap.core.model.source import Source


def test_source_with_many_data_keys_takes_little_more_than_their_names() -> None:
    """20,000 empty data keys of 40 characters: names and marks, and no object for each."""
    item = config_map("app", data={f"{number:040}": "" for number in range(20_000)})
    tracemalloc.start()
    try:
        before = tracemalloc.take_snapshot()
        kept = [source for source in sources(item).values() if isinstance(source, Source)]
        after = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    grown = sum(change.size_diff for change in after.compare_to(before, "filename"))
    assert len(list(kept[0].marks[0])) == 20_000
    assert grown < 2 * 20_000 * 41


def test_only_known_annotations_are_kept_and_each_is_shortened() -> None:
    """One character more than is read of each, which shows that it was cut; nothing of others."""
    items = ",".join(f"app-{number}" for number in range(40_000))
    found = known_annotations(
        {
            "hotmap.dev/follow": items,
            "hotmap.dev/settle": "5" * 250_000,
            "kubectl.kubernetes.io/last-applied-configuration": "x" * 250_000,
        }
    )
    assert found.keys() == {"hotmap.dev/follow", "hotmap.dev/settle"}
    assert {len(value) for value in found.values()} == {LONGEST_VALUE + 1}
    assert items.startswith(found["hotmap.dev/follow"])


def test_number_of_unknown_annotations_is_bounded() -> None:
    """Of names that look misspelled, a few are kept for a warning, without their values."""
    many = {f"hotmap.dev/a-{number}": "x" for number in range(1000)}
    found = known_annotations(many)
    assert len(found) == 8
    assert set(found.values()) == {""}
