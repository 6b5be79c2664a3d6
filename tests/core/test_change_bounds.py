"""By when the last change of a source had happened, as far as anybody can know."""

from __future__ import annotations

import msgspec
import pytest
from tests.support.objects import ENV, KEY, config_map, deployment, sources

from hotmap.core.decide.snapshot import SeenChanges, SourceSnapshot, bound_change, take_snapshots
from hotmap.core.model.state import SourceRecord

#: A pod spec that reads every data key, so that a removed one is missed by nobody.
EVERY_KEY = """
    containers:
    - {name: web, envFrom: [{configMapRef: {name: app}}]}
"""


def app(data: dict[str, str], spec: str = EVERY_KEY, *, written: float = 100.0) -> SourceSnapshot:
    """Take the snapshot of the ConfigMap `app`, whose managedFields name a time."""
    item = config_map("app", data, changed_at=written)
    (taken,) = take_snapshots(deployment(spec).uses, sources(item), KEY)
    return taken


def record(of: SourceSnapshot, changed_by: float | None) -> SourceRecord:
    """Record a source as it was applied."""
    return SourceRecord(
        of.source.kind,
        of.source.name,
        of.digest,
        of.uid,
        of.resource_version,
        of.frozen,
        of.live,
        of.immutable,
        of.content,
        changed_by,
    )


BEFORE = app({"a": "1", "b": "2"})


def test_witnessed_change_counts_as_seen() -> None:
    """A removal that was seen has happened by then, whatever managedFields tell."""
    removed = app({"a": "1"})
    bounded = bound_change(removed, record(BEFORE, 100.0), SeenChanges(latest=500.5))
    assert (bounded.changed_at, bounded.estimated) == (500.5, False)


def test_witnessed_write_keeps_the_time_of_the_api_server() -> None:
    """An ordinary edit carries its own time, a moment before its watch event."""
    edited = app({"a": "2"}, written=500.0)
    assert bound_change(edited, record(BEFORE, 100.0), SeenChanges(latest=500.9)).changed_at == 500


def test_unwitnessed_removal_has_no_bound() -> None:
    """A source that moved without a newer time: nobody knows when."""
    removed = app({"a": "1"})
    assert bound_change(removed, record(BEFORE, 100.0), SeenChanges()).changed_at is None


def test_unwitnessed_edit_with_a_newer_time_has_one() -> None:
    """A value that was written has moved the time."""
    edited = app({"a": "9", "b": "2"}, written=500.0)
    assert bound_change(edited, record(BEFORE, 100.0), SeenChanges()).changed_at == 500.0


def test_unchanged_content_keeps_the_recorded_bound() -> None:
    """Labels and annotations move the time of the object and not that of its data."""
    relabelled = app({"a": "1", "b": "2"}, written=900.0)
    assert bound_change(relabelled, record(BEFORE, 100.0), SeenChanges()).changed_at == 100.0


def test_recreated_object_does_not_keep_the_recorded_bound() -> None:
    """Equal content under another uid was away in between."""
    again = BEFORE._replace(uid="uid-2", changed_at=900.0)
    assert bound_change(again, record(BEFORE, 100.0), SeenChanges()).changed_at == 900.0


@pytest.mark.parametrize(
    ("spec", "estimated"),
    [
        pytest.param(EVERY_KEY, True, id="every data key is used: one may have been removed"),
        pytest.param(ENV, False, id="the one that is used is there"),
        pytest.param(
            ENV.replace("key: LEVEL", "key: LEVEL, optional: true"), True, id="it is optional"
        ),
    ],
)
def test_first_sight_is_estimated_where_a_removal_would_go_unnoticed(
    spec: str, estimated: bool
) -> None:
    """Without a record managedFields are all there is."""
    taken = app({"LEVEL": "info"}, spec)
    bounded = bound_change(taken, None, SeenChanges())
    assert (bounded.changed_at, bounded.estimated) == (100.0, estimated)


def test_record_without_bound_counts_as_first_sight() -> None:
    """As it was written before bounds were kept."""
    removed = app({"a": "1"})
    earlier = msgspec.structs.replace(record(BEFORE, None), content="")
    assert bound_change(removed, earlier, SeenChanges()).estimated
