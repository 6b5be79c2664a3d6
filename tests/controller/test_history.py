"""What is kept of changes that were seen is bounded, also while sources come and go."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest
from tests.support.clocks import Clock
from tests.support.objects import config_map, sources

from hotmap.controller.watch.history import History
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.observed_changes import thin_changes
from hotmap.core.model.source import Source


def source(name: str, **data: str) -> Source:
    (made,) = sources(config_map(name, data=data)).values()
    return made


def make_history(clock: Clock, *, used: Iterable[ObjectKey] = ()) -> History:
    """Make a history of sources of which consumers use these."""
    return History(clock, is_used=set(used).__contains__)


def delete(history: History, name: str) -> ObjectKey:
    there = source(name, LEVEL="info")
    history.record_change(there.key, None, there)
    history.record_change(there.key, there, None)
    return there.key


def test_history_keeps_changes_of_a_deleted_source_for_an_hour() -> None:
    """It may come back; after that, the next deletion of any source drops them."""
    clock = Clock()
    history = make_history(clock)
    first = delete(history, "first")
    clock.now += 3599
    delete(history, "second")
    assert len(history.changes(first)) == 2
    clock.now += 2
    delete(history, "third")
    assert history.changes(first) == ()


def test_history_keeps_when_a_source_was_deleted_that_is_still_used() -> None:
    """Its optional uses stay in pod templates: only this shows which pods may have its content."""
    clock = Clock()
    used = source("first").key
    history = make_history(clock, used=[used])
    assert delete(history, "first") == used
    deleted_at = clock.now
    for number in range(3):
        clock.now += 3601
        delete(history, f"other-{number}")
    [deletion] = history.changes(used)
    assert (deletion.at, deletion.resource_version) == (deleted_at, "")


def test_history_drops_a_deleted_source_once_it_is_not_used() -> None:
    clock = Clock()
    used = {source("first").key}
    history = History(clock, is_used=used.__contains__)
    first = delete(history, "first")
    clock.now += 3601
    delete(history, "second")
    assert history.changes(first)
    used.clear()
    clock.now += 3601
    delete(history, "third")
    assert history.changes(first) == ()


def test_history_keeps_a_used_source_beside_many_that_are_not() -> None:
    """Sources of one namespace that come and go drop no others."""
    used = source("used").key
    history = make_history(Clock(), used=[used])
    delete(history, "used")
    others = [delete(history, f"app-{number}") for number in range(9_000)]
    assert history.changes(used)
    assert sum(1 for key in others if history.changes(key)) <= 4096


def test_history_keeps_changes_of_a_source_that_came_back() -> None:
    clock = Clock()
    history = make_history(clock)
    key = delete(history, "app")
    back = source("app", LEVEL="debug")
    history.record_change(key, None, back)
    clock.now += 7200
    delete(history, "other")
    assert len(history.changes(key)) == 3


@pytest.mark.parametrize("immutable", [True, False])
def test_history_keeps_when_an_immutable_source_was_deleted(immutable: bool) -> None:
    """Also by a list that shows its successor in its place."""
    clock = Clock()
    history = make_history(clock)
    before = msgspec.structs.replace(source("app", LEVEL="info"), immutable=immutable)
    after = msgspec.structs.replace(source("app", LEVEL="debug"), uid="uid-2")
    history.record_change(before.key, None, before)
    assert history.of(before.key).immutable_until is None
    history.record_change(before.key, before, after, listed=True)
    assert history.of(before.key).immutable_until == (clock.now if immutable else None)


def test_content_is_compared_with_all_deleted_immutable_sources_of_the_name() -> None:
    history = make_history(Clock())
    levels = ["info", "debug", "info", "warn"]
    first, *_, last = states = [
        msgspec.structs.replace(source("app", LEVEL=level), immutable=True) for level in levels
    ]
    assert history.is_like_deleted(first)
    for state, only_one in zip(states, (True, False, False, False), strict=True):
        history.record_change(state.key, state, None)
        assert history.is_like_deleted(state) is only_one
        history.record_change(state.key, None, state)
    assert not history.is_like_deleted(last)


def test_history_bounds_the_number_of_deleted_sources() -> None:
    """9,000 names that do not come back: those of the latest 4,096 are kept."""
    history = make_history(Clock())
    keys = [delete(history, f"app-{number}") for number in range(9_000)]
    assert sum(1 for key in keys if history.changes(key)) == 4096
    assert history.changes(keys[-1])


def record_edits(history: History, clock: Clock, keys: Iterable[str], pause: float) -> ObjectKey:
    """Edit one data key after the other; versions and values are the number of the edit."""
    before = source("app")
    data: dict[str, str] = {}
    for number, key in enumerate(keys, 1):
        clock.now += pause
        data[key] = str(number)
        after = msgspec.structs.replace(source("app", **data), resource_version=str(number))
        history.record_change(before.key, before, after)
        before = after
    return before.key


@pytest.mark.parametrize("pause", [0.02, 1.0, 60.0])
def test_history_of_an_endlessly_edited_source_is_bounded(pause: float) -> None:
    """And has no gap: a window may begin at each change, and begins a bit early at worst."""
    clock = Clock()
    history = make_history(clock)
    edits = 1_000
    kept = history.changes(record_edits(history, clock, ["LEVEL"] * edits, pause))
    assert len(kept) <= 32
    assert kept[-1].began == kept[-1].at == clock.now
    versions = [int(change.resource_version) for change in kept]
    assert versions == sorted(versions)
    for recorded in range(edits):
        began = next(c.began for c in kept if int(c.resource_version) > recorded)
        changed = 1000.0 + pause * (recorded + 1)
        age = clock.now - changed
        assert changed - age - pause <= began <= changed + 1e-6


def test_history_keeps_the_time_of_a_data_key_beside_one_that_is_edited_endlessly() -> None:
    """Otherwise pods that started after its change would count as older in the end."""
    clock = Clock()
    history = make_history(clock)
    keys = ["LEVEL", "LEVEL", *["heartbeat"] * 1_000]
    kept = history.changes(record_edits(history, clock, keys, 1.0))
    assert len(kept) <= 32
    assert [change.at for change in kept if "LEVEL" in change.keys] == [1002.0]


@pytest.mark.parametrize("most", [8, 32])
def test_history_of_many_different_data_keys_drops_no_change(most: int) -> None:
    """Each data key is edited once: whichever a consumer uses, its change is known.

    The history covers the whole time since each version, and no change appears to be earlier than
    it was, or pods that started before it would count as proven.
    """
    clock = Clock()
    history = make_history(clock)
    edits = 300
    keys = [f"K{number}" for number in range(1, edits + 1)]
    kept = thin_changes(history.changes(record_edits(history, clock, keys, 0.02)), most)
    assert len(kept) <= most
    assert kept[-1].keys == {keys[-1]}
    for number, key in enumerate(keys, 1):
        at = 1000.0 + 0.02 * number
        assert any(
            c.began <= at + 1e-6 and at <= c.at + 1e-6 for c in kept if not c.keys or key in c.keys
        )
        began = next(c.began for c in kept if int(c.resource_version) >= number)
        assert began <= at + 1e-6


def test_history_of_an_endlessly_recreated_source_drops_no_change() -> None:
    clock = Clock()
    history = make_history(clock)
    times = []
    for number in range(1, 101):
        made = msgspec.structs.replace(
            source("app", LEVEL=str(number)), resource_version=f"{number}"
        )
        clock.now += 1.0
        history.record_change(made.key, None, made)
        times.append(clock.now)
        clock.now += 1.0
        history.record_change(made.key, made, None)
        times.append(clock.now)
    kept = history.changes(made.key)
    assert len(kept) <= 32
    for at in times:
        assert any(c.began <= at <= c.at for c in kept)


def test_history_covers_an_edit_and_its_revert_beside_many_other_edits() -> None:
    """A pod that started between the two has the other content, whatever else was edited."""
    clock = Clock()
    history = make_history(clock)
    before = source("app", LEVEL="info")
    versions = [{"LEVEL": "debug"}, {"LEVEL": "info", "K0": "0"}]
    versions += [{"LEVEL": "info", f"K{number}": ""} for number in range(1, 100)]
    old = before
    for number, data in enumerate(versions, 2):
        clock.now += 0.02
        new = msgspec.structs.replace(source("app", **data), resource_version=str(number))
        history.record_change(before.key, old, new)
        old = new
    used = [c for c in history.changes(before.key) if not c.keys or "LEVEL" in c.keys]
    assert used[0].began == pytest.approx(1000.02)
    assert used[-1].at >= 1000.04 - 1e-6
    assert len(used) > 1 or used[0].several


def test_stored_changes_of_a_burst_begin_with_the_first() -> None:
    """The next controller examines the pods that started since then."""
    clock = Clock()
    history = make_history(clock)
    kept = history.changes(record_edits(history, clock, ["LEVEL"] * 200, 0.02))
    stored = thin_changes(kept, 8)
    assert len(stored) == 8
    assert stored[0].began == kept[0].began
    assert stored[-1] == kept[-1]


def test_history_names_no_data_keys_where_very_many_changed() -> None:
    """Then any of them counts as changed."""
    history = make_history(Clock())
    large = source("app", **{f"K{number}": "" for number in range(300)})
    history.record_change(large.key, None, large)
    [seen] = history.changes(large.key)
    assert seen.keys == frozenset()


def test_change_found_in_a_list_hides_no_revert_of_another_data_key() -> None:
    """Only the last state is known: a key that is what it was may have been another in between."""
    history = make_history(Clock())
    before = source("app", LEVEL="info", other="1")
    after = msgspec.structs.replace(source("app", LEVEL="info", other="2"), resource_version="9")
    assert history.record_change(before.key, before, after, since=900.0, listed=True)
    unobserved, changed = history.changes(before.key)
    assert (unobserved.same, unobserved.keys, unobserved.since) == (True, frozenset(), 900.0)
    assert changed.keys == {"other"}


def test_change_of_a_watch_is_all_that_happened() -> None:
    """Each version was seen, also late."""
    history = make_history(Clock())
    before = source("app", LEVEL="info", other="1")
    after = msgspec.structs.replace(source("app", LEVEL="info", other="2"), resource_version="9")
    history.record_change(before.key, before, after, since=900.0)
    [changed] = history.changes(before.key)
    assert not changed.same


def test_history_keeps_stored_changes_before_a_deletion_that_it_observed_first() -> None:
    """A deletion has no version to compare with."""
    earlier = make_history(Clock())
    before = source("app", LEVEL="info")
    after = msgspec.structs.replace(source("app", LEVEL="debug"), resource_version="9")
    earlier.record_change(before.key, before, after)
    stored = earlier.changes(before.key)
    history = make_history(Clock())
    history.record_change(before.key, after, None)
    history.restore({before.key: stored}, until=950.0)
    assert history.changes(before.key)[: len(stored)] == stored


@pytest.mark.parametrize(
    ("arrives", "began"),
    [
        pytest.param(960.0, 951.0, id="late: a pod may have started in between for all that time"),
        pytest.param(951.5, 951.5, id="in time"),
    ],
)
def test_removal_that_arrives_with_a_late_edit_was_late_too(arrives: float, began: float) -> None:
    """A watch or a process that stands still for a while delivers all that it missed at once."""
    clock = Clock()
    history = make_history(clock)
    first, without = source("app", LEVEL="info", other="1"), source("app", other="1")
    back = msgspec.structs.replace(first, resource_version="9", changed_at=951.0)
    clock.now = 951.0
    edited = msgspec.structs.replace(first, changed_at=951.0)
    history.record_change(first.key, None, edited)
    clock.now = arrives
    history.record_change(first.key, edited, without)
    history.record_change(first.key, without, back)
    _, removal, revert = history.changes(first.key)
    assert (removal.began, revert.at) == (began, arrives)


def test_recreation_found_in_a_list_hides_no_content_in_between() -> None:
    """Whether its uses require it or not: it may have been edited since it was recreated."""
    history = make_history(Clock())
    before = source("app", LEVEL="info")
    again = msgspec.structs.replace(before, uid="uid-2", resource_version="9")
    assert history.record_change(before.key, before, again, since=900.0, listed=True)
    written, deleted, created = history.changes(before.key)
    assert (written.same, written.since) == (True, 900.0)
    assert (deleted.resource_version, created.resource_version) == ("", "9")
