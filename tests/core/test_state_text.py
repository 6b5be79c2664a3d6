"""The text of a state shard gives back what was written, and never an error."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.shards import write_shard

from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.state import (
    HEADER,
    SHARDS,
    ForeignWrites,
    ObservedChange,
    PodCheck,
    Record,
    RetiredRevision,
    RolloutTimes,
    SourceChanges,
    SourceRecord,
    Window,
    read_changes,
    read_shard,
    read_watched_until,
    shard_of,
    shards_for,
)

texts = st.text(max_size=6)
times = st.floats(0, 4e9)
source_records = st.builds(
    SourceRecord,
    st.sampled_from(("ConfigMap", "Secret")),
    texts,
    texts,
    texts,
    texts,
    texts,
    texts,
    st.booleans(),
)
records = st.builds(
    Record,
    texts,
    texts,
    st.integers(-1, 2**53),
    st.lists(source_records, max_size=3).map(tuple),
    st.lists(st.builds(Window, times, times), max_size=2).map(tuple),
    st.lists(st.builds(RetiredRevision, texts, times), max_size=2).map(tuple),
    st.integers(0, 9),
    st.builds(RolloutTimes, st.lists(times, max_size=3).map(tuple), st.integers(0, 9)),
    texts,
    st.sampled_from(PodCheck),
    texts,
    st.none() | st.builds(ForeignWrites, times, texts),
    times,
    texts,
)

RECORD = Record(
    "6f0c",
    "kH3x",
    4,
    (SourceRecord("ConfigMap", "app", "Zk", "9d1", "1042", "uY3", "-", False, "zR", 3.5, True),),
    (Window(1.5, 2.5),),
    (RetiredRevision("kH3x.abc", 9.0),),
    1,
    RolloutTimes((3.0, 4.5), 1, ("a1", "b2"), "r3"),
    "kH3x.abc",
    PodCheck.LATENT,
    "shop",
    ForeignWrites(8.0, "removed kH3x.abc"),
    7.0,
    "kH3x.def",
)

LINE = (
    '["6f0c","kH3x",4,[["ConfigMap","app","Zk","9d1","1042","uY3","-",false,"zR",3.5,true,'
    'false,false,0.0,"",null,0.0]],[[1.5,2.5]],[["kH3x.abc",9.0,false,false]],1,'
    '[[3.0,4.5],1,["a1","b2"],"r3"],"kH3x.abc",2,"shop",[8.0,"removed kH3x.abc"],7.0,'
    '"kH3x.def",[],[],null,0.0]'
)


def test_record_without_a_pod_check_needs_one() -> None:
    """A record from before pod checks were recorded: its other fields are read."""
    earlier = msgspec.structs.replace(
        RECORD,
        pods_checked=PodCheck.NOT_YET,
        namespace="",
        foreign_writes=None,
        proven_since=0.0,
        healed="",
    )
    line = LINE.removesuffix(',2,"shop",[8.0,"removed kH3x.abc"],7.0,"kH3x.def",[],[],null,0.0]')
    assert read_shard(f"{HEADER}\n{line}]\n") == {"6f0c": earlier}


def test_record_without_whole_content_is_read() -> None:
    """As it was written before the whole content and the time of a change were kept."""
    (source,) = RECORD.sources
    earlier = msgspec.structs.replace(source, content="", changed_by=None, edited=False)
    line = LINE.replace(',"zR",3.5,true,false,false,0.0,"",null,0.0]', "]")
    assert read_shard(f"{HEADER}\n{line}\n")["6f0c"].sources == (earlier,)


def test_text_is_one_line_a_consumer() -> None:
    """A shard is a header with the scheme and one JSON array a record."""
    assert write_shard([RECORD]) == f"hotmap-state/1\n{LINE}\n"


@given(st.lists(records, max_size=4, unique_by=lambda record: record.uid))
def test_records_are_read_as_written(written: list[Record]) -> None:
    """Reading a shard gives the records that were written, by uid."""
    assert read_shard(write_shard(written)) == {record.uid: record for record in written}


@given(st.lists(records, max_size=4, unique_by=lambda record: record.uid))
def test_shared_values_are_written_as_they_were(written: list[Record]) -> None:
    """Values keep their types: 0.0, 0 and false are equal, and none is written for another."""
    text, known = write_shard(written), dict[object, object]()
    for _ in range(2):
        assert write_shard(read_shard(text, known).values()) == text


def test_records_read_together_share_equal_values() -> None:
    """Thousands of consumers name the same sources; in memory each text and time is there once."""
    known: dict[object, object] = {}
    first = read_shard(f"{HEADER}\n{LINE}\n", known)["6f0c"]
    other = read_shard(f"{HEADER}\n{LINE.replace('6f0c', '7a1d')}\n", known)["7a1d"]
    assert other == msgspec.structs.replace(first, uid="7a1d")
    assert other.key_id is first.key_id
    assert other.rollouts is first.rollouts
    values = zip(
        *(msgspec.structs.astuple(each.sources[0]) for each in (first, other)), strict=True
    )
    assert all(value is of_other for value, of_other in values)


@given(st.lists(records, max_size=4, unique_by=lambda record: record.uid), st.randoms())
def test_equal_states_are_equal_texts(written: list[Record], random: Random) -> None:
    """The order of records does not matter, so an unchanged shard is not written again."""
    shuffled = list(written)
    random.shuffle(shuffled)
    assert write_shard(shuffled) == write_shard(written)


@given(st.text())
def test_invalid_shard_text_reads_as_empty(text: str) -> None:
    """Invalid content has no records."""
    assert read_shard(text) == {}
    assert read_shard(f"{HEADER}\n{text}") == {}


@given(st.integers(0, len(f"{HEADER}\n{LINE}\n{LINE}\n")))
def test_cut_text_loses_only_what_was_cut(length: int) -> None:
    """A cut line is not known; those before it are."""
    other = LINE.replace("6f0c", "7a1d")
    whole = f"{HEADER}\n{LINE}\n{other}\n"
    kept = read_shard(whole[:length])
    assert kept.get("6f0c") == (RECORD if length >= len(f"{HEADER}\n{LINE}") else None)
    assert ("7a1d" in kept) is (length >= len(whole) - 1)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param(f"hotmap-state/2\n{LINE}\n", id="another scheme"),
        pytest.param(f"{LINE}\n", id="no header"),
        pytest.param(f"{HEADER}\n{{}}\n", id="another shape"),
        pytest.param(f'{HEADER}\n["u","k","four"]\n', id="a field of another type"),
        pytest.param(f'{HEADER}\n["u","k",4,{"[" * 100_000}\n', id="a deep nesting"),
        pytest.param(f'{HEADER}\n["u","k",4,[],[],[],0,{"[" * 100_000}\n', id="… in a new field"),
    ],
)
def test_unreadable_values_count_as_unknown(text: str) -> None:
    """An unknown scheme and lines in another shape mean that nothing is known."""
    assert read_shard(text) == {}


def test_invalid_line_loses_only_its_record() -> None:
    """What can be read beside a line that cannot is kept."""
    assert read_shard(f"{HEADER}\n\n[broken\n{LINE}\n") == {"6f0c": RECORD}


@given(st.text(), st.sampled_from([1, 2, 4, 8, 16]))
def test_with_twice_as_many_shards_a_record_stays_or_moves_to_a_new_one(
    uid: str, shards: int
) -> None:
    """A consumer's shard depends on its uid alone, and no old shard gets what it had not."""
    before, after = shard_of(uid, shards), shard_of(uid, 2 * shards)
    assert 0 <= before < shards
    assert after in (before, before + shards)


def test_shard_of_a_record_is_stable() -> None:
    """The order in which a release files records binds the next one."""
    assert [shard_of("6f0c", shards) for shards in (1, 2, 4, 8, 16, SHARDS)] == [0, 0, 2, 2, 2, 2]


@pytest.mark.parametrize(
    ("records", "least", "shards"),
    [
        (0, 1, 1),
        (256, 1, 1),
        (257, 1, 2),
        (1000, 1, 4),
        (1025, 1, 8),
        (10, 4, 4),
        (10, 5, 8),
        (8192, 1, 32),
        (100_000, 1, SHARDS),
        (0, SHARDS, SHARDS),
    ],
)
def test_as_many_shards_as_records_want(records: int, least: int, shards: int) -> None:
    """Up to 256 records each, a power of two, never fewer than there are, and at most SHARDS."""
    assert shards_for(records, least=least) == shards


SEEN = SourceChanges(
    ObjectKey("ConfigMap", "shop", "app"),
    (
        ObservedChange(1.5, "1042", frozenset({"b", "a"}), 1.0),
        ObservedChange(2.0, "", frozenset()),
        ObservedChange(9.0, "1050", frozenset(), since=3.0, same=True),
    ),
)

SEEN_LINE = (
    '{"source":["ConfigMap","shop","app"],"sightings":['
    '[1.5,"1042",["a","b"],1.0,false,null,false,false],'
    '[2.0,"",[],null,false,null,false,false],'
    '[9.0,"1050",[],null,false,3.0,true,false]]}'
)


def test_first_shard_says_how_long_sources_were_watched() -> None:
    """A line of its own, which readers of records and changes skip."""
    text = write_shard([RECORD], [SEEN], watched_until=1789.5)
    assert text.endswith('{"watchedUntil":1789.5}\n')
    assert read_watched_until(text) == 1789.5
    assert read_shard(text) == {"6f0c": RECORD}
    assert read_changes(text) == {SEEN.source: SEEN}
    assert read_watched_until(write_shard([RECORD], [SEEN])) is None
    assert read_watched_until(text.replace("1789.5", "null")) is None


def test_source_changes_are_stored_with_records() -> None:
    """A line each, after the records; each reader skips what is the other's."""
    text = write_shard([RECORD], [SEEN])
    assert text == f"{HEADER}\n{LINE}\n{SEEN_LINE}\n"
    assert read_shard(text) == {"6f0c": RECORD}
    assert read_changes(text) == {SEEN.source: SEEN}


def test_changes_of_an_older_version_are_read() -> None:
    """Their lines end where fields were added since."""
    line = '{"source":["ConfigMap","shop","app"],"sightings":[[1.5,"1042",["a"]]]}'
    [each] = read_changes(f"{HEADER}\n{line}\n").values()
    assert each.changes == (ObservedChange(1.5, "1042", frozenset("a")),)


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"hotmap-state/9\n{SEEN_LINE}\n",
        f"{HEADER}\n{SEEN_LINE[:-9]}\n",
        f'{HEADER}\n{{"source":["ConfigMap"]}}\n',
    ],
)
def test_unreadable_source_changes_are_skipped(text: str) -> None:
    """Another scheme, a cut line and foreign content lose evidence, nothing else."""
    assert read_changes(text) == {}
