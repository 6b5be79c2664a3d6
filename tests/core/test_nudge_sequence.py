"""The number of a nudge tells an agent whether its pod may have content that it was not told of."""

from __future__ import annotations

import pytest
from msgspec import structs
from tests.core.freshness import app, applied_record
from tests.support.objects import config_map, deployment, snapshot, with_changes

from hotmap.core.decide.nudge_sequence import NudgeNumbers
from hotmap.core.decide.snapshot import Snapshot
from hotmap.core.decide.source_snapshot import ChangeSummary
from hotmap.core.model.state import Window
from hotmap.core.target import Target

#: A pod spec with the files of two ConfigMaps.
TWO = """
    containers:
    - name: web
      volumeMounts:
      - {name: config, mountPath: /etc/app}
      - {name: more, mountPath: /etc/more}
    volumes:
    - {name: config, configMap: {name: app}}
    - {name: more, configMap: {name: more}}
"""

ONE_CHANGE = ChangeSummary(first=1000.0, last=1000.0)
SEVERAL = ChangeSummary(first=999.5, last=1000.0, window=Window(999.5, 1000.0))
UNOBSERVED = ChangeSummary(unobserved_by=1000.0)
NO_CHANGE = ChangeSummary()


def edited(app_changes: ChangeSummary, more_changes: ChangeSummary, *, before: float) -> Snapshot:
    """Take a snapshot after edits; each source was edited at `before`, or created at 0."""
    who = deployment(TWO)
    more = config_map("more", {"motd": "hello"}, changed_at=before)
    record = applied_record(who, app({"LEVEL": "info"}, changed_at=before), more)
    # That was an edit, unless it was the creation.
    edits = [structs.replace(each, edited=before > 0) for each in record.sources]
    record = structs.replace(record, sources=tuple(edits))
    now = [
        app({"LEVEL": "debug"}, version=2) if app_changes != NO_CHANGE else app({"LEVEL": "info"}),
        config_map("more", {"motd": "hi"}, version=2) if more_changes != NO_CHANGE else more,
    ]
    return with_changes(snapshot(who, *now, record=record), app_changes, more_changes)


def told(taken: Snapshot, which: str) -> Target | None:
    """Make the target of a pod's last nudge, the fourth."""
    assert taken.recorded_target is not None
    return {
        "nothing": None,
        "applied": taken.recorded_target._replace(sequence=4),
        "desired": taken.target._replace(sequence=4),
        "other": Target(4, "other", "-"),
    }[which]


@pytest.mark.parametrize(
    ("which", "app_changes", "more_changes", "before", "expected"),
    [
        pytest.param("applied", ONE_CHANGE, NO_CHANGE, 0.0, 5, id="one edit"),
        pytest.param("nothing", ONE_CHANGE, NO_CHANGE, 0.0, 1, id="the first nudge of a pod"),
        # Nobody nudged it with the applied version, which its kubelet may show late.
        pytest.param("nothing", ONE_CHANGE, NO_CHANGE, 950.0, 2, id="the first nudge, just edited"),
        pytest.param("applied", SEVERAL, NO_CHANGE, 0.0, 6, id="two edits"),
        pytest.param("nothing", SEVERAL, NO_CHANGE, 0.0, 2, id="two edits before the first nudge"),
        pytest.param("applied", UNOBSERVED, NO_CHANGE, 0.0, 6, id="edits while nothing watched"),
        pytest.param("other", ONE_CHANGE, NO_CHANGE, 0.0, 6, id="told of neither"),
        pytest.param("desired", SEVERAL, NO_CHANGE, 0.0, 5, id="a repetition"),
        pytest.param("applied", ONE_CHANGE, ONE_CHANGE, 0.0, 5, id="two sources, long unchanged"),
        # Files of the version before may come late, beside new ones of the other source.
        pytest.param("applied", ONE_CHANGE, ONE_CHANGE, 950.0, 6, id="two sources, just edited"),
        pytest.param("applied", ONE_CHANGE, NO_CHANGE, 999.0, 5, id="one source, just edited"),
    ],
)
def test_number_is_left_out_where_other_content_may_be_shown(
    which: str,
    app_changes: ChangeSummary,
    more_changes: ChangeSummary,
    before: float,
    expected: int,
) -> None:
    """One nudge after the other by one; by two where content in between was not announced."""
    taken = edited(app_changes, more_changes, before=before)
    assert NudgeNumbers(taken).after(told(taken, which)) == expected


def test_number_is_left_out_where_the_applied_content_is_unknown() -> None:
    """Without a record, any content may have been shown since the last nudge."""
    taken = snapshot(deployment(TWO), app(), config_map("more", {"motd": "hi"}))
    assert taken.recorded_target is None
    assert NudgeNumbers(taken).after(Target(4, "other", "-")) == 6
