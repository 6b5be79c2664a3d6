"""The store does what a dict and a list of all events do, under any sequence of operations."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hotmap.core.errors import AlreadyExists, Conflict, Expired, NotFound
from hotmap.local import store as store_module
from hotmap.local.store import Entry, MVCCStore, Reading
from hotmap.local.store_watch import Watch

HISTORY = 6
KEYS = st.sampled_from(["/a/x", "/a/y", "/a/y/z", "/ab/x", "/b/n/1", "/b/n/2", "/b/m/1"])
PREFIXES = st.sampled_from(["/", "/a/", "/a/y", "/a/x", "/b/", "/b/n/"])
VALUES = st.binary(max_size=3)


class Write(NamedTuple):
    """What the model remembers of a write; a value of None is a deletion."""

    revision: int
    key: str
    value: bytes | None


class OpenWatch(NamedTuple):
    """A watch, what it was opened for, and what it has told so far."""

    watch: Watch
    prefix: str
    since: int
    seen: list[Write]


class OpenReading(NamedTuple):
    """A reading that others write beside, and the keys that it has shown so far."""

    reading: Reading
    pages: Iterator[list[Entry]]
    wanted: list[tuple[str, bytes | None]]
    seen: list[tuple[str, bytes | None]]


def is_under(key: str, prefix: str) -> bool:
    return key.startswith(prefix) if prefix.endswith("/") else key == prefix


class StoreMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.store = MVCCStore(history_events=HISTORY, watch_buffer=10_000)
        self.writes: list[Write] = []
        self.compacted = 1
        self.watches: list[OpenWatch] = []
        self.readings: list[OpenReading] = []
        self.compact_to = 1

    @property
    def revision(self) -> int:
        return 1 + len(self.writes)

    def state_at(self, revision: int) -> dict[str, Write]:
        state: dict[str, Write] = {}
        for write in self.writes:
            if write.revision <= revision:
                state[write.key] = write
        return {key: write for key, write in state.items() if write.value is not None}

    def wrote(self, revision: int, key: str, value: bytes | None) -> None:
        self.writes.append(Write(revision, key, value))
        self.trim()

    def trim(self) -> None:
        """What is being read is kept beyond what was asked for and beyond the bounds."""
        held = [opened.reading.revision for opened in self.readings]
        wanted = max(self.compact_to, self.revision - HISTORY)
        self.compacted = max(self.compacted, min([wanted, *held]))

    @rule(key=KEYS, value=VALUES)
    def create(self, key: str, value: bytes) -> None:
        if key in self.state_at(self.revision):
            with pytest.raises(AlreadyExists):
                self.store.create(key, value)
        else:
            self.wrote(self.store.create(key, value), key, value)

    @rule(key=KEYS, value=VALUES, stale=st.booleans())
    def update(self, key: str, value: bytes, stale: bool) -> None:
        known = self.state_at(self.revision).get(key)
        if known is None:
            with pytest.raises(NotFound):
                self.store.update(key, value, expected=self.revision)
        elif stale:
            with pytest.raises(Conflict):
                self.store.update(key, value, expected=known.revision - 1)
        else:
            self.wrote(self.store.update(key, value, expected=known.revision), key, value)

    @rule(key=KEYS, expect=st.sampled_from(["any", "right", "stale"]))
    def delete(self, key: str, expect: str) -> None:
        known = self.state_at(self.revision).get(key)
        if known is None:
            with pytest.raises(NotFound):
                self.store.delete(key)
        elif expect == "stale":
            with pytest.raises(Conflict):
                self.store.delete(key, expected=known.revision - 1)
        else:
            expected = known.revision if expect == "right" else None
            self.wrote(self.store.delete(key, expected=expected), key, None)

    @rule(back=st.integers(0, HISTORY))
    def compact(self, back: int) -> None:
        self.store.compact(self.revision - back)
        self.compact_to = max(self.compact_to, self.revision - back)
        self.trim()

    @rule(prefix=PREFIXES, back=st.integers(-1, HISTORY + 3))
    def open_watch(self, prefix: str, back: int) -> None:
        since = self.revision - back
        if since < self.compacted:
            with pytest.raises(Expired):
                self.store.watch(prefix, since=since)
        else:
            watch = self.store.watch(prefix, since=since)
            self.watches.append(OpenWatch(watch, prefix, since, []))

    @precondition(lambda self: self.watches)
    @rule(data=st.data())
    def take(self, data: st.DataObject) -> None:
        opened = data.draw(st.sampled_from(self.watches))
        for event in opened.watch.take():
            before = self.state_at(event.revision - 1).get(event.key)
            if event.revision - 1 >= self.compacted:
                assert event.prev_value == (before.value if before else None)
            opened.seen.append(Write(event.revision, event.key, event.value))

    @precondition(lambda self: self.watches)
    @rule(data=st.data())
    def resume(self, data: st.DataObject) -> None:
        """A watch is replaced by one from where it got to; nothing is lost or repeated."""
        opened = self.watches.pop(self.watches.index(data.draw(st.sampled_from(self.watches))))
        progress = opened.watch.progress
        opened.watch.close()
        with contextlib.suppress(Expired):
            again = self.store.watch(opened.prefix, since=progress)
            self.watches.append(opened._replace(watch=again))

    @rule(prefix=PREFIXES, limit=st.integers(0, 3), back=st.integers(0, HISTORY + 2))
    def page_through(self, prefix: str, limit: int, back: int) -> None:
        at = self.revision - back
        if at < self.compacted:
            with pytest.raises(Expired):
                self.store.range(prefix, revision=at)
            return
        wanted = sorted(key for key in self.state_at(at) if is_under(key, prefix))
        found: list[str] = []
        while True:
            last = found[-1] if found else ""
            page = self.store.range(prefix, after=last, limit=limit, revision=at)
            found += [entry.key for entry in page.entries]
            assert page.remaining == len(wanted) - len(found)
            if not page.remaining:
                break
        assert found == wanted

    @rule(prefix=PREFIXES, back=st.integers(0, HISTORY), after=st.one_of(st.just(""), KEYS))
    def open_reading(self, prefix: str, back: int, after: str) -> None:
        at = self.revision - back
        if at < self.compacted:
            with pytest.raises(Expired):
                self.store.read(prefix, after=after, revision=at)
            return
        reading = self.store.read(prefix, after=after, revision=at)
        reading.__enter__()
        state = self.state_at(at)
        under = sorted(key for key in state if is_under(key, prefix) and key > after)
        wanted = [(key, state[key].value) for key in under]
        self.readings.append(OpenReading(reading, iter(reading), wanted, []))

    @precondition(lambda self: self.readings)
    @rule(data=st.data())
    def read_on(self, data: st.DataObject) -> None:
        opened = data.draw(st.sampled_from(self.readings))
        page = next(opened.pages, None)
        if page is not None:
            opened.seen.extend((entry.key, entry.value) for entry in page)
            return
        assert opened.seen == opened.wanted
        self.close_reading(opened)

    @precondition(lambda self: self.readings)
    @rule(data=st.data())
    def stop_reading(self, data: st.DataObject) -> None:
        opened = data.draw(st.sampled_from(self.readings))
        assert opened.seen == opened.wanted[: len(opened.seen)]
        self.close_reading(opened)

    def close_reading(self, opened: OpenReading) -> None:
        self.readings = [each for each in self.readings if each is not opened]
        opened.reading.__exit__()
        self.trim()

    @invariant()
    def present_is_equal(self) -> None:
        state = self.state_at(self.revision)
        assert self.store.revision == self.revision
        assert self.store.compacted == self.compacted
        for key, write in state.items():
            entry = self.store.get(key)
            assert entry is not None
            assert (entry.value, entry.mod_revision) == (write.value, write.revision)
        assert [e.key for e in self.store.range("/").entries] == sorted(state)

    def teardown(self) -> None:
        for opened in self.watches:
            told = opened.seen + [
                Write(event.revision, event.key, event.value) for event in opened.watch.take()
            ]
            assert told == [
                write
                for write in self.writes
                if write.revision > opened.since and is_under(write.key, opened.prefix)
            ]


@pytest.fixture(autouse=True)
def short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """The few keys of the model are read in several steps."""
    monkeypatch.setattr(store_module, "_PAGE", 2)


StoreMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestStoreAgainstModel = StoreMachine.TestCase
