"""The bounds of the time of a source's last change."""

from __future__ import annotations

import msgspec
import pytest
from tests.support.objects import ENV, KEY, config_map, deployment, sources

from hotmap.core.decide.assessment import Finding, Verdict
from hotmap.core.decide.record import record_applied
from hotmap.core.decide.snapshot import TemplateChange
from hotmap.core.decide.source_changes import (
    SourceHistory,
    WatchGap,
    bound_change,
    bound_start,
    replaces_immutable,
    summarize_changes,
)
from hotmap.core.decide.source_snapshot import (
    ChangeSummary,
    SourceSnapshot,
    StartBound,
    take_snapshots,
)
from hotmap.core.model.observed_changes import make_observed_change, make_unobserved_write
from hotmap.core.model.source import Source
from hotmap.core.model.state import ObservedChange, SourceRecord, StartRecord, Window

#: A pod spec that reads every data key, so that a removed one always matters.
EVERY_KEY = """
    containers:
    - {name: web, envFrom: [{configMapRef: {name: app}}]}
"""
MOUNTED = """
    containers:
    - {name: web, volumeMounts: [{name: v, mountPath: /v}]}
    volumes: [{name: v, configMap: {name: app}}]
"""
OPTIONAL = EVERY_KEY.replace("{name: app}", "{name: app, optional: true}")


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


def bound(
    of: SourceSnapshot, recorded: SourceRecord | None, changes: ChangeSummary
) -> SourceSnapshot:
    """Bound the time of the last change of a source with such changes."""
    return bound_change(of._replace(changes=changes), recorded)


def seen(
    of: SourceSnapshot,
    recorded: SourceRecord | None = None,
    *changes: ObservedChange,
    saved: tuple[ObservedChange, ...] = (),
    listed: tuple[str, float | None] | None = None,
    gap: WatchGap | None = None,
) -> ChangeSummary:
    """Summarize what is known of a source's changes."""
    return summarize_changes(of, recorded, SourceHistory(saved, changes, listed, gap))


def source(data: dict[str, str], *, written: float) -> Source:
    (made,) = sources(config_map("app", data, changed_at=written)).values()
    return made


def test_witnessed_change_counts_as_seen() -> None:
    """A removal that was seen has happened by then, whatever managedFields tell."""
    removed = app({"a": "1"})
    bounded = bound(removed, record(BEFORE, 100.0), ChangeSummary(latest=500.5))
    assert (bounded.changed_at, bounded.estimated) == (500.5, False)


def test_witnessed_write_keeps_the_time_of_the_api_server() -> None:
    """An ordinary edit carries its own time, a moment before its watch event."""
    edited = app({"a": "2"}, written=500.0)
    new = source({"a": "2"}, written=500)
    change = make_observed_change(new, frozenset("a"), removed=False, created=False, now=500.9)
    bounded = bound(edited, record(BEFORE, 100.0), seen(edited, None, change))
    assert bounded.changed_at == 500


@pytest.mark.parametrize(
    ("changed_at", "observed", "until"),
    [
        pytest.param(500.0, 500.2, 500.2, id="when it was observed, in the same second"),
        pytest.param(500.0, None, 501.0, id="the end of its second, if nobody observed it"),
        pytest.param(500.0, 300.5, 501.0, id="or another change was observed"),
        pytest.param(500.7, 500.7, 500.7, id="then, if it has no other time"),
        pytest.param(None, 500.2, None, id="unknown"),
    ],
)
def test_change_of_a_whole_second_had_happened_once_it_was_observed(
    changed_at: float | None, observed: float | None, until: float | None
) -> None:
    """Times in managedFields are cut, so it may have come after what is in the same second."""
    changes = ChangeSummary(latest_by=observed)
    changed = BEFORE._replace(changed_at=changed_at, changes=changes)
    assert changed.changed_until == until


def test_witnessed_removal_right_after_an_edit_is_no_older_than_it_was_seen() -> None:
    """The edit's time is that of the object, and says nothing of the removal 1.4 s later."""
    removed = app({"a": "2"}, written=500.0)
    new = source({"a": "2"}, written=500)
    change = make_observed_change(new, frozenset("b"), removed=True, created=False, now=501.4)
    bounded = bound(removed, record(BEFORE, 100.0), seen(removed, None, change))
    assert bounded.changed_at == 501.4


def test_unwitnessed_removal_has_no_bound() -> None:
    """A source that moved without a newer time: the time is unknown."""
    removed = app({"a": "1"})
    assert bound(removed, record(BEFORE, 100.0), ChangeSummary()).changed_at is None


#: The ConfigMap as it is recorded, and as it was listed after a gap in which both an edit and a
#: removal happened: only the edit moved the time.
AFTER = app({"a": "9"}, written=500.0)._replace(resource_version="7")
GAP = WatchGap(400.0, 900.0)


def test_unwitnessed_edit_and_removal_are_bounded_by_the_listing() -> None:
    """The removal may have come any time after the edit, whose time is all that is written."""
    recorded = record(BEFORE, 100.0)
    known = seen(AFTER, recorded, gap=GAP)
    bounded = bound(AFTER, recorded, known)
    assert (bounded.changed_at, bounded.changed_since) == (900.0, 500.0)
    assert known.window == Window(400.0, 900.0)


def test_unwitnessed_edit_and_removal_without_a_listing_have_no_bound() -> None:
    """Nor does a newer time bound them."""
    assert bound(AFTER, record(BEFORE, 100.0), ChangeSummary()).changed_at is None


def test_unwitnessed_edit_of_a_named_data_key_is_bounded_by_its_time() -> None:
    """The data key is there, and what put it there moved the time."""
    before = app({"LEVEL": "info"}, ENV)
    edited = app({"LEVEL": "debug"}, ENV, written=500.0)._replace(resource_version="7")
    recorded = record(before, 100.0)
    known = seen(edited, recorded, gap=GAP)
    assert bound(edited, recorded, known).changed_at == 500.0
    assert known.window == Window(400.0, 501.0)


@pytest.mark.parametrize(
    "applied",
    [
        pytest.param((ObservedChange(300.5, "50", frozenset("a"), 300.0),), id="observed"),
        pytest.param((), id="not among the changes that are kept"),
    ],
)
def test_changes_count_after_etcd_was_restored(applied: tuple[ObservedChange, ...]) -> None:
    """Older content came back, and was replaced again by what was applied; versions went back."""
    recorded = msgspec.structs.replace(record(BEFORE, 300.0), resource_version="50")
    now = BEFORE._replace(resource_version="8")
    restored = ObservedChange(400.0, "4", frozenset("a"), 100.0)
    again = ObservedChange(410.0, "8", frozenset("a"), 410.0)
    assert seen(now, recorded, *applied, restored, again).window == Window(400.0, 410.0)


def test_unobserved_changes_are_not_bounded_by_stored_changes() -> None:
    """An earlier controller saw an edit, and ended before the removal."""
    recorded = record(BEFORE, 100.0)
    saved = (ObservedChange(399.0, "5", frozenset("a"), 399.0),)
    known = seen(AFTER, recorded, saved=saved, gap=GAP)
    assert bound(AFTER, recorded, known).changed_at == 900.0
    assert known.window == Window(399.0, 900.0)


def test_unwitnessed_revert_leaves_a_window_and_the_recorded_bound() -> None:
    """Equal content under a newer version was maybe another one in between."""
    again = app({"a": "1", "b": "2"}, written=500.0)._replace(resource_version="7")
    recorded = record(BEFORE, 100.0)
    known = seen(again, recorded, gap=GAP)
    assert bound(again, recorded, known).changed_at == 100.0
    assert known.window == Window(400.0, 900.0)


def test_unwitnessed_write_before_the_gap_leaves_no_window() -> None:
    """A label that was written while a controller watched, and not recorded for its own sake."""
    before = app({"LEVEL": "info"}, ENV)
    labelled = before._replace(resource_version="7", changed_at=300.0)
    assert seen(labelled, record(before, 100.0), gap=GAP).window is None


@pytest.mark.parametrize(
    ("spec", "changes", "window"),
    [
        pytest.param(EVERY_KEY, [(500.0, ""), (501.0, "7")], None, id="required"),
        pytest.param(OPTIONAL, [(500.0, ""), (501.0, "7")], (500.0, 501.0), id="optional"),
        pytest.param(
            EVERY_KEY,
            [(500.0, ""), (501.0, "7"), (502.0, ""), (503.0, "9")],
            (500.0, 503.0),
            id="twice, and with other content in between",
        ),
    ],
)
def test_recreated_source_leaves_a_window_if_a_container_can_start_without_it(
    spec: str, changes: list[tuple[float, str]], window: tuple[float, float] | None
) -> None:
    """Nothing starts with the absence of a source that it requires."""
    now = app({"a": "1", "b": "2"}, spec)._replace(uid="uid-2", resource_version="9")
    before = app({"a": "1", "b": "2"}, spec)
    found = [ObservedChange(at, version, frozenset("ab")) for at, version in changes]
    known = seen(now, record(before, 100.0), *found)
    assert known.window == (window and Window(*window))


@pytest.mark.parametrize(
    ("recorded", "versions", "since"),
    [
        pytest.param("5", ("6", "7"), 0, id="two edits"),
        pytest.param("6", ("6", "7"), 1, id="the first one was applied"),
        pytest.param("7", ("6", "7"), None, id="both were applied"),
        pytest.param("5", ("", "6"), 0, id="deleted and created again"),
        pytest.param("6", ("6", ""), 1, id="deleted after the applied version"),
        pytest.param("6", ("6", "", "7"), 1, id="and created again"),
        pytest.param("7", ("6", "", "7"), None, id="which was applied"),
        pytest.param("8", ("6", "", "7", "9"), 3, id="edited after that"),
    ],
)
def test_changes_count_from_the_applied_version(
    recorded: str, versions: tuple[str, ...], since: int | None
) -> None:
    """A deletion has no version, and follows the version before it."""
    asked = msgspec.structs.replace(record(BEFORE, 100.0), resource_version=recorded)
    changes = [
        ObservedChange(500.0 + number, version, frozenset("a"))
        for number, version in enumerate(versions)
    ]
    now = app({"a": "2", "b": "2"}, written=500.0)._replace(resource_version=versions[-1])
    assert seen(now, asked, *changes).first == (None if since is None else 500.0 + since)


@pytest.mark.parametrize(
    ("bound", "since"),
    [
        pytest.param(100.0, 500.0, id="it was applied before"),
        pytest.param(500.0, 501.0, id="the deletion was applied"),
        pytest.param(None, 500.0, id="at an unknown time"),
    ],
)
def test_changes_count_from_an_applied_deletion(bound: float | None, since: float) -> None:
    """The record of a source that was not there has no version, but a time."""
    gone = msgspec.structs.replace(record(BEFORE, bound), uid="", resource_version="")
    changes = [
        ObservedChange(500.0, "", frozenset("a")),
        ObservedChange(501.0, "7", frozenset("a"), created=True),
    ]
    assert seen(app({"a": "2", "b": "2"}, written=501.0), gone, *changes).first == since


def test_version_that_was_recorded_leaves_no_window() -> None:
    """Nothing happened to the source while it was not watched."""
    assert seen(BEFORE, record(BEFORE, 100.0), gap=GAP) == ChangeSummary()


def test_version_that_was_listed_counts_although_it_moved_since() -> None:
    """What this controller saw is not a gap."""
    recorded = record(BEFORE, 100.0)
    change = ObservedChange(950.0, "7", frozenset("a"), 950.0)
    known = seen(AFTER, recorded, change, listed=(recorded.resource_version, 100.0), gap=GAP)
    assert known.window is None
    assert bound(AFTER, recorded, known).changed_at == 950.0


def test_gap_of_unknown_begin_leaves_no_window_but_bounds_changes() -> None:
    """The line that says so was lost."""
    recorded = record(BEFORE, 100.0)
    known = seen(AFTER, recorded, gap=WatchGap(None, 900.0))
    assert known.window is None
    assert bound(AFTER, recorded, known).changed_at == 900.0


def test_unchanged_content_keeps_the_recorded_bound() -> None:
    """Labels and annotations move the time of the object and not that of its data."""
    relabelled = app({"a": "1", "b": "2"}, written=900.0)
    assert bound(relabelled, record(BEFORE, 100.0), ChangeSummary()).changed_at == 100.0


@pytest.mark.parametrize(("spec", "changed_at"), [(ENV, 900.0), (EVERY_KEY, None)])
def test_recreated_object_does_not_keep_the_recorded_bound(
    spec: str, changed_at: float | None
) -> None:
    """Equal content under another uid was away in between."""
    before = app({"LEVEL": "info"}, spec)
    again = before._replace(uid="uid-2", changed_at=900.0)
    assert bound(again, record(before, 100.0), ChangeSummary()).changed_at == changed_at


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
    bounded = bound(taken, None, ChangeSummary())
    assert (bounded.changed_at, bounded.estimated) == (100.0, estimated)


@pytest.mark.parametrize("estimated", [True, False])
def test_estimate_of_the_first_sight_stays_an_estimate(estimated: bool) -> None:
    """The record of an adopted source shows no removal either, until a change is observed."""
    taken = app({"LEVEL": "info"}, EVERY_KEY if estimated else ENV)
    first = bound(taken, None, ChangeSummary())
    recorded = msgspec.structs.replace(record(first, first.changed_at), estimated=first.estimated)
    bounded = bound(taken, recorded, ChangeSummary())
    assert (bounded.changed_at, bounded.estimated) == (100.0, estimated)
    observed = bound(taken, recorded, ChangeSummary(last=500.5, latest=500.5))
    assert (observed.changed_at, observed.estimated) == (500.5, False)


def test_record_without_bound_counts_as_first_sight() -> None:
    """As it was written before bounds were kept."""
    removed = app({"a": "1"})
    earlier = msgspec.structs.replace(record(BEFORE, None), content="")
    assert bound(removed, earlier, ChangeSummary()).estimated


# -- no record, and keys that are not used ---------------------------------------------------------


def test_new_use_is_bounded_by_the_listing_after_an_older_sighting() -> None:
    """An earlier controller saw an edit, and ended before the removal of a key.

    The consumer came to use the source while no controller ran, so there is no record of it.
    """
    saved = (ObservedChange(399.0, "5", frozenset("a"), 399.0),)
    known = seen(AFTER, None, saved=saved, gap=GAP)
    assert known.unobserved_by == 900.0
    bounded = bound(AFTER, None, known)
    assert (bounded.changed_at, bounded.changed_since) == (900.0, 500.0)


def test_new_use_keeps_the_bound_of_a_sighting_that_is_as_new_as_the_listing() -> None:
    """Nothing moved while it was not watched."""
    saved = (ObservedChange(501.0, "7", frozenset("a"), 500.0),)
    known = seen(AFTER, None, saved=saved, gap=GAP)
    assert known.unobserved_by is None
    assert bound(AFTER, None, known).changed_at == 500.0


def test_new_use_of_a_consumer_without_record_has_no_bound_of_a_gap() -> None:
    """It was not watched before, so its earlier content is unknown."""
    history = SourceHistory(gap=GAP)
    assert summarize_changes(AFTER, None, history, is_known=False).unobserved_by is None


OTHER_KEY = {"LEVEL": "info", "unused": "2"}


def test_change_of_an_unused_key_keeps_the_recorded_bound() -> None:
    """What the consumer uses is as it was recorded, whatever the rest of the source is."""
    before = app({"LEVEL": "info", "unused": "1"}, ENV)
    later = app(OTHER_KEY, ENV, written=500.0)._replace(resource_version="7")
    asked = record(before, 100.0)
    sighting = ObservedChange(500.5, "7", frozenset({"unused"}), 500.0)
    known = seen(later, asked, sighting, listed=(asked.resource_version, 100.0), gap=GAP)
    assert (known.first, known.window) == (None, None)
    assert bound(later, asked, known).changed_at == 100.0


@pytest.mark.parametrize("edited", [True, False])
def test_recorded_bound_is_of_the_change_that_was_recorded(edited: bool) -> None:
    """Whether that replaced content is not known from an edit after it, which was reverted."""
    asked = msgspec.structs.replace(record(BEFORE, 100.0), resource_version="9", edited=edited)
    edit = ObservedChange(500.5, "7", frozenset("a"), 500.0)
    revert = ObservedChange(501.5, "9", frozenset("a"), 501.0)
    again = BEFORE._replace(resource_version="9", changed_at=501.0)
    bounded = bound(again, asked, seen(again, asked, edit, revert))
    assert (bounded.changed_at, bounded.edited) == (100.0, edited)


#: A use of the data key `c`, which the source lacks, beside the use of `a`.
OPTIONAL_KEY = """
    containers:
    - name: web
      env:
      - {name: A, valueFrom: {configMapKeyRef: {name: app, key: a}}}
      - {name: C, valueFrom: {configMapKeyRef: {name: app, key: c, optional: true}}}
"""


@pytest.mark.parametrize(
    ("spec", "edited"),
    [
        pytest.param(EVERY_KEY, False, id="required"),
        pytest.param(OPTIONAL, True, id="optional"),
        pytest.param(OPTIONAL_KEY, False, id="a data key that it lacks is optional"),
        pytest.param(OPTIONAL_KEY.replace("key: c,", "key: a,"), True, id="and one that it has"),
    ],
)
def test_creation_replaces_content_that_a_container_may_have_started_without(
    spec: str, edited: bool
) -> None:
    data = {"a": "1", "b": "2"}
    new = source(data, written=500)
    change = make_observed_change(new, frozenset(data), removed=False, created=True, now=500.9)
    assert seen(app(data, spec, written=500.0), None, change).edited is edited


@pytest.mark.parametrize(("written", "created"), [(500.0, True), (None, False)])
def test_creation_counts_if_its_time_is_known(written: float | None, created: bool) -> None:
    """Nothing but the time of the write tells a creation from a source that came into sight."""
    change = ObservedChange(500.9, "7", frozenset("a"), written, created=True)
    assert seen(app({"a": "1"}, written=500.0), None, change).created is created


@pytest.mark.parametrize(
    ("start", "recorded"),
    [
        (None, None),
        (StartBound(400.0, 390.0, edited=True, estimated=False), StartRecord(400.0, edited=True)),
    ],
)
def test_bounds_of_what_is_read_at_start_are_recorded(
    start: StartBound | None, recorded: StartRecord | None
) -> None:
    current = app({"a": "1", "b": "2"}, written=500.0)._replace(start=start)
    finding = Finding(current, Verdict.ADOPT, "")
    made = record_applied(deployment(ENV), None, [finding], key_id=KEY.id, generation=1)
    assert made.sources[0].start == recorded


def test_recorded_bound_does_not_hold_for_other_data_keys() -> None:
    """It was recorded while the edited data key was not used."""
    of_a = app({"a": "1", "b": "3"}, ENV.replace("LEVEL", "a"), written=500.0)
    of_all = app({"a": "1", "b": "3"}, written=500.0)
    bounded = bound(of_all, record(of_a, 100.0), ChangeSummary())
    assert (bounded.changed_at, bounded.estimated) == (500.0, True)


def test_unobserved_change_of_an_unused_key_drops_the_recorded_bound() -> None:
    """A key that is used may have changed and changed back along with it."""
    before = app({"LEVEL": "info", "unused": "1"}, ENV)
    later = app(OTHER_KEY, ENV, written=500.0)._replace(resource_version="7")
    asked = record(before, 100.0)
    assert bound(later, asked, seen(later, asked, gap=GAP)).changed_at == 500.0


def test_unseen_window_starts_at_the_last_saved_sighting() -> None:
    """A controller that stored a change was watching then, after the time stored each minute."""
    asked = record(BEFORE, 100.0)
    saved = (ObservedChange(650.0, "5", frozenset("a"), 650.0),)
    assert seen(AFTER, asked, saved=saved, gap=GAP).window == Window(650.0, 900.0)


# -- a watch that was interrupted ------------------------------------------------------------------


def test_same_data_after_an_interrupted_watch_leaves_a_window() -> None:
    """An edit and its revert before the list that replaced the watch; the bound stays."""
    again = app({"a": "1", "b": "2"}, written=650.0)._replace(resource_version="7")
    asked = record(BEFORE, 100.0)
    new = source({"a": "1", "b": "2"}, written=650.0)
    write = make_unobserved_write(new, since=600.0, now=660.0)
    sighting = msgspec.structs.replace(write, resource_version="7")
    known = seen(again, asked, sighting, listed=(asked.resource_version, 100.0), gap=GAP)
    assert known.window == Window(600.0, 660.0)
    assert bound(again, asked, known).changed_at == 100.0


def test_files_may_be_other_ones_until_the_list_after_an_interrupted_watch() -> None:
    """A kubelet may have written what was there in between into pods that run."""
    data = {"a": "1", "b": "2"}
    before = app(data, MOUNTED)
    again = app(data, MOUNTED, written=650.0)._replace(resource_version="7")
    asked = record(before, 100.0)
    write = make_unobserved_write(source(data, written=650.0), since=600.0, now=660.0)
    sighting = msgspec.structs.replace(write, resource_version="7")
    known = seen(again, asked, sighting, listed=(asked.resource_version, 100.0), gap=GAP)
    assert bound(again, asked, known).changed_at == 660.0


@pytest.mark.parametrize(
    ("deleted", "template", "applied", "expected"),
    [
        pytest.param(None, TemplateChange(100.0, 2), None, False, id="none was deleted"),
        pytest.param(90.0, TemplateChange(100.0, 2), None, False, id="before the template changed"),
        pytest.param(
            110.0, TemplateChange(100.0, 2), None, True, id="while pods of the template ran"
        ),
        pytest.param(110.0, None, None, False, id="the template was not seen to change"),
        pytest.param(110.0, None, 105.0, True, id="and other content was applied before"),
        pytest.param(110.0, TemplateChange(100.0, 2), 115.0, False, id="before what was applied"),
    ],
)
def test_deleted_immutable_source_concerns_templates_that_used_it(
    deleted: float | None, template: TemplateChange | None, applied: float | None, expected: bool
) -> None:
    """Pods of a later template have not used it."""
    recorded = None if applied is None else record(BEFORE, applied)
    history = SourceHistory(immutable_until=deleted)
    assert replaces_immutable(history, template, recorded) is expected


def test_change_that_arrives_late_happened_since_its_written_time() -> None:
    """A watch that stalled, or was resumed, delivers an edit and its revert together."""
    edit = source({"a": "9", "b": "2"}, written=610.0)
    revert = source({"a": "1", "b": "2"}, written=640.0)
    sightings = [
        make_observed_change(new, frozenset("a"), removed=False, created=False, now=660.0)
        for new in (edit, revert)
    ]
    assert [sighting.since for sighting in sightings] == [610.0, 640.0]
    asked = record(BEFORE, 100.0)
    again = BEFORE._replace(resource_version="7")
    late = [msgspec.structs.replace(sighting, resource_version="7") for sighting in sightings]
    known = seen(again, asked, *late, listed=(asked.resource_version, 100.0), gap=GAP)
    assert known.window == Window(610.0, 660.0)


@pytest.mark.parametrize(
    ("progress", "since"),
    [
        pytest.param(None, 610.0, id="nothing is known of the watch"),
        pytest.param(600.0, 610.0, id="the watch has worked before that"),
        pytest.param(620.0, 620.0, id="the watch has worked since"),
    ],
)
def test_later_bound_of_a_late_change_counts(progress: float | None, since: float) -> None:
    """The time in its managedFields is of the writer's clock."""
    new = source({"a": "9", "b": "2"}, written=610.0)
    sighting = make_observed_change(
        new, frozenset("a"), removed=False, created=False, now=660.0, since=progress
    )
    assert sighting.since == since


def test_removal_that_arrives_late_happened_since_the_watch_was_interrupted() -> None:
    """It moves no time, so the last progress of the watch is all that bounds it."""
    new = source({"a": "1"}, written=610.0)
    removal = make_observed_change(
        new, frozenset("b"), removed=True, created=False, now=660.0, since=600.0
    )
    assert (removal.since, removal.written) == (600.0, None)


@pytest.mark.parametrize(
    ("written", "since"),
    [
        pytest.param(659.5, None, id="just now"),
        pytest.param(660.5, None, id="by a clock that is ahead"),
        pytest.param(100.0, None, id="an old object that came into sight"),
        pytest.param(630.0, 630.0, id="half a minute ago"),
    ],
)
def test_time_of_a_late_change_is_believed_within_bounds(
    written: float, since: float | None
) -> None:
    """Watch events are no later than a silent watch is trusted."""
    new = source({"a": "2"}, written=written)
    made = make_observed_change(new, frozenset("a"), removed=False, created=False, now=660.0)
    assert made.since == since


# -- a source that is read at start and as files ---------------------------------------------------

#: `a` is read at start, `b` as a file that is re-read.
MIXED = """
    containers:
    - name: web
      env: [{name: A, valueFrom: {configMapKeyRef: {name: app, key: a}}}]
      volumeMounts: [{name: v, mountPath: /v}]
    volumes: [{name: v, configMap: {name: app, items: [{key: b, path: b}]}}]
"""


def change(at: float, version: str, *keys: str) -> ObservedChange:
    return ObservedChange(at, version, frozenset(keys))


@pytest.mark.parametrize(
    ("changes", "start", "at"),
    [
        pytest.param([change(500.5, "2", "b")], None, 100.0, id="its files were edited"),
        pytest.param([change(500.5, "2", "b")], StartRecord(90.0), 90.0, id="and before that too"),
        pytest.param(
            [change(300.5, "2", "a"), change(400.5, "3", "a"), change(500.5, "4", "b")],
            None,
            400.5,
            id="what is read at start was edited and reverted",
        ),
    ],
)
def test_edit_of_files_does_not_move_what_is_read_at_start(
    changes: list[ObservedChange], start: StartRecord | None, at: float
) -> None:
    """No container has an older variable for it, so none has to be replaced."""
    before = app({"a": "1", "b": "2"}, MIXED)
    now = app({"a": "1", "b": "3"}, MIXED, written=500.0)
    recorded = msgspec.structs.replace(record(before, 100.0), start=start)
    history = SourceHistory((), changes)
    whole = bound(now, recorded, summarize_changes(now, recorded, history))
    bounded = bound_start(whole, recorded, history)
    assert (bounded.changed_at, bounded.at_start.changed_at) == (500.5, at)
    assert [use.path for use in bounded.at_start.uses] == ["containers[web].env[A]"]


@pytest.mark.parametrize(
    ("recorded", "data"),
    [
        pytest.param(None, {"a": "1", "b": "3"}, id="not applied yet"),
        pytest.param(100.0, {"a": "2", "b": "3"}, id="what is read at start changed too"),
    ],
)
def test_start_has_no_bound_of_its_own_without_the_recorded_content(
    recorded: float | None, data: dict[str, str]
) -> None:
    """Then the last change of the source is that of both."""
    before, now = app({"a": "1", "b": "2"}, MIXED), app(data, MIXED, written=500.0)
    known = None if recorded is None else record(before, recorded)
    history = SourceHistory((), [change(500.5, "2", "a", "b")])
    bounded = bound_start(bound(now, known, ChangeSummary(latest=500.5)), known, history)
    assert bounded.at_start is bounded
