"""What is kept of changes that were seen is bounded, also while sources come and go."""

from __future__ import annotations

import msgspec
from tests.support.objects import config_map, sources

from hotmap.controller.watch.history import History
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.source import Source


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def source(name: str, **data: str) -> Source:
    (made,) = sources(config_map(name, data=data)).values()
    return made


def delete(history: History, name: str) -> ObjectKey:
    there = source(name, LEVEL="info")
    history.record_change(there.key, None, there)
    history.record_change(there.key, there, None)
    return there.key


def test_history_keeps_changes_of_a_deleted_source_for_an_hour() -> None:
    """It may come back; after that, the next deletion of any source drops them."""
    clock = Clock()
    history = History(clock)
    first = delete(history, "first")
    clock.now += 3599
    delete(history, "second")
    assert len(history.changes(first)) == 2
    clock.now += 2
    delete(history, "third")
    assert history.changes(first) == ()


def test_history_keeps_changes_of_a_source_that_came_back() -> None:
    clock = Clock()
    history = History(clock)
    key = delete(history, "app")
    back = source("app", LEVEL="debug")
    history.record_change(key, None, back)
    clock.now += 7200
    delete(history, "other")
    assert len(history.changes(key)) == 3


def test_history_bounds_the_number_of_deleted_sources() -> None:
    """9,000 names that do not come back: those of the latest 4,096 are kept."""
    history = History(Clock())
    keys = [delete(history, f"app-{number}") for number in range(9_000)]
    assert sum(1 for key in keys if history.changes(key)) == 4096
    assert history.changes(keys[-1])


def test_history_of_an_endlessly_edited_source_is_bounded() -> None:
    """The first change stays, since a window may begin there, and the latest 32."""
    clock = Clock()
    history = History(clock)
    before, key = None, source("app").key
    for number in range(1_000):
        clock.now += 1
        after = source("app", LEVEL=str(number))
        history.record_change(key, before, after)
        before = after
    times = [change.at for change in history.changes(key)]
    assert times == [1001.0, *(2000.0 - age for age in range(31, -1, -1))]


def test_history_names_no_data_keys_where_very_many_changed() -> None:
    """Then any of them counts as changed."""
    history = History(Clock())
    large = source("app", **{f"K{number}": "" for number in range(300)})
    history.record_change(large.key, None, large)
    [seen] = history.changes(large.key)
    assert seen.keys == frozenset()


def test_change_found_in_a_list_hides_no_revert_of_another_data_key() -> None:
    """Only the last state is known: a key that is what it was may have been another in between."""
    history = History(Clock())
    before = source("app", LEVEL="info", other="1")
    after = msgspec.structs.replace(source("app", LEVEL="info", other="2"), resource_version="9")
    assert history.record_change(before.key, before, after, since=900.0, listed=True)
    unobserved, changed = history.changes(before.key)
    assert (unobserved.same, unobserved.keys, unobserved.since) == (True, frozenset(), 900.0)
    assert changed.keys == {"other"}


def test_change_of_a_watch_is_all_that_happened() -> None:
    """Each version was seen, also late."""
    history = History(Clock())
    before = source("app", LEVEL="info", other="1")
    after = msgspec.structs.replace(source("app", LEVEL="info", other="2"), resource_version="9")
    history.record_change(before.key, before, after, since=900.0)
    [changed] = history.changes(before.key)
    assert not changed.same
