"""State is read across versions: what the two versions before wrote, and by the one before.

The files in data/state are shards as each version wrote them. Who changes the format moves them
one version back, replaces `current.txt`, and brings the types of the version before up to date.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.support.shards import write_shard

from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.state import (
    UNVOUCHED,
    ForeignWrites,
    ImmutableUse,
    ObservedChange,
    PodCheck,
    Record,
    RetiredRevision,
    RolloutTimes,
    SourceChanges,
    SourceRecord,
    StartRecord,
    Window,
    read_changes,
    read_shard,
    read_watched_until,
)

DATA = Path(__file__).with_name("data") / "state"
APP = ObjectKey("ConfigMap", "shop", "app")

#: What the files of all versions have in common.
RECORDS = [
    Record(
        "6f0c-1",
        "kH3x",
        4,
        (
            SourceRecord(
                "ConfigMap", "app", "Zk", "9d1", "1042", "uY3", "-", False, "c0nt3nt", 1789.5
            ),
            SourceRecord("Secret", "db", "Qa", "9d2", "1043", "", "l1v", True, "c0nt3nt", 1789.5),
        ),
        (Window(1700.0, 1701.5),),
        (RetiredRevision("kH3x-old", 1600.0),),
        2,
        RolloutTimes((1500.0, 1600.0), 1),
        "kH3x-new",
        PodCheck.CURRENT,
        "shop",
        ForeignWrites(1400.0, "seen"),
    ),
    Record("6f0c-2", "kH3x", UNVOUCHED, pods_checked=PodCheck.LATENT, namespace="shop"),
]
SEEN = SourceChanges(
    APP,
    (
        ObservedChange(1789.5, "1042", frozenset({"LEVEL", "MODE"})),
        ObservedChange(1790.0, "", frozenset()),
    ),
)


def current_records() -> list[Record]:
    """Return the same records with what the current version added."""
    first, second = RECORDS
    edited = msgspec.structs.replace(
        first.sources[0],
        edited=True,
        adopted="1042",
        start=StartRecord(1780.0),
        older_starts_until=1640.0,
    )
    pinned = msgspec.structs.replace(first.sources[1], pinned=True, shared_at=1788.0)
    rolls = RolloutTimes((1500.0, 1600.0), 1, ("a", "b"), "released")
    return [
        msgspec.structs.replace(
            first,
            sources=(edited, pinned),
            rollouts=rolls,
            proven_since=1650.0,
            healed="kH3x-new",
            former=(pinned,),
            immutable_uses=(ImmutableUse("ConfigMap", "extra", "9d3"),),
            files_at_start=True,
            retired=(msgspec.structs.replace(first.retired[0], observed=True, unmarked=True),),
            replaced_at=1655.0,
        ),
        second,
    ]


def current_seen() -> SourceChanges:
    first, second = SEEN.changes
    return SourceChanges(
        APP,
        (
            msgspec.structs.replace(first, written=1789.0, created=True),
            msgspec.structs.replace(second, since=1788.5, same=True),
        ),
    )


def text(name: str) -> str:
    return (DATA / f"{name}.txt").read_text()


def test_current_file_is_what_this_version_writes() -> None:
    """A change of the format is noticed here."""
    written = write_shard(current_records(), [current_seen()], watched_until=1795.5)
    assert written == text("current")


def test_current_file_is_read_as_it_was_written() -> None:
    """Every field."""
    assert list(read_shard(text("current")).values()) == current_records()
    assert read_changes(text("current")) == {APP: current_seen()}
    assert read_watched_until(text("current")) == 1795.5


@pytest.mark.parametrize("name", ["one-version-back", "two-versions-back"])
def test_older_state_is_read(name: str) -> None:
    """Every record and every change; what is newer has its default."""
    assert list(read_shard(text(name)).values()) == RECORDS
    assert read_changes(text(name)) == {APP: SEEN}
    assert read_watched_until(text(name)) is None


# -- the types of the version before, as far as it reads them --------------------------------------


class _PreviousSource(msgspec.Struct, array_like=True):
    kind: str
    name: str
    uses: str
    uid: str
    resource_version: str
    frozen: str
    live: str
    immutable: bool
    content: str = ""
    changed_by: float | None = None


class _PreviousRolls(msgspec.Struct, array_like=True, frozen=True):
    times: tuple[float, ...] = ()
    held: int = 0
    contents: tuple[str, ...] = ()
    release: str = ""


class _PreviousRevision(msgspec.Struct, array_like=True):
    revision: str
    at: float


class _PreviousRecord(msgspec.Struct, array_like=True):
    uid: str
    key_id: str
    generation: int
    sources: tuple[_PreviousSource, ...] = ()
    windows: tuple[tuple[float, float], ...] = ()
    left: tuple[_PreviousRevision, ...] = ()
    serial: int = 0
    rolls: _PreviousRolls = _PreviousRolls()
    revision: str = ""
    pods_checked: int = 0
    namespace: str = ""
    others: tuple[float, str] | None = None


class _PreviousSighting(msgspec.Struct, array_like=True):
    at: float
    resource_version: str
    keys: frozenset[str]


class _PreviousSeen(msgspec.Struct):
    source: tuple[str, str, str]
    sightings: tuple[_PreviousSighting, ...]


def test_previous_version_reads_what_this_one_writes() -> None:
    """A downgrade keeps all that the version before knows: no record is adopted again."""
    header, *lines = text("current").splitlines()
    assert header == text("one-version-back").splitlines()[0]
    old = [line for line in text("one-version-back").splitlines()[1:] if line.startswith("[")]
    new = [line for line in lines if line.startswith("[")]
    decoder = msgspec.json.Decoder(_PreviousRecord)
    for before, after in zip(old, new, strict=True):
        expected, found = decoder.decode(before), decoder.decode(after)
        # The fields that only the current file has values for.
        found.rolls = msgspec.structs.replace(found.rolls, contents=(), release="")
        assert found == expected
    seen = [line for line in lines if "sightings" in line]
    (expected_seen,) = (
        line for line in text("one-version-back").splitlines() if "sightings" in line
    )
    seen_decoder = msgspec.json.Decoder(_PreviousSeen)
    assert [seen_decoder.decode(line) for line in seen] == [seen_decoder.decode(expected_seen)]


def test_unknown_lines_and_fields_of_a_newer_version_are_skipped() -> None:
    """As the version before skips ours; the records around them are kept."""
    header, first, *rest = text("current").splitlines()
    newer = [header, first[:-1] + ',{"new":1}]', '{"newKindOfLine":{"a":[1]}}', *rest, ""]
    assert list(read_shard("\n".join(newer)).values()) == current_records()
    assert read_watched_until("\n".join(newer)) == 1795.5
